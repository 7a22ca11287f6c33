//! What a worker knows of each source: how to extract it, what is asked, and what must be true of the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::key::{QueryName, Source};

use crate::extract::{Extractor, Template};
use crate::validate::Rules;

#[derive(Debug, Clone)]
pub struct SourcePlan {
    pub extractor: Arc<dyn Extractor>,
    pub timeout: Duration,
    pub queries: BTreeMap<QueryName, Template>,
    pub rules: Rules,
    /// The most attempts in flight at once, on all machines together.
    pub max_in_flight: Option<u32>,
    /// How long a rate limit that does not say holds back its siblings.
    pub cooldown: Duration,
}

/// The sources that a worker serves. It claims nothing of any other.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    sources: BTreeMap<Source, Arc<SourcePlan>>,
}

impl Plan {
    pub fn new(sources: BTreeMap<Source, SourcePlan>) -> Self {
        Self { sources: sources.into_iter().map(|(source, plan)| (source, Arc::new(plan))).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub fn sources(&self) -> Vec<Source> {
        self.sources.keys().cloned().collect()
    }

    pub(super) fn of(&self, source: &Source) -> Option<Arc<SourcePlan>> {
        self.sources.get(source).cloned()
    }

    pub(super) fn max_in_flight(&self) -> BTreeMap<Source, u32> {
        let limited = |(source, plan): (&Source, &Arc<SourcePlan>)| Some((source.clone(), plan.max_in_flight?));
        self.sources.iter().filter_map(limited).collect()
    }
}
