//! What a run is: its work, where it stands, and who holds it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::work::{Work, Workload};
use crate::failure::ErrorClass;
use crate::id::{RunId, TaskId};
use crate::key::PartitionKey;
use crate::time::{Timestamp, whole_micros};
use crate::word::words;

words!(
    State, "run state" {
        /// Its input is still being stored; no worker may claim it.
        Storing = "storing",
        Queued = "queued",
        Running = "running",
        /// For `next_retry_at`, or before its first try for `not_before`.
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
        /// Its source said when to come again, and its worker gave it back until then. Only extractions end so.
        RateLimited = "rate_limited",
        /// A person cancelled it.
        Cancelled = "cancelled",
    }
);

words!(
    /// What the history of a run keeps beside its failed tries.
    Incident, "incident" {
        /// A claim was sent to an outside worker, which did not speak within its time; the run was given back untried.
        DeliveryLost = "delivery_lost",
        /// A worker's result came when its claim was no longer the current one; nothing was changed.
        Late = "late",
    }
);

words!(
    /// How an outside worker ends its claim.
    ReportKind, "report" {
        Complete = "complete",
        Fail = "fail",
        Release = "release",
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
    /// How long sources have made it wait without counting a retry.
    pub rate_limit_waited: Duration,
    pub submitted_at: Timestamp,
    /// When its first try may begin, as its submitter asked.
    pub not_before: Option<Timestamp>,
    /// How many attempts it has, where its submitter said so; otherwise the policy says it.
    pub max_attempts: Option<u32>,
    /// When its next retry may begin. Only a run that waits after a failed try has one.
    pub next_retry_at: Option<Timestamp>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub error_traceback: Option<String>,
    pub task_id: Option<TaskId>,
    pub worker: Option<String>,
    pub started_at: Option<Timestamp>,
    pub last_heartbeat: Option<Timestamp>,
    /// Until when its worker holds it, while it runs. Once it is cancelled, until when that worker may still be at it: no other may
    /// start it before.
    pub lease_until: Option<Timestamp>,
    /// Whether its claim was sent to an outside worker that has not spoken since. Only a run that runs is so.
    pub awaits_ack: bool,
    pub completed_at: Option<Timestamp>,
    /// Set exactly when it is done or dead.
    pub ended_by: Option<EndedBy>,
    pub verdict: Option<Verdict>,
    /// A JSON object, verbatim.
    pub metrics: Option<String>,
    /// Counts up with every change but heartbeats, deliveries and coming due.
    pub version: u64,
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
            rate_limit_waited: Duration::ZERO,
            submitted_at,
            not_before: None,
            max_attempts: None,
            next_retry_at: None,
            error_class: None,
            error_message: None,
            error_traceback: None,
            task_id: None,
            worker: None,
            started_at: None,
            last_heartbeat: None,
            lease_until: None,
            awaits_ack: false,
            completed_at: None,
            ended_by: None,
            verdict: None,
            metrics: None,
            version: 1,
        }
    }

    pub fn workload(&self) -> Workload {
        self.work.workload()
    }

    /// When a run that waits comes due.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.next_retry_at.or(self.not_before).max(self.lease_until)
    }

    /// The end of a lease that has not passed, be it of a claim that was cancelled.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.lease_until.filter(|until| *until > now)
    }

    /// Until when a lease that is prolonged now lasts: no longer than the attempt may take. None once that time is over.
    pub fn prolonged(&self, now: Timestamp, lease: Duration, timeout: Duration) -> Option<Timestamp> {
        let end = self.started_at.unwrap_or(now).saturating_add(timeout);
        Some(now.saturating_add(lease).min(end)).filter(|until| *until > now)
    }

    /// Whether its lease lasted until the end of the time that an attempt may take.
    pub fn has_used(&self, limit: Duration) -> bool {
        let end = self.started_at.map(|started| started.saturating_add(limit));
        end.is_some() && self.lease_until >= end
    }

    /// The state in which a run is put into the queue: it waits while its submitter does not want it yet.
    pub fn ready_state(not_before: Option<Timestamp>, now: Timestamp) -> State {
        if not_before.is_some_and(|at| at > now) { State::Waiting } else { State::Queued }
    }

    /// Takes down what an operation may change, as the audit keeps it before and after, and as undo puts it back.
    pub fn snapshot(&self) -> RunSnapshot {
        RunSnapshot {
            state: self.state,
            version: self.version,
            retry_count: self.retry_count,
            rate_limit_waited: whole_micros(self.rate_limit_waited),
            next_retry_at: self.next_retry_at,
            error_class: self.error_class,
            error_message: self.error_message.clone(),
            error_traceback: self.error_traceback.clone(),
            completed_at: self.completed_at,
            ended_by: self.ended_by,
        }
    }

    /// The partition of an extraction.
    pub fn key(&self) -> Option<&PartitionKey> {
        self.work.key()
    }
}

/// The part of a run that the control plane can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunSnapshot {
    pub state: State,
    pub version: u64,
    pub retry_count: u32,
    /// In microseconds.
    pub rate_limit_waited: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<ErrorClass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_traceback: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
}
