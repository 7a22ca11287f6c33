//! What a run is: its work, where it stands, and who holds it.

use super::work::{Work, Workload};
use crate::failure::ErrorClass;
use crate::id::{RunId, TaskId};
use crate::key::PartitionKey;
use crate::time::Timestamp;
use crate::word::words;

words!(
    State, "run state" {
        /// Its input is still being stored; no worker may claim it.
        Storing = "storing",
        Queued = "queued",
        Running = "running",
        /// For `next_retry_at`.
        Waiting = "waiting",
        Done = "done",
        Dead = "dead",
    }
);

words!(
    /// What a finished run found.
    Verdict, "verdict" {
        Passed = "passed",
        NeedsReview = "needs_review",
        Failed = "failed",
    }
);

words!(
    /// What brought a run to its end.
    EndedBy, "end" {
        /// Its worker completed it.
        Completed = "completed",
        /// Its worker reported an error after which there is no further try.
        Failed = "failed",
        /// Its lease ran out, and there is no further try.
        Abandoned = "abandoned",
        /// Its worker gave it back untried. Only extractions end so.
        Released = "released",
        /// A person cancelled it.
        Cancelled = "cancelled",
    }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub run_id: RunId,
    pub work: Work,
    pub state: State,
    /// How often it was claimed.
    pub attempt: u32,
    /// How many retries counted against the policy.
    pub retry_count: u32,
    pub submitted_at: Timestamp,
    pub next_retry_at: Option<Timestamp>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub error_traceback: Option<String>,
    pub task_id: Option<TaskId>,
    pub worker: Option<String>,
    pub started_at: Option<Timestamp>,
    pub last_heartbeat: Option<Timestamp>,
    /// Until when its worker holds it, while it runs.
    pub lease_until: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// Set exactly when it is done or dead.
    pub ended_by: Option<EndedBy>,
    pub verdict: Option<Verdict>,
    /// A JSON object, verbatim.
    pub metrics: Option<String>,
}

impl Run {
    /// A run that was never claimed.
    pub fn new(run_id: RunId, work: Work, state: State, submitted_at: Timestamp) -> Self {
        Self {
            run_id,
            work,
            state,
            attempt: 0,
            retry_count: 0,
            submitted_at,
            next_retry_at: None,
            error_class: None,
            error_message: None,
            error_traceback: None,
            task_id: None,
            worker: None,
            started_at: None,
            last_heartbeat: None,
            lease_until: None,
            completed_at: None,
            ended_by: None,
            verdict: None,
            metrics: None,
        }
    }

    pub fn workload(&self) -> Workload {
        self.work.workload()
    }

    /// The partition of an extraction.
    pub fn key(&self) -> Option<&PartitionKey> {
        self.work.key()
    }
}
