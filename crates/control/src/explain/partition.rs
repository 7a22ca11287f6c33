//! What is known of a partition and around it, brought together into one explanation.

use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::outlook::Outlook;
use redrive_core::partition::{Partition, Status};
use redrive_core::process::{Kind, Living, Process};
use redrive_core::reason::{self, Circumstances, Reason, Service};
use redrive_core::run::Verdict;
use redrive_core::time::Timestamp;
use redrive_store::InFlightOf;
use schemars::JsonSchema;
use serde::Serialize;

use super::absent;
use super::scene::Scene;
use crate::error::Result;
use crate::insight::Insight;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    #[serde(flatten)]
    pub key: PartitionKey,
    /// None where there is no entry.
    pub status: Option<&'static str>,
    pub reason: Reason,
    /// The reason in words, with its numbers.
    pub because: String,
    /// What an operator can do about it. Each interface has its own words for it.
    #[serde(skip)]
    pub action: Option<Action>,
    pub next_retry_at: Option<Timestamp>,
    pub attempt_count: u32,
    pub max_attempts: Option<u32>,
    /// How many attempts persons gave beyond that.
    pub granted: u32,
    /// How many of the attempts at a reprocess were rejected since it was asked for: these are what counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reprocess_rejected: Option<u32>,
    /// What the last attempt said, where it was rejected.
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub now: Timestamp,
}

/// What changes how things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Resume,
    /// Retry it now.
    Retry,
    /// Retry it past its mark or its policy.
    RetryClearingTerminal,
    /// Retry it although it is pending.
    RetryStale,
    Reprocess,
    /// Pause it, so that it is not tried again.
    Pause,
    StartWorker,
    StartDaemon,
    /// Say in the configuration how the source is extracted.
    Configure,
    /// Want it although no calendar does.
    Backfill,
    LiftHold,
}

impl Insight {
    /// Explains one partition, also where there is no entry.
    pub async fn explain(&self, key: &PartitionKey) -> Result<Explanation> {
        let processes = self.view().processes().await?;
        let living = Living::of(&processes, self.now());
        match self.view().partition(key).await? {
            Some(partition) => self.explain_present(&partition, &living).await,
            None => Ok(absent::explain(self, key, &living)),
        }
    }

    async fn explain_present(&self, partition: &Partition, living: &Living<'_>) -> Result<Explanation> {
        let key = &partition.state.key;
        let outlook = self.outlook(partition, &self.holds().await?);
        let policy = &self.sources().of(&key.source).retry;
        let (error_class, error_message) = self.last_word(partition).await?;
        let attempt = match outlook.run_id() {
            Some(run_id) => self.view().run(run_id).await?,
            None => None,
        };
        let is_queued = matches!(outlook, Outlook::Queued { .. });
        let in_flight = if is_queued { self.view().in_flight_of(key.source.clone()).await? } else { vec![] };
        let limit = living.limit(&key.source);
        let now = self.now();
        let service = self.service(key, living);
        let circumstances = Circumstances {
            service,
            has_daemon: living.has(Kind::Daemon),
            lease_expired: attempt.as_ref().and_then(|run| run.lease_until).is_some_and(|until| until <= now),
            at_limit: limit.is_some_and(|limit| attempts(&in_flight) >= u64::from(limit)),
            reprocess: partition.state.status == Status::Success,
        };
        let reason = reason::of(&outlook, &circumstances);
        let scene = Scene {
            partition,
            policy,
            attempt,
            rejected: error_class.is_some(),
            reason,
            service,
            limit,
            in_flight,
            living,
            now,
        };
        Ok(Explanation {
            key: key.clone(),
            status: Some(partition.state.status.as_str()),
            reason,
            because: scene.in_words(&outlook),
            action: scene.action(&outlook),
            next_retry_at: outlook.next_retry_at(),
            attempt_count: partition.state.attempt_count,
            max_attempts: policy.attempt_limit(),
            granted: partition.control.granted,
            reprocess_rejected: partition.control.reprocess.map(|request| request.rejected),
            error_class,
            error_message,
            now,
        })
    }

    /// Whether a living worker could take it; where none could, whether one with this configuration could.
    fn service(&self, key: &PartitionKey, living: &Living<'_>) -> Service {
        if living.extracting(&key.source).next().is_some() {
            return Service::Served;
        }
        match (self.sources().is_known(&key.source), self.sources().of(&key.source).has_extract) {
            (true, true) => Service::NoWorker,
            (true, false) => Service::NoExtract,
            (false, _) => Service::Unknown,
        }
    }

    /// What the last attempt said, where it was rejected. A success does not tell of a later attempt; its runs do.
    async fn last_word(&self, partition: &Partition) -> Result<(Option<ErrorClass>, Option<String>)> {
        match partition.state.status {
            Status::Pending | Status::Failed => {
                Ok((partition.state.error_class, partition.state.error_message.clone()))
            }
            Status::Success => {
                let attempts = self.view().attempts(&partition.state.key).await?;
                let last = attempts.into_iter().rfind(|run| run.verdict.is_some());
                let rejected = last.filter(|run| run.verdict == Some(Verdict::Failed));
                Ok(rejected.map_or((None, None), |run| (run.error_class, run.error_message)))
            }
        }
    }
}

pub(super) fn attempts(in_flight: &[InFlightOf]) -> u64 {
    in_flight.iter().map(|one| one.attempts).sum()
}

/// The names of processes, a few of them.
pub(super) fn names<'a>(processes: impl Iterator<Item = &'a Process>) -> String {
    const SHOWN: usize = 3;
    let all: Vec<&str> = processes.map(|process| process.name.as_str()).collect();
    match all.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", all[..SHOWN].join(", ")),
        _ => all.join(", "),
    }
}
