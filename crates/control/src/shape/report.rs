//! What an operation did.

use redrive_core::id::OpId;
use redrive_core::key::PartitionKey;
use redrive_core::partition::{Partition, Status};
use redrive_core::refusal::{Reason, Refused};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    #[serde(flatten)]
    pub key: PartitionKey,
    pub from: Option<&'static str>,
    pub to: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    #[serde(flatten)]
    pub key: PartitionKey,
    pub reason: Reason,
    /// Whether a rule stood against it, as opposed to there being nothing to do.
    #[serde(skip)]
    pub refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    #[serde(flatten)]
    pub key: PartitionKey,
    pub error: String,
}

/// Why an operation ended before its time. What it had done by then stands, and running it again finishes the work.
#[derive(Debug)]
pub enum Halt {
    Interrupted,
    Fault(crate::Error),
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub operation: &'static str,
    pub op_id: Option<OpId>,
    pub dry_run: bool,
    pub matched: u64,
    pub changed: Vec<Changed>,
    pub skipped: Vec<Skipped>,
    pub failed: Vec<Failed>,
    #[serde(skip)]
    pub halt: Option<Halt>,
}

impl Report {
    pub fn new(operation: &'static str, dry_run: bool) -> Self {
        Self {
            operation,
            op_id: None,
            dry_run,
            matched: 0,
            changed: vec![],
            skipped: vec![],
            failed: vec![],
            halt: None,
        }
    }

    pub(crate) fn change(&mut self, before: Option<&Partition>, after: &Partition) {
        let from = before.map(status_word);
        self.changed.push(Changed { key: after.state.key.clone(), from, to: status_word(after) });
    }

    pub(crate) fn skip(&mut self, key: PartitionKey, refused: Refused) {
        let is_rule = match refused {
            Refused::Rule(_) => true,
            Refused::NoOp(_) => false,
        };
        self.skipped.push(Skipped { key, reason: refused.reason(), refused: is_rule });
    }

    pub fn count_changed(&self) -> u64 {
        u64::try_from(self.changed.len()).unwrap_or(u64::MAX)
    }

    pub fn any_refused(&self) -> bool {
        self.skipped.iter().any(|skipped| skipped.refused)
    }
}

/// One word for a partition: its status, or what an operator asked for beside it.
fn status_word(partition: &Partition) -> &'static str {
    let control = &partition.control;
    match partition.state.status {
        _ if control.paused.is_some() => "paused",
        Status::Failed if control.terminal.is_some() => "terminal",
        Status::Success if control.reprocess_rejected() => "reprocess_rejected",
        Status::Success if control.reprocess.is_some() => "reprocess",
        Status::Pending | Status::Success | Status::Failed => partition.state.status.as_str(),
    }
}
