//! What handles jobs.

use std::fmt;

use futures_util::future::BoxFuture;

use super::{Answer, Context, Failure, Job};
use crate::failure::Blame;

/// Handles the jobs of one `[process.NAME]` section. A program, a URL and the Rust code of a process that embeds a worker
/// each are one; `examples/handler.rs` shows the last.
///
/// The worker calls it for many jobs at once. While the future runs, the worker keeps the job's lease with heartbeats. The
/// worker drops the future when the section's time-out has passed, when an operator cancels the job, when the lease is
/// lost, and when the worker has to stop before the job has ended; the first is a retryable failure, the last gives the
/// job back without an attempt being counted. So a future must leave nothing behind when it is dropped: see [`Context`]
/// for work that goes on beside it.
///
/// A job may be tried more than once although it was done: its worker may die before the answer is recorded. Handlers
/// should bear that; [`Job::run_id`] is the same in every attempt.
pub trait Handler: Send + Sync + fmt::Debug {
    /// Handles one job: says what was found, or what went wrong.
    fn handle<'a>(&'a self, job: &'a Job, context: &'a Context) -> BoxFuture<'a, Result<Answer, Error>>;

    /// Lists the secrets that it works with for a job; none of them may be shown. Asked when an attempt has failed.
    fn secrets(&self, _job: &Job) -> Vec<String> {
        Vec::new()
    }

    /// Lists what it would need of this machine and does not find, such as a program or a secret. While there is something,
    /// no job is claimed for it.
    fn missing(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a job has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This attempt has failed; the class and the policy say whether there is another.
    #[error(transparent)]
    Failed(Failure),
    /// The handler cannot handle any job at present, such as a program that is not installed. The job is given back
    /// untried, and its section rests for a while.
    #[error("{0}")]
    Unusable(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.blame {
            Blame::Work => Self::Failed(failure),
            Blame::Setup => Self::Unusable(failure.message),
        }
    }
}
