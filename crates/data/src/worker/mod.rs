//! The worker: claims runs of its workloads for its free permits, keeps their leases, and ends what other workers left
//! behind. It knows nothing of what a workload does; see [`Workload`].

mod attempt_end;
mod claim_loop;
mod completer;
mod counts;
mod lease;
mod patience;
mod permit;
mod served;
mod shutdown;
mod sweep;
mod workload;

pub use attempt_end::{AttemptEnd, AttemptResult};
pub use claim_loop::{Replacement, Worker, WorkerOptions};
pub use completer::Completer;
pub use counts::WorkerCounts;
pub use lease::{Lease, LeaseEnd, LeaseKeeper, LeaseTerms};
pub use shutdown::Shutdown;
pub use sweep::end_expired;
pub(crate) use sweep::end_expired_jobs;
pub use workload::{Claimant, Claimed, Task, Workload, attempt_span};
