//! Runs of every workload: submitting, claiming, leases, and what became of them. Each file has its statements, and the
//! methods of the handles that use them.

mod attempts;
mod claim;
mod failures;
mod lease;
mod list;
mod record;
mod row;
mod submit;
mod verdicts;

pub use attempts::Running;
pub use claim::{ClaimedRun, RunClaim};
pub use failures::PastFailure;
pub use lease::{Heartbeat, HeartbeatAnswer};
pub use list::RunPage;
pub use record::Recorded;
pub use submit::{NewRun, Submitted};
pub use verdicts::JudgedAttempt;

pub(crate) use attempts::insert_attempts;
pub(crate) use claim::{PROMOTE, START};
pub(crate) use failures::recent as recent_failures;
pub(crate) use record::{UPDATE, UPDATE_COLUMNS};
pub(crate) use row::READ_COLUMNS;
pub(crate) use submit::INSERT;
