//! Bulk changes that last: plans, which are dry runs that bind, and operations that are done in steps and go on when whoever did them is
//! gone. Nothing here changes a partition or a run: that is done, and audited, as for any other request.

mod items;
mod operations;
mod plans;

pub use items::{BulkItem, ItemOutcome, SettledItem};
pub use operations::{BulkOperation, BulkState, CancelOutcome, NewBulkOperation, Progress};
pub use plans::KeptPlan;
