//! Runs of every workload: submitting, claiming, leases, and what became of them. Each file has its statements, and the
//! methods of the handles that use them.

mod attempts;
mod bundle;
mod change;
mod claim;
mod counted;
mod deliver;
mod discovered;
mod failures;
mod find;
mod group_commit;
mod groups;
mod incidents;
mod lease;
mod limit;
mod list;
mod progress;
mod promote;
mod prune;
mod recall;
mod record;
mod report;
mod row;
mod specs;
mod standing;
mod submit;
mod verdicts;

pub use attempts::Running;
pub use change::{DecidedRuns, RunChangeOutcome};
pub use claim::{ClaimedRun, RunClaim};
pub use deliver::{HeldByWorker, OutsideBeat, OutsideClaim};
pub use failures::PastFailure;
pub use groups::RunGroup;
pub use incidents::PastIncident;
pub use lease::{Heartbeat, HeartbeatAnswer, Terms};
pub use limit::InFlightLimit;
pub use list::RunPage;
pub use prune::{Prunable, Pruning};
pub use record::Recorded;
pub use report::{OutsideReport, ReportOutcome};
pub use submit::{NewRun, Submitted};
pub use verdicts::JudgedAttempt;

pub(crate) use attempts::insert_attempts;
pub(crate) use bundle::{MOST as BUNDLED, PUT as PUT_BUNDLES, REMOVE as REMOVE_BUNDLES};
pub(crate) use claim::{LEAVE_ON_SQLITE, NEXT_ON_SQLITE, PAYLOAD_COLUMN, TAKE_ON_POSTGRES};
pub(crate) use failures::recent as recent_failures;
pub(crate) use group_commit::SubmitLine;
pub(crate) use groups::failed_groups;
pub(crate) use promote::{COME_DUE, PROMOTE_ON_POSTGRES};
pub(crate) use record::move_run;
pub(crate) use specs::SIDE_BY_SIDE_ON_POSTGRES;
pub(crate) use standing::{FINISH, QUEUE};
pub(crate) use submit::INSERT;
