//! A section as a worker's workload: claims its jobs, oldest first, and runs an attempt for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Run, Workload as Kind};
use redrive_store::{Backlog, ClaimedRun, DataStore, InFlightLimit, Recorded, RunClaim, Terms};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::attempt::{Attempt, RunAfter};
use super::{Context, Handler, Job, Section, Sections};
use crate::error::{Error, Result};
use crate::program::ChildTracker;
use crate::worker::{self, AttemptResult, Claimant, Claimed, Completer, Lease, Shutdown, Task, attempt_span};

/// The most ends that are recorded in one transaction: as many as a worker claims at once that has Rust code for a handler.
const RECORDED_AT_ONCE: usize = 1024;

/// Records how attempts ended, many in one transaction.
pub(super) type Recorder = Completer<(Arc<Run>, End), Recorded<RunAfter>>;

impl Recorder {
    pub(super) fn start_on(data: DataStore) -> Self {
        Self::start(RECORDED_AT_ONCE, move |ends| {
            let data = data.clone();
            Box::pin(async move { data.record_keeping(ends, RunAfter::of).await })
        })
    }
}

#[derive(Debug)]
pub struct Workload {
    served: Arc<ServedSection>,
    /// `process.NAME`, for the log.
    name: String,
    /// Those of the section's categories that this worker serves.
    categories: Vec<String>,
    /// Whose policies end what other workers left behind.
    all: Arc<Sections>,
    /// Held while the database claims: two claims at once would step over each other's rows.
    turn: Mutex<()>,
}

/// What all attempts of a section share.
#[derive(Debug)]
pub(super) struct ServedSection {
    pub(super) data: DataStore,
    pub(super) section: Arc<Section>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) recorder: Recorder,
    /// The programs of all attempts.
    programs: ChildTracker,
    /// The handler could not be used the last time. One job is enough to find out whether it can again.
    is_suspect: AtomicBool,
}

impl ServedSection {
    fn is_usable(&self) -> Result<()> {
        match self.handler.missing() {
            missing if missing.is_empty() => Ok(()),
            missing => Err(Error::Unusable { section: self.section.name.clone(), why: missing.join("; ") }),
        }
    }
}

impl Workload {
    pub(super) fn new(
        data: DataStore,
        all: Arc<Sections>,
        section: Arc<Section>,
        handler: Arc<dyn Handler>,
        categories: Vec<String>,
        recorder: Recorder,
    ) -> Self {
        let name = format!("process.{}", section.name);
        let (programs, is_suspect) = (ChildTracker::default(), AtomicBool::new(false));
        let served = Arc::new(ServedSection { data, section, handler, recorder, programs, is_suspect });
        Self { served, name, categories, all, turn: Mutex::default() }
    }

    async fn claim_jobs(&self, room: u32, claimant: &Claimant) -> Result<Claimed> {
        let limit = if self.served.is_suspect.load(Ordering::Relaxed) { room.min(1) } else { room };
        let claim = RunClaim {
            categories: Some(self.categories.clone()),
            max_in_flight: self.limit(),
            ..RunClaim::new(Kind::Process, &claimant.worker, limit, claimant.lease)
        };
        let turn = self.turn.lock().await;
        if claimant.shutdown.is_requested() {
            return Ok(Claimed::nothing());
        }
        let asked_at = Instant::now();
        let claimed = self.served.data.claim_runs(claim).await?;
        drop(turn);
        let tasks = claimed.into_iter().filter_map(|claimed| self.task(claimed)).collect();
        Ok(Claimed { tasks, asked_at, look_again: None })
    }

    /// The section's limit, which all its categories share, whichever of them this worker serves.
    fn limit(&self) -> Option<InFlightLimit> {
        let Section { max_in_flight, categories, .. } = &*self.served.section;
        max_in_flight.map(|most| InFlightLimit { most, categories: Some(categories.clone()) })
    }

    fn task(&self, claimed: ClaimedRun) -> Option<Task> {
        let (run_id, fence) = (claimed.run.run_id, claimed.run.task_id?);
        let span = attempt_span(&claimed.run);
        let (served, job) = (Arc::clone(&self.served), Job::from(claimed));
        let start = move |lease: Lease, shutdown: Shutdown| {
            let context = Context::new(served.programs.clone());
            let attempt = Box::new(Attempt { served: Arc::clone(&served), job, lease, shutdown, context });
            async move {
                let result = attempt.run().await;
                served.is_suspect.store(matches!(result, AttemptResult::InfraFailed { .. }), Ordering::Relaxed);
                result
            }
        };
        Some(Task::new(run_id, fence, start).told_as(span))
    }
}

impl worker::Workload for Workload {
    fn kind(&self) -> Kind {
        Kind::Process
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn claim<'a>(&'a self, room: u32, claimant: &'a Claimant) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(self.claim_jobs(room, claimant))
    }

    /// While the jobs of one claim begin, the database finds those of the next.
    fn claims_at_once(&self) -> u32 {
        2
    }

    fn policy(&self, run: &Run) -> RetryPolicy {
        self.all.policy(run)
    }

    fn terms(&self, run: &Run) -> Terms {
        self.all.terms(run)
    }

    fn backlog(&self) -> BoxFuture<'_, Result<Backlog>> {
        let (categories, limit) = (Some(self.categories.clone()), self.limit());
        Box::pin(async move { Ok(self.served.data.view().run_backlog(Kind::Process, categories, limit).await?) })
    }

    /// No job is claimed as long as what handles it is not there.
    fn is_ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.served.is_usable() })
    }

    fn has_recovered<'a>(&'a self, _: &'a Error) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { self.served.is_usable() })
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.served.programs.ended())
    }
}
