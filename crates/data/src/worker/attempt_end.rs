//! How an attempt ends, whatever its workload.

use futures_util::future::BoxFuture;
use redrive_core::failure::ErrorClass;
use redrive_core::refusal::Refused;

use super::lease::LeaseEnd;
use crate::error::Error;

/// What became of an attempt.
#[derive(Debug)]
pub enum AttemptEnd {
    Accepted {
        records: u64,
    },
    Rejected {
        class: ErrorClass,
    },
    /// The result came too late and changed nothing.
    Refused(Refused),
    /// Given back untried: no attempt is counted.
    Released,
    /// Given back until its source is to be asked again.
    RateLimited,
    /// An operator cancelled the run while it was under way.
    Cancelled,
    /// The lease was gone before there was a result.
    Lost,
}

impl From<LeaseEnd> for AttemptEnd {
    fn from(end: LeaseEnd) -> Self {
        match end {
            LeaseEnd::Cancelled => Self::Cancelled,
            LeaseEnd::Lost => Self::Lost,
        }
    }
}

/// How far an attempt came by itself.
pub enum AttemptResult {
    Ended(AttemptEnd),
    /// What is left waits only for our own disk and database, and holds little memory. The attempt gives up its permit,
    /// so that the worker can start another meanwhile.
    Settling {
        rest: BoxFuture<'static, AttemptResult>,
    },
    /// Something of our own failed, such as the database or the raw sink. The worker puts the workload to rest before it
    /// lets `give_back` run: otherwise it would claim the same run again at once.
    InfraFailed {
        error: Error,
        give_back: BoxFuture<'static, AttemptEnd>,
    },
}

impl std::fmt::Debug for AttemptResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(end) => f.debug_tuple("Ended").field(end).finish(),
            Self::Settling { .. } => f.write_str("Settling"),
            Self::InfraFailed { error, .. } => f.debug_tuple("InfraFailed").field(error).finish(),
        }
    }
}
