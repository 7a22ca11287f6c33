//! What a worker can do: extraction, ingestion and processing each implement [`Workload`].

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::id::{RunId, TaskId};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, Workload as Kind};
use redrive_store::{Backlog, Terms};
use tokio::time::Instant;
use tracing::Span;

use super::attempt_end::AttemptResult;
use super::lease::Lease;
use super::shutdown::Shutdown;
use crate::error::{Error, Result};

/// One kind of work.
pub trait Workload: Send + Sync + fmt::Debug {
    /// Whose runs these are. A worker may have several workloads of a kind; each claims runs that the others do not.
    fn kind(&self) -> Kind;

    /// What the log calls it.
    fn name(&self) -> &str {
        self.kind().as_str()
    }

    /// Claims runs for up to `room` permits, in one transaction, and no more than can be started now.
    fn claim<'a>(&'a self, room: u32, claimant: &'a Claimant) -> BoxFuture<'a, Result<Claimed>>;

    /// How many claims may be under way at once. Most workloads have to know what one brought before they make the next.
    fn claims_at_once(&self) -> u32 {
        1
    }

    /// Gives the policy for a run whose worker let its lease expire: any run of the kind, also one that another workload
    /// of the kind would claim.
    fn policy(&self, run: &Run) -> RetryPolicy;

    /// Gives what such a run is judged by: its policy, and how long an attempt at it may take where its lease lasts no longer.
    fn terms(&self, run: &Run) -> Terms {
        self.policy(run).into()
    }

    /// Says what is left after a claim that came back empty, for a worker that drains.
    fn backlog(&self) -> BoxFuture<'_, Result<Backlog>>;

    /// Prepares for the end of runs whose lease has passed. They are ended afterwards, whatever comes of this.
    fn before_expiry<'a>(&'a self, _overdue: &'a [Run]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Looks, once in a while before a claim, whether what its attempts need is there. An error makes it rest.
    fn is_ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Removes what dead processes left behind, besides their runs; once in a while.
    fn tidy(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Looks, after a rest, whether what failed is well again. An error prolongs the rest.
    fn has_recovered<'a>(&'a self, _from: &'a Error) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Returns when nothing is left of what its attempts started, once none of them runs any more.
    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// What the log and traces say of a run's attempt.
pub fn attempt_span(run: &Run) -> Span {
    let category = Some(run.work.category()).filter(|category| !category.is_empty());
    let (workload, key) = (run.workload().as_str(), run.key().map(tracing::field::display));
    tracing::info_span!("attempt", workload, run_id = %run.run_id, key, category, attempt = run.attempt)
}

/// Who claims, and for how long.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// The worker's name, for the runs' rows.
    pub worker: String,
    pub lease: Duration,
    pub(crate) shutdown: Shutdown,
}

/// What a claim brought.
#[derive(Debug)]
pub struct Claimed {
    pub tasks: Vec<Task>,
    /// When the database was asked. The leases that it gave began no earlier.
    pub asked_at: Instant,
    /// When more may be claimable although nothing is announced; the worker looks at its own interval, too.
    pub look_again: Option<Instant>,
}

impl Claimed {
    pub(crate) fn nothing() -> Self {
        Self { tasks: vec![], asked_at: Instant::now(), look_again: None }
    }
}

type Start = Box<dyn FnOnce(Lease, Shutdown) -> BoxFuture<'static, AttemptResult> + Send>;

/// A claimed run, ready to be started.
pub struct Task {
    pub(super) run_id: RunId,
    pub(super) task_id: TaskId,
    pub(super) start: Start,
    /// Says in the log and in traces what the attempt is of.
    pub(super) span: Span,
}

impl Task {
    /// The future of `start` stops early when its lease ends, and when the shutdown says that work is to be given back.
    pub fn new<F>(run_id: RunId, task_id: TaskId, start: impl FnOnce(Lease, Shutdown) -> F + Send + 'static) -> Self
    where
        F: Future<Output = AttemptResult> + Send + 'static,
    {
        let start: Start = Box::new(move |lease, shutdown| Box::pin(start(lease, shutdown)));
        Self { run_id, task_id, start, span: Span::none() }
    }

    /// The same, with what the log and traces say of the attempt: where anything is said, it is known of which run.
    pub fn told_as(self, span: Span) -> Self {
        Self { span, ..self }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("run_id", &self.run_id).field("task_id", &self.task_id).finish()
    }
}
