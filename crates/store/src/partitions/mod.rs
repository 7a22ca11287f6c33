//! Partitions: how they lie in their tables, and every way in which they are read and changed.

mod backlog;
mod claim;
mod commit;
mod conditions;
mod due;
mod enqueue;
mod groups;
mod page;
mod period;
mod read;
mod row;
mod stretch;
mod tile;

pub use backlog::{Backlog, InFlightOf, Queued};
pub use claim::{ClaimedPartition, PartitionClaim, Rotation};
pub use commit::{Committed, Decided, Outcome};
pub use due::{DueBand, DueQuery, RejectedBand};
pub use groups::{AttemptLimits, GroupQuery, PartitionGroup};
pub use page::Page;
pub use read::QuerySpan;
pub use tile::{TileCell, TileQuery, TileRow};

pub(crate) use commit::write;
pub(crate) use due::{DUE, bands_of};
pub(crate) use groups::{GROUPS, failed_groups};
pub(crate) use page::page;
pub(crate) use period::Period;
pub(crate) use read::{get_many, get_many_locked};
pub(crate) use row::{KEY, KEY_COLUMNS, KEY_NAMES, fragment, read_key};
