//! A run's life: one execution of any workload, its states, and the only function that moves it.
//!
//! An extraction is one attempt at a partition and never retries itself; an upload or a job waits and is tried again as
//! the policy says that its events carry.

mod apply;
mod event;
mod job;
mod label;
mod outlook;
mod state;
mod work;

pub use apply::{Change, FailureRecord, apply};
pub use event::{ControlEvent, End, Event, Fault};
pub use job::{Job, JobError, MAX_JOB_BYTES, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES};
pub use label::{Outcome, label, outcome};
pub use outlook::{RunContext, RunReason, backoff, is_hinted, reason};
pub use state::{EndedBy, Incident, ReportKind, Run, RunSnapshot, State, Verdict};
pub use work::{Work, Workload};
