//! Partitions: how they lie in their tables, and every way in which they are read and changed.

mod backlog;
mod claim;
mod commit;
mod due;
mod enqueue;
mod period;
mod read;
mod row;

pub use backlog::{Backlog, Queued};
pub use claim::{ClaimedPartition, PartitionClaim, Rotation};
pub use commit::{Decided, Outcome};
pub use due::{DueBand, DueQuery};
pub use read::{Page, QuerySpan};

pub(crate) use commit::write;
pub(crate) use due::DUE;
pub(crate) use period::Period;
pub(crate) use read::{get_many, get_many_locked, page};
pub(crate) use row::{KEY, KEY_COLUMNS, KEY_NAMES, fragment, read_key};
