//! One attempt at a partition.

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{Outcome, Run, outcome};
use redrive_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AttemptShape {
    pub run_id: RunId,
    pub attempt: u32,
    pub outcome: Outcome,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub record_count: Option<u64>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

/// What of a run's metrics is shown.
#[derive(Deserialize)]
struct Metrics {
    records: Option<u64>,
}

impl From<&Run> for AttemptShape {
    fn from(run: &Run) -> Self {
        let metrics = run.metrics.as_deref().and_then(|text| serde_json::from_str::<Metrics>(text).ok());
        Self {
            run_id: run.run_id,
            attempt: run.attempt,
            outcome: outcome(run),
            error_class: run.error_class,
            error_message: run.error_message.clone(),
            record_count: metrics.and_then(|metrics| metrics.records),
            started_at: run.started_at,
            finished_at: run.completed_at,
        }
    }
}
