//! What can happen to a run.

use std::time::Duration;

use super::state::{RunSnapshot, Verdict};
use crate::failure::ErrorClass;
use crate::id::TaskId;
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

/// Why a try failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub class: ErrorClass,
    pub message: String,
    pub trace: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// How long the source asks to be left alone, where it is a rate limit.
    pub fn hint(&self, policy: &RetryPolicy) -> Option<Duration> {
        let hint = self.retry_after.filter(|_| self.class == ErrorClass::RateLimited);
        hint.map(|hint| policy.bounded_hint(hint))
    }

    /// The worker sent no heartbeat until its lease ran out.
    pub fn lease_expired() -> Self {
        Self::retryable("lease expired".to_owned())
    }

    /// The attempt took as long as it may.
    pub fn timed_out(limit: Duration) -> Self {
        Self::retryable(format!("timed out after {} s", limit.as_secs_f64()))
    }

    fn retryable(message: String) -> Self {
        Self { class: ErrorClass::Retryable, message, trace: None, retry_after: None }
    }
}

/// How a worker ends its claim.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    Completed {
        verdict: Verdict,
        metrics: Option<String>,
    },
    /// The policy says when a job or an upload is tried again. An extraction ends whatever it says.
    Failed {
        fault: Fault,
        metrics: Option<String>,
        policy: RetryPolicy,
    },
    /// Given back untried.
    Released {
        /// What failed on the worker's side, where that is the reason.
        why: Option<String>,
    },
    /// Given back because the source said when to come again. Only an extraction ends so: the wait is its partition's.
    RateLimited {
        /// What the source said.
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The upload is in the sink; a worker may claim it.
    Stored,
    /// The upload was refused while it came, and is not in the sink; no worker will see it.
    NotStored {
        fault: Fault,
        metrics: Option<String>,
    },
    /// A waiting retry has come due and competes with new runs by the age of its submission.
    Due,
    Claimed {
        task_id: TaskId,
        worker: String,
        lease_until: Timestamp,
    },
    /// The claim is sent, for the first time or again, to an outside worker over a network that may lose the answer. Until that
    /// worker speaks, the lease is the time within which it must.
    Delivered {
        task_id: TaskId,
        lease_until: Timestamp,
    },
    Beat {
        task_id: TaskId,
        lease_until: Timestamp,
    },
    Ended {
        task_id: TaskId,
        end: End,
    },
    LeaseExpired {
        /// As in [`End::Failed`].
        policy: RetryPolicy,
        /// How long an attempt may take, where its worker is told so and its lease lasts no longer.
        limit: Option<Duration>,
    },
    /// A person asks for a dead run to be tried again, with a fresh count.
    RetryRequested,
    Cancelled {
        by: String,
    },
    /// A person takes a retry or a cancel back, provided that nothing has happened to the run since.
    Reverted {
        /// As the run was before.
        to: RunSnapshot,
        /// The version that the operation gave it.
        from_version: u64,
    },
}

/// What a person can ask of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlEvent {
    /// As [`Event::RetryRequested`].
    Retry,
    /// As [`Event::Cancelled`].
    Cancel { by: String },
    /// As [`Event::Reverted`].
    Revert { to: RunSnapshot, from_version: u64 },
}

impl From<ControlEvent> for Event {
    fn from(event: ControlEvent) -> Self {
        match event {
            ControlEvent::Retry => Self::RetryRequested,
            ControlEvent::Cancel { by } => Self::Cancelled { by },
            ControlEvent::Revert { to, from_version } => Self::Reverted { to, from_version },
        }
    }
}
