//! Why an event changes nothing. Each reason is one word that scripts can rely on.

use crate::word::words;

words!(
    /// The word for why a partition or run was left as it is.
    Reason, "reason" {
        AlreadyPending = "already_pending",
        NotFailed = "not_failed",
        NotSuccess = "not_success",
        Terminal = "terminal",
        NotTerminal = "not_terminal",
        Paused = "paused",
        NotPaused = "not_paused",
        BelowThreshold = "below_threshold",
        NoRawPartition = "no_raw_partition",
        Exists = "exists",
        InFlight = "in_flight",
        ChangedSincePlan = "changed_since_plan",
        /// It is not wanted now.
        NotQueued = "not_queued",
        /// It is not due yet.
        NotDue = "not_due",
        AlreadyCompleted = "already_completed",
        /// The claim it speaks for is no longer the current one.
        StaleFence = "stale_fence",
        LeaseExpired = "lease_expired",
    }
);

/// An event that changed nothing, and whether an operator should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// What was asked for is so already, or does not concern this one. Commands succeed.
    #[error("nothing to do: {0}")]
    NoOp(Reason),
    /// A rule forbids it. Commands say so in their exit code.
    #[error("refused: {0}")]
    Rule(Reason),
}

impl Refused {
    pub fn reason(self) -> Reason {
        match self {
            Self::NoOp(reason) | Self::Rule(reason) => reason,
        }
    }
}
