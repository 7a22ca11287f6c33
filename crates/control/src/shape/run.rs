//! A run as it is now: the fields that the command line and the HTTP API share.

use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Run, State, Workload, label};
use redrive_core::time::Timestamp;
use redrive_store::Submitted;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::run_event::RunEventShape;

#[derive(Debug, Serialize, JsonSchema)]
pub struct RunShape {
    pub id: RunId,
    pub workload: Workload,
    pub category: String,
    /// The word that users of the workload know.
    pub status: &'static str,
    pub state: State,
    pub task_id: Option<TaskId>,
    pub retry_count: u32,
    pub next_retry_at: Option<Timestamp>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub error_traceback: Option<String>,
    pub submitted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub last_heartbeat: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    #[schemars(with = "Option<Map<String, Value>>")]
    pub metrics: Option<Box<RawValue>>,
    /// What happened to it, the first thing first; where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<RunEventShape>>,
}

impl From<Run> for RunShape {
    fn from(run: Run) -> Self {
        Self {
            id: run.run_id,
            workload: run.workload(),
            category: run.work.category().to_owned(),
            status: label(&run),
            state: run.state,
            task_id: run.task_id,
            retry_count: run.retry_count,
            next_retry_at: run.next_retry_at,
            error_class: run.error_class,
            submitted_at: run.submitted_at,
            started_at: run.started_at,
            last_heartbeat: run.last_heartbeat,
            completed_at: run.completed_at,
            // Metrics are an object; a text that is none was not written by this program.
            metrics: run.metrics.and_then(|metrics| RawValue::from_string(metrics).ok()),
            error_message: run.error_message,
            error_traceback: run.error_traceback,
            history: None,
        }
    }
}

/// What became of a job that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SubmittedShape {
    pub id: RunId,
    /// It was there already, by its external id.
    pub existing: bool,
}

impl From<Submitted> for SubmittedShape {
    fn from(Submitted { run_id, existing }: Submitted) -> Self {
        Self { id: run_id, existing }
    }
}
