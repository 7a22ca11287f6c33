//! Extraction as a worker's workload: claims partitions in turn, at each source's pace, and runs an attempt for each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use redrive_core::failure::ErrorClass;
use redrive_core::key::Source;
use redrive_core::pace::{Answer, SlowStart};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, Workload as Kind};
use redrive_store::raw::RawSink;
use redrive_store::{Backlog, ClaimedPartition, DataStore, PartitionClaim, Rotation};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Sources;
use super::attempt::Attempt;
use crate::error::{Error, Result};
use crate::program::ChildTracker;
use crate::settings::LatestRedactor;
use crate::validate::{self, Recorder};
use crate::worker::{self, AttemptEnd, AttemptResult, Claimant, Claimed, Lease, Shutdown, Task, attempt_span};

/// How many long attempts are judged at once at the least, however few processors there are: some wait for the sink.
const LEAST_JUDGED: usize = 4;

#[derive(Debug)]
pub struct Workload {
    data: DataStore,
    sink: RawSink,
    sources: Sources,
    recorder: Recorder,
    /// Where the lanes' wheel and each lane's customers stand.
    rotation: Mutex<Rotation>,
    pace: Arc<Mutex<SlowStart>>,
    /// The programs of all attempts.
    programs: ChildTracker,
    judging: Arc<Semaphore>,
}

impl Workload {
    pub fn new(data: DataStore, recorder: Recorder, sink: RawSink, sources: Sources) -> Self {
        let (rotation, pace, programs) = Default::default();
        // Judging keeps processors busy, and more at once would only take more memory.
        let at_once = std::thread::available_parallelism().map_or(LEAST_JUDGED, |processors| processors.get());
        let judging = Arc::new(Semaphore::new(at_once.max(LEAST_JUDGED)));
        Self { data, sink, sources, recorder, rotation, pace, programs, judging }
    }

    async fn claim_partitions(&self, room: u32, claimant: &Claimant) -> Result<Claimed> {
        let (sources, now) = (self.sources.names(), self.data.now());
        let claim = PartitionClaim {
            limit: room,
            worker: claimant.worker.clone(),
            lease: claimant.lease,
            at_most: lock(&self.pace).at_most(&sources, now),
            sources: Some(sources.clone()),
            max_in_flight: self.sources.max_in_flight(),
            breakers: self.sources.breakers(),
            rotation: lock(&self.rotation).clone(),
        };
        let asked_at = Instant::now();
        let (claimed, rotation) = self.data.claim_partitions(claim).await?;
        *lock(&self.rotation) = rotation;
        let tasks = claimed.into_iter().filter_map(|claimed| self.task(claimed)).collect();
        let change = lock(&self.pace).next_change(&sources, now);
        let look_again = change.map(|change| Instant::now() + change.since(now));
        Ok(Claimed { tasks, asked_at, look_again })
    }

    fn task(&self, claimed: ClaimedPartition) -> Option<Task> {
        let name = claimed.partition.state.key.source.clone();
        let (source, fence, run_id) = (self.sources.get(&name)?, claimed.run.task_id?, claimed.run.run_id);
        let span = attempt_span(&claimed.run);
        let paced = Paced::start(&self.pace, name, &self.data);
        let (data, sink, recorder) = (self.data.clone(), self.sink.clone(), self.recorder.clone());
        let (children, judging) = (self.programs.child(), Arc::clone(&self.judging));
        let start = move |lease: Lease, shutdown: Shutdown| {
            let redactor = LatestRedactor::default();
            let attempt =
                Attempt { data, sink, recorder, source, claimed, fence, lease, shutdown, children, redactor, judging };
            async move { paced.end(attempt.run().await) }
        };
        Some(Task::new(run_id, fence, start).told_as(span))
    }
}

impl worker::Workload for Workload {
    fn kind(&self) -> Kind {
        Kind::Extract
    }

    fn claim<'a>(&'a self, room: u32, claimant: &'a Claimant) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(self.claim_partitions(room, claimant))
    }

    /// A partition is retried by the daemon and the policy of its source; the run itself never is.
    fn policy(&self, run: &Run) -> RetryPolicy {
        let otherwise = RetryPolicy::partitions();
        let source = run.key().and_then(|key| self.sources.get(&key.source));
        RetryPolicy { max_attempts: source.map_or(otherwise.max_attempts, |source| source.max_attempts), ..otherwise }
    }

    fn backlog(&self) -> BoxFuture<'_, Result<Backlog>> {
        Box::pin(async { Ok(self.data.view().backlog(self.sources.names(), self.sources.max_in_flight()).await?) })
    }

    fn before_expiry<'a>(&'a self, overdue: &'a [Run]) -> BoxFuture<'a, ()> {
        Box::pin(validate::leave_word(&self.data, &self.sink, overdue))
    }

    fn is_ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(self.sink.check_marker().await?) })
    }

    fn has_recovered<'a>(&'a self, _: &'a Error) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(self.sink.check().await?) })
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.programs.ended())
    }
}

/// An attempt that counts for the pace of its source until this is dropped.
struct Paced {
    pace: Arc<Mutex<SlowStart>>,
    source: Source,
    answer: Answer,
}

impl Paced {
    fn start(pace: &Arc<Mutex<SlowStart>>, source: Source, data: &DataStore) -> Self {
        lock(pace).started(&source, data.now());
        Self { pace: Arc::clone(pace), source, answer: Answer::Nothing }
    }

    /// Passes on how the attempt ended. One that is still to be given back counts until it is.
    fn end(mut self, result: AttemptResult) -> AttemptResult {
        match result {
            AttemptResult::Ended(end) => {
                self.answer = answer(&end);
                AttemptResult::Ended(end)
            }
            AttemptResult::Settling { rest } => {
                AttemptResult::Settling { rest: Box::pin(async move { self.end(rest.await) }) }
            }
            AttemptResult::InfraFailed { error, give_back } => {
                let give_back = Box::pin(async move {
                    let _paced = self;
                    give_back.await
                });
                AttemptResult::InfraFailed { error, give_back }
            }
        }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        lock(&self.pace).ended(&self.source, self.answer);
    }
}

fn answer(end: &AttemptEnd) -> Answer {
    match end {
        AttemptEnd::Rejected { class: ErrorClass::RateLimited } | AttemptEnd::RateLimited => Answer::SlowDown,
        AttemptEnd::Accepted { .. } => Answer::Answered,
        AttemptEnd::Rejected { class: ErrorClass::Final | ErrorClass::Retryable } => Answer::Failed,
        AttemptEnd::Refused(_) | AttemptEnd::Released | AttemptEnd::Cancelled | AttemptEnd::Lost => Answer::Nothing,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole whenever the lock is free, also after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
