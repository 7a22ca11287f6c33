//! What the control plane knows of each source: its policy, and what is expected of it.

use std::collections::BTreeMap;

use redrive_core::calendar::Calendar;
use redrive_core::key::{CustomerId, QueryName, Source};
use redrive_core::retry::RetryPolicy;
use redrive_core::safety;

#[derive(Debug, Clone)]
pub struct SourceRules {
    pub retry: RetryPolicy,
    /// From how many attempts on `mark-terminal` is allowed, where it is not the policy's limit.
    pub terminal_after: Option<u32>,
    pub customers: Vec<CustomerId>,
    pub queries: Vec<QueryName>,
    pub calendar: Option<Calendar>,
    /// Whether a worker with this configuration can extract it.
    pub has_extract: bool,
}

impl Default for SourceRules {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::partitions(),
            terminal_after: None,
            customers: vec![],
            queries: vec![],
            calendar: None,
            has_extract: false,
        }
    }
}

impl SourceRules {
    /// From how many attempts on a partition may be marked terminal.
    pub fn terminal_threshold(&self) -> u32 {
        safety::terminal_threshold(self.terminal_after, &self.retry)
    }
}

/// The rules of every source; one that is not configured has the defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    known: BTreeMap<Source, SourceRules>,
    unknown: SourceRules,
}

impl Sources {
    pub fn new(known: BTreeMap<Source, SourceRules>) -> Self {
        Self { known, unknown: SourceRules::default() }
    }

    pub fn of(&self, source: &Source) -> &SourceRules {
        self.known.get(source).unwrap_or(&self.unknown)
    }

    pub fn is_known(&self, source: &Source) -> bool {
        self.known.contains_key(source)
    }

    pub fn known(&self) -> impl Iterator<Item = (&Source, &SourceRules)> {
        self.known.iter()
    }
}
