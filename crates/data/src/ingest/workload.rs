//! Ingestion as a worker's workload: claims uploads, oldest first, and parses each.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Run, State, Workload as Kind};
use redrive_store::raw::Blobs;
use redrive_store::{Backlog, DataStore, Recorded, RunClaim, RunPage};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::archive::Limits;
use super::attempt::Attempt;
use super::upload::object_of;
use crate::error::{Error, Result};
use crate::worker::{self, AttemptResult, Claimant, Claimed, Completer, Lease, Shutdown, Task, attempt_span};

/// The most ends that are recorded in one transaction.
const RECORDED_AT_ONCE: usize = 256;

/// How many archives a worker parses at once, only one of which may take much memory.
const AT_ONCE: usize = 4;

/// How many uploads that have not arrived are looked at in one sweep, the newest first.
const UNFINISHED: u32 = 100;

#[derive(Debug)]
pub struct Workload {
    served: Arc<Served>,
    /// One for each archive that may be parsed.
    room: Arc<Semaphore>,
}

/// What all attempts share.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) data: DataStore,
    pub(super) blobs: Blobs,
    pub(super) limits: Limits,
    pub(super) policy: RetryPolicy,
    pub(super) batch_rows: u32,
    /// One permit, for the archive that may take much memory.
    pub(super) large: Arc<Semaphore>,
    pub(super) recorder: Completer<(Run, End), Recorded>,
}

impl Workload {
    /// Must be called on a runtime: results are recorded by a task of their own. One transaction adds about `batch_rows` rows.
    pub fn new(data: DataStore, blobs: Blobs, limits: Limits, policy: RetryPolicy, batch_rows: u32) -> Self {
        let recording = data.clone();
        let recorder = Completer::start(RECORDED_AT_ONCE, move |ends| {
            let data = recording.clone();
            Box::pin(async move { data.record(ends).await })
        });
        let served =
            Arc::new(Served { data, blobs, limits, policy, batch_rows, large: Arc::new(Semaphore::new(1)), recorder });
        Self { served, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Parses the upload of a claimed run. The worker's loop does it by itself.
    pub async fn attempt(&self, run: Run, lease: Lease, shutdown: Shutdown) -> AttemptResult {
        Attempt { served: Arc::clone(&self.served), run, lease, shutdown }.run().await
    }

    async fn claim_uploads(&self, room: u32, claimant: &Claimant) -> Result<Claimed> {
        let free = u32::try_from(self.room.available_permits()).unwrap_or(u32::MAX);
        if free == 0 {
            return Ok(Claimed::nothing());
        }
        let claim = RunClaim {
            categories: Some(vec![String::new()]),
            ..RunClaim::new(Kind::Ingest, &claimant.worker, room.min(free), claimant.lease)
        };
        let asked_at = Instant::now();
        let claimed = self.served.data.claim_runs(claim).await?;
        let tasks = claimed.into_iter().filter_map(|claimed| self.task(claimed.run)).collect();
        Ok(Claimed { tasks, asked_at, look_again: None })
    }

    /// Removes what uploaders that were killed left of their bytes.
    async fn clear_unfinished(&self) {
        let states = vec![State::Storing];
        let page = RunPage { workload: Some(Kind::Ingest), states, limit: UNFINISHED, ..RunPage::default() };
        let Ok(storing) = self.served.data.view().runs(page).await else { return };
        for run in storing {
            match self.served.blobs.clear_staged(&object_of(run.run_id)).await {
                Ok(0) => {}
                Ok(files) => {
                    tracing::info!(run_id = %run.run_id, files, "removed what a killed upload had not finished")
                }
                Err(error) => tracing::warn!(run_id = %run.run_id, %error, "what an upload left was not removed"),
            }
        }
    }

    fn task(&self, run: Run) -> Option<Task> {
        let (run_id, fence, served) = (run.run_id, run.task_id?, Arc::clone(&self.served));
        let span = attempt_span(&run);
        let permit = Arc::clone(&self.room).try_acquire_owned().ok();
        let start = move |lease: Lease, shutdown: Shutdown| async move {
            let _permit = permit;
            Attempt { served, run, lease, shutdown }.run().await
        };
        Some(Task::new(run_id, fence, start).told_as(span))
    }
}

impl worker::Workload for Workload {
    fn kind(&self) -> Kind {
        Kind::Ingest
    }

    fn claim<'a>(&'a self, room: u32, claimant: &'a Claimant) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(self.claim_uploads(room, claimant))
    }

    fn policy(&self, _: &Run) -> RetryPolicy {
        self.served.policy.clone()
    }

    fn backlog(&self) -> BoxFuture<'_, Result<Backlog>> {
        Box::pin(async { Ok(self.served.data.view().run_backlog(Kind::Ingest, None, None).await?) })
    }

    fn tidy(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.clear_unfinished())
    }

    fn is_ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(self.served.blobs.check_marker().await?) })
    }

    fn has_recovered<'a>(&'a self, _: &'a Error) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(self.served.blobs.check().await?) })
    }
}
