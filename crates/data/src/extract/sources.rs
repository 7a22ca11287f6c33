//! The sources that a worker extracts: how each is asked, and what must be true of its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::hold::HoldScope;
use redrive_core::key::{PartitionKey, QueryName, Source};
use redrive_store::DataStore;

use super::{Extractor, Job, Template};
use crate::validate::{Rules, ValidatorProgram};

/// What the configuration says of one source.
#[derive(Debug, Clone)]
pub struct ConfiguredSource {
    pub extractor: Arc<dyn Extractor>,
    pub timeout: Duration,
    pub queries: BTreeMap<QueryName, Template>,
    pub rules: Rules,
    /// Asked last whether what came is right.
    pub validator: Option<Arc<ValidatorProgram>>,
    /// The most attempts in flight at once, on all machines together.
    pub max_in_flight: Option<u32>,
    /// The most bytes that an attempt may bring.
    pub max_bytes: u64,
    /// The longest that a source's word on when to come again is heeded.
    pub longest_hint: Duration,
    /// How long a rate limit without a hint of the source holds back its siblings.
    pub cooldown: Duration,
    /// How long the waits that its rate limits ask of one request may be together, before one counts; none means for ever.
    pub rate_limit_budget: Option<Duration>,
    pub breaker: BreakerPolicy,
    /// After how many attempts its policy has it tried no more. The daemon decides that; here it is only counted.
    pub max_attempts: Option<u32>,
}

impl ConfiguredSource {
    /// What is configured and not found on this machine.
    pub fn missing(&self) -> Vec<String> {
        self.extractor.missing().into_iter().chain(self.missing_to_judge()).collect()
    }

    /// What of that is needed to judge an attempt.
    pub(super) fn missing_to_judge(&self) -> Vec<String> {
        let program = self.validator.as_deref().map(ValidatorProgram::missing).unwrap_or_default();
        self.rules.missing().into_iter().chain(program).collect()
    }
}

/// The sources that a worker serves. It claims nothing of any other.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    sources: BTreeMap<Source, Arc<ConfiguredSource>>,
}

impl Sources {
    pub fn new(sources: BTreeMap<Source, ConfiguredSource>) -> Self {
        Self { sources: sources.into_iter().map(|(name, source)| (name, Arc::new(source))).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub fn names(&self) -> Vec<Source> {
        self.sources.keys().cloned().collect()
    }

    /// The sources that cannot be used on this machine, and why.
    pub fn missing(&self) -> BTreeMap<Source, String> {
        let why = |(name, source): (&Source, &Arc<ConfiguredSource>)| {
            Some(source.missing()).filter(|missing| !missing.is_empty()).map(|why| (name.clone(), why.join("; ")))
        };
        self.sources.iter().filter_map(why).collect()
    }

    /// Why attempts at a partition of a source could not be made here, besides what keeps the whole source from being used.
    pub fn missing_for(&self, key: &PartitionKey) -> Vec<String> {
        let source = self.sources.get(&key.source);
        source.map(|source| source.extractor.missing_for(&Job::imagined(key.clone()))).unwrap_or_default()
    }

    /// The names of the machines that each source connects to.
    pub fn hosts(&self) -> BTreeMap<Source, Vec<String>> {
        self.sources.iter().map(|(name, source)| (name.clone(), source.extractor.hosts())).collect()
    }

    /// Holds those that cannot be used here, and has the others looked at again that could not be used before: when a
    /// worker starts, and when it has read its configuration again.
    pub async fn hold_missing(&self, data: &DataStore, worker: &str) -> redrive_store::Result<()> {
        let missing = self.missing();
        for (source, why) in &missing {
            tracing::warn!(%source, why, "the source cannot be used; it is held, and looked at again in a minute");
            data.hold_unusable(&HoldScope::Source(source.clone()), why, worker).await?;
        }
        let others: Vec<Source> = self.names().into_iter().filter(|name| !missing.contains_key(name)).collect();
        data.look_again(&others).await
    }

    pub(super) fn get(&self, name: &Source) -> Option<Arc<ConfiguredSource>> {
        self.sources.get(name).cloned()
    }

    pub(super) fn breakers(&self) -> BTreeMap<Source, BreakerPolicy> {
        self.sources.iter().map(|(name, source)| (name.clone(), source.breaker)).collect()
    }

    pub fn max_in_flight(&self) -> BTreeMap<Source, u32> {
        let limited = |(name, source): (&Source, &Arc<ConfiguredSource>)| Some((name.clone(), source.max_in_flight?));
        self.sources.iter().filter_map(limited).collect()
    }
}
