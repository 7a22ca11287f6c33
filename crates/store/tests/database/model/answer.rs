//! What an operation answers, with ids as the model numbers them.

use redrive_core::id::{RunId, TaskId};
use redrive_core::partition::Partition;
use redrive_core::refusal::Refused;
use redrive_core::run::Run;
use redrive_store::{Outcome, Recorded};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// There was nothing to do it to, or nothing is answered.
    Nothing,
    Flags(Vec<bool>),
    Outcome(Box<Outcome>),
    Recorded(Recorded),
    AllRecorded(Vec<Recorded>),
    /// The worker showed a run that nobody ever claimed.
    Unclaimed,
    Claimed(Vec<(Partition, Run)>),
    Jobs(Vec<Run>),
    Ended(Vec<Run>),
    Submitted {
        run: usize,
        existing: bool,
    },
    Moved(Result<Box<Run>, Refused>),
}

/// The model's id of its nth run.
pub fn run_id(nth: usize) -> RunId {
    RunId::from_uuid(Uuid::from_u128(nth as u128 + 1))
}

/// The model's id of the nth claim.
pub fn task_id(nth: usize) -> TaskId {
    TaskId::from_uuid(Uuid::from_u128((1 << 64) + nth as u128))
}

/// A fence that was never given out.
pub fn forged() -> TaskId {
    TaskId::from_uuid(Uuid::from_u128(u128::MAX))
}
