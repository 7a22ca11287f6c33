//! How a workload is doing, as seed dashboards read it.

use std::collections::BTreeMap;

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{State, Workload};
use redrive_core::time::Timestamp;
use redrive_store::{PastFailure, RunMetrics};
use schemars::JsonSchema;
use serde::Serialize;

use super::status::Bounded;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunMetricsShape {
    pub workload: Workload,
    /// How many runs there are of each status.
    pub status_counts: BTreeMap<&'static str, u64>,
    /// The statuses of which there may be more than are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<&'static str>,
    pub retry_stats: RetryStatsShape,
    /// Of runs that are done, in seconds; none where none is.
    pub avg_duration: Option<f64>,
    /// The newest first.
    pub recent_failures: Vec<FailureShape>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetryStatsShape {
    pub retried_runs: u64,
    pub total_retries: u64,
    pub max_retries: u64,
}

/// One failed try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailureShape {
    pub run_id: RunId,
    pub attempt: u32,
    pub at: Timestamp,
    pub error_class: ErrorClass,
    pub error_message: String,
    pub worker: Option<String>,
}

impl From<PastFailure> for FailureShape {
    fn from(failure: PastFailure) -> Self {
        Self {
            run_id: failure.run_id,
            attempt: failure.attempt,
            at: failure.record.at,
            error_class: failure.record.class,
            error_message: failure.record.message,
            worker: failure.record.worker,
        }
    }
}

impl RunMetricsShape {
    pub fn new(workload: Workload, metrics: RunMetrics) -> Self {
        let mut counted: BTreeMap<&'static str, Bounded> = BTreeMap::new();
        for (state, count) in metrics.by_state {
            let sum = counted.entry(status(workload, state)).or_default();
            *sum = *sum + Bounded::new(count);
        }
        let at_least = counted.iter().filter(|(_, count)| count.is_at_least()).map(|(status, _)| *status).collect();
        Self {
            workload,
            status_counts: counted.into_iter().map(|(status, count)| (status, count.number())).collect(),
            at_least,
            retry_stats: RetryStatsShape {
                retried_runs: metrics.retried_runs,
                total_retries: metrics.total_retries,
                max_retries: metrics.max_retries,
            },
            avg_duration: metrics.average_duration.map(|average| average.as_secs_f64()),
            recent_failures: metrics.recent_failures.into_iter().map(FailureShape::from).collect(),
        }
    }
}

/// An upload has the words of its senders; what a job's word is depends on more than its state.
fn status(workload: Workload, state: State) -> &'static str {
    match (workload, state) {
        (Workload::Ingest, State::Storing) => "PENDING",
        (Workload::Ingest, State::Queued | State::Waiting) => "STORED",
        (Workload::Ingest, State::Running) => "PARSING",
        (Workload::Ingest, State::Done) => "COMPLETE",
        (Workload::Ingest, State::Dead) => "FAILED",
        (Workload::Extract | Workload::Process, state) => state.as_str(),
    }
}
