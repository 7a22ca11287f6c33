//! A run's life: one execution of any workload, its states, and the only function that moves it.
//!
//! An extraction is one attempt at a partition and never retries itself; an upload or a job waits and is tried again as
//! the policy says that its events carry.

mod apply;
mod label;
mod state;
mod work;

pub use apply::{Change, End, Event, FailureRecord, Fault, apply};
pub use label::{Outcome, label, outcome};
pub use state::{EndedBy, Run, State, Verdict};
pub use work::{Work, Workload};
