//! What a partition is: PartitionState, and what the control plane keeps beside it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ErrorClass;
use crate::id::{RunId, TaskId};
use crate::key::PartitionKey;
use crate::lane::Lane;
use crate::retry::{RetryPolicy, StopReason};
use crate::time::{Timestamp, whole_micros};
use crate::word::words;

words!(
    /// What is known about a partition's data.
    Status, "status" {
        Pending = "pending",
        Success = "success",
        Failed = "failed",
    }
);

/// PartitionState: outcomes only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    pub key: PartitionKey,
    pub status: Status,
    pub current_run_id: Option<RunId>,
    pub record_count: Option<u64>,
    pub attempt_count: u32,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub created_at: Timestamp,
    /// When the status was last decided or asked for. Backoff counts from here; marks and pauses do not move it.
    pub updated_at: Timestamp,
    /// Rises with every change to the state or its control, so that one guard serves both.
    pub version: u64,
}

/// Who withheld a partition, when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Mark {
    pub by: String,
    pub at: Timestamp,
    pub why: Option<String>,
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Wanted {
    pub lane: Lane,
    pub queued_at: Timestamp,
}

/// The attempt that is under way, and the fence it must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    pub run_id: RunId,
    pub task_id: TaskId,
}

/// A success was asked for again. It stays a success until a new run is accepted; until then the request stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reprocess {
    /// How many attempts at it were rejected. Backoff and limits count these, not the attempts that made the success.
    pub rejected: u32,
}

/// What the control plane keeps outside PartitionState.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Control {
    pub wanted: Option<Wanted>,
    pub reprocess: Option<Reprocess>,
    /// The source's own hint: not before then.
    pub not_before: Option<Timestamp>,
    /// How long sources' hints have made this request wait without an attempt.
    pub rate_limit_waited: Duration,
    /// Attempts that persons gave beyond the policy's.
    pub granted: u32,
    pub terminal: Option<Mark>,
    pub paused: Option<Mark>,
    pub active: Option<InFlight>,
}

impl Control {
    /// Whether there is nothing to remember, so that no row needs to exist.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there is a place in the queue to remember, and nothing else.
    pub fn is_only_wanted(&self) -> bool {
        self.wanted.is_some() && *self == Self { wanted: self.wanted, ..Self::default() }
    }

    /// Whether a reprocess is asked for whose last attempt was rejected, and that is not queued again.
    pub fn reprocess_rejected(&self) -> bool {
        self.reprocess.is_some() && self.wanted.is_none() && self.active.is_none()
    }

    /// Whether automation must pass this partition over.
    pub fn is_held(&self) -> bool {
        self.terminal.is_some() || self.paused.is_some()
    }
}

/// A partition as the store reads it: both halves, of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub state: PartitionState,
    pub control: Control,
}

impl Partition {
    /// A partition that is wanted for the first time.
    pub fn new(key: PartitionKey, lane: Lane, now: Timestamp) -> Self {
        let state = PartitionState {
            key,
            status: Status::Pending,
            current_run_id: None,
            record_count: None,
            attempt_count: 0,
            error_class: None,
            error_message: None,
            created_at: now,
            updated_at: now,
            version: 1,
        };
        Self { state, control: Control { wanted: Some(Wanted { lane, queued_at: now }), ..Control::default() } }
    }

    /// How often it was tried: a reprocess counts from its request.
    pub fn tried(&self) -> u32 {
        self.control.reprocess.map_or(self.state.attempt_count, |request| request.rejected)
    }

    /// How many attempts count against the policy: those it had, less what was granted.
    pub fn spent(&self) -> u32 {
        self.tried().saturating_sub(self.control.granted)
    }

    /// Whether one more rejection makes it the last of so many attempts that the policy allows. Attempts beyond are not
    /// the last any more, so that each time a partition runs out of attempts is told once.
    pub fn has_one_left(&self, max_attempts: Option<u32>) -> bool {
        let next = self.tried().saturating_add(1).saturating_sub(self.control.granted);
        max_attempts == Some(next)
    }

    /// Takes down what an operation may change, as the audit keeps it before and after, and as undo puts it back.
    pub fn snapshot(&self) -> ControlSnapshot {
        ControlSnapshot {
            status: self.state.status,
            updated_at: self.state.updated_at,
            version: self.state.version,
            wanted: self.control.wanted,
            reprocess: self.control.reprocess.is_some(),
            rejected: self.control.reprocess.unwrap_or_default().rejected,
            not_before: self.control.not_before,
            waited: whole_micros(self.control.rate_limit_waited),
            granted: self.control.granted,
            terminal: self.control.terminal.clone(),
            paused: self.control.paused.clone(),
        }
    }
}

/// The part of a partition that the control plane can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ControlSnapshot {
    pub status: Status,
    pub version: u64,
    pub updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reprocess: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Microseconds of free waits.
    #[serde(default, skip_serializing_if = "is_none")]
    pub waited: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Mark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Mark>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_none(micros: &i64) -> bool {
    *micros == 0
}

impl ControlSnapshot {
    pub(super) fn rate_limit_waited(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.waited).unwrap_or(0))
    }

    pub(super) fn request(&self) -> Option<Reprocess> {
        self.reprocess.then_some(Reprocess { rejected: self.rejected })
    }
}

/// Why a failed partition is not retried any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminal<'a> {
    Marked(&'a Mark),
    /// Computed from the policy; nothing is written.
    ByPolicy(StopReason),
}

/// Whether a partition is terminal: by its mark, or because the policy allows no further attempt.
pub fn terminal<'a>(partition: &'a Partition, policy: &RetryPolicy, now: Timestamp) -> Option<Terminal<'a>> {
    match partition.state.status {
        Status::Pending | Status::Success => return None,
        Status::Failed => {}
    }
    if let Some(mark) = &partition.control.terminal {
        return Some(Terminal::Marked(mark));
    }
    if policy.is_spent(partition.spent()) {
        return Some(Terminal::ByPolicy(StopReason::AttemptsExhausted));
    }
    if policy.max_age.is_some_and(|limit| now.since(partition.state.created_at) >= limit) {
        return Some(Terminal::ByPolicy(StopReason::TooOld));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each time that attempts run out is told by exactly one of them.
    #[test]
    fn of_all_attempts_one_is_the_last_that_the_policy_allows() {
        let key = PartitionKey::new("ads", "1", "daily", "2026-01-01").expect("it is a key");
        let mut partition = Partition::new(key, Lane::Fresh, Timestamp::from_micros(0));
        let mut last = |tried, granted, reprocess: Option<u32>| {
            partition.state.attempt_count = tried;
            partition.control.granted = granted;
            partition.control.reprocess = reprocess.map(|rejected| Reprocess { rejected });
            partition.has_one_left(Some(3))
        };
        assert_eq!([0, 1, 2, 3, 4].map(|tried| last(tried, 0, None)), [false, false, true, false, false]);
        assert_eq!([2, 3, 4, 5].map(|tried| last(tried, 2, None)), [false, false, true, false], "two were granted");
        assert!(last(9, 0, Some(2)), "a reprocess counts from its request");
        assert!(!partition.has_one_left(None), "without a limit none is the last");
    }
}
