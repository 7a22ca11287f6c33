//! What stops the control plane.

use redrive_core::filter::FilterError;
use redrive_core::fingerprint::{GroupId, NoGroupId};
use redrive_core::id::OpId;
use redrive_core::key::Source;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
    #[error(transparent)]
    Raw(#[from] redrive_store::raw::Error),
    /// A plan that cannot be read.
    #[error("{0}")]
    Plan(String),
    #[error("a backfill needs since and until, or a logical date")]
    NeedsDates,
    #[error("a backfill needs a source")]
    NeedsSource,
    /// The request leaves a field open, and the source's configuration names nothing for it.
    #[error("{field} is needed: the configuration of source {of} names no {section}")]
    NoneConfigured { field: &'static str, of: Source, section: &'static str },
    /// A change of runs names none.
    #[error("a change of runs needs their ids or a filter")]
    NeedsRuns,
    #[error("attempts at partitions are not changed as runs; change the partition")]
    NotThroughRuns,
    #[error(transparent)]
    NoGroupId(#[from] NoGroupId),
    #[error("there is no failure group {0}")]
    NoGroup(String),
    #[error("more than one failure group begins with {begun}: {first} and {second} are two of them; give more digits")]
    SeveralGroups { begun: String, first: GroupId, second: GroupId },
    #[error("a backfill wants days, failed or not; leave the failure group out, or retry the group")]
    NotByGroup,
    #[error("there is no operation {0}")]
    NoOperation(OpId),
    #[error("there is no plan {0}; a plan is kept for a day")]
    NoPlan(uuid::Uuid),
    #[error("plan {plan} was applied before, as operation {op_id}")]
    Applied { plan: uuid::Uuid, op_id: OpId },
    /// An operation that is under way cannot be undone yet.
    #[error("operation {0} is still running; cancel it, or wait until it has ended")]
    StillRunning(OpId),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
