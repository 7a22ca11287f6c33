//! What a process can report of its work.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::run::Workload;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Accepted by the validator, ingested, or passed.
    Success,
    NeedsReview,
    /// An error, which has a class; or a job whose verdict is `failed`, which has none.
    Failed,
    /// Its lease ran out.
    Abandoned,
    /// Given back until its source is to be asked again.
    RateLimited,
    /// Given back untried.
    Released,
    Cancelled,
}

impl Outcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::NeedsReview => "needs_review",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::RateLimited => "rate_limited",
            Self::Released => "released",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptEnded {
    pub workload: Workload,
    /// The source of a partition, the category of a job; nothing for an upload.
    pub source: Arc<str>,
    pub outcome: Outcome,
    pub class: Option<ErrorClass>,
    /// From its claim to its end.
    pub took: Option<Duration>,
}

/// What waits for a worker: a lane of partitions, or the runs of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    Lane(Lane),
    Runs(Workload),
}

impl Queue {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lane(lane) => lane.as_str(),
            Self::Runs(workload) => workload.as_str(),
        }
    }
}

/// Something that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    AttemptEnded(AttemptEnded),
    /// A claim took something that had been claimable for so long.
    Taken {
        queue: Queue,
        waited: Duration,
    },
    /// A failed attempt is followed by another after so long.
    RetryIn {
        workload: Workload,
        delay: Duration,
    },
    /// A failed attempt was the last that the policy allows.
    RetriesExhausted {
        workload: Workload,
    },
    /// A lease ran out.
    LeaseLost {
        workload: Workload,
    },
    /// A claim was sent to an outside worker that never spoke.
    DeliveryLost,
}

/// What a call of the store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Takes work.
    Claim,
    /// Writes what became of it.
    Record,
    /// Prolongs leases.
    Beat,
    Read,
    Write,
}

impl Op {
    pub const ALL: [Self; 5] = [Self::Claim, Self::Record, Self::Beat, Self::Read, Self::Write];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Record => "record",
            Self::Beat => "beat",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
