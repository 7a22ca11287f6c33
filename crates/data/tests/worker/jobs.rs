//! A second workload beside extraction, over process runs in the store: what the loop promises to any workload.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::partition::Status;
use redrive_core::retry::{Backoff, RetryPolicy};
use redrive_core::run::{End, Fault, Run, State, Verdict, Workload as Kind};
use redrive_data::worker::{AttemptEnd, AttemptResult, Claimant, Claimed, Completer, LeaseTerms, Task, Workload};
use redrive_data::{Error, Result};
use redrive_fixture::eventually;
use redrive_store::{Backlog, DataStore, NewRun, Queued, Recorded, RunClaim, RunPage};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::house::{TestDataPlane, Work, keys};
use crate::source::{Act, Source};

/// What a job does.
#[derive(Debug, Clone)]
pub enum Job {
    Pass,
    Fail,
    /// Waits for a permit, and then passes.
    Wait(Arc<Semaphore>),
    /// Gives up its permit, and waits for another's word to pass.
    Settle(Arc<Semaphore>),
    /// Something of the worker's own fails, as long as it is broken.
    Break(Arc<Semaphore>),
}

/// Jobs in the store's queue of process runs.
#[derive(Debug)]
pub struct Jobs {
    data: DataStore,
    job: Job,
    policy: RetryPolicy,
    completer: Completer<(Run, End), Recorded>,
    running: Arc<AtomicU32>,
    busiest: Arc<AtomicU32>,
    claims: AtomicU32,
    stopped: Notify,
}

impl Jobs {
    pub fn new(house: &TestDataPlane, job: Job) -> Arc<Self> {
        let (data, policy) = (house.store.data(), RetryPolicy::process());
        let committing = data.clone();
        let completer = Completer::start(256, move |ends| {
            let data = committing.clone();
            Box::pin(async move { data.record(ends).await })
        });
        let (running, busiest) = Default::default();
        Arc::new(Self {
            data,
            job,
            policy,
            completer,
            running,
            busiest,
            claims: AtomicU32::new(0),
            stopped: Notify::new(),
        })
    }

    async fn claim_jobs(&self, room: u32, claimant: &Claimant) -> Result<Claimed> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        let claim = RunClaim::new(Kind::Process, &claimant.worker, room, claimant.lease);
        let asked_at = Instant::now();
        let claimed = self.data.claim_runs(claim).await?;
        let tasks = claimed.into_iter().map(|claimed| self.task(claimed.run)).collect();
        Ok(Claimed { tasks, asked_at, look_again: None })
    }

    fn task(&self, run: Run) -> Task {
        let (completer, job) = (self.completer.clone(), self.job.clone());
        let (running, busiest) = (Arc::clone(&self.running), Arc::clone(&self.busiest));
        Task::new(run.run_id, run.task_id.unwrap(), async move |lease: redrive_data::worker::Lease, _shutdown| {
            if let Job::Settle(_) = job {
                let rest = Box::pin(async move {
                    let _lease = lease;
                    act(run, job, completer).await
                });
                return AttemptResult::Settling { rest };
            }
            busiest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let result = tokio::select! {
                end = lease.ended() => AttemptResult::Ended(end.into()),
                result = act(run, job, completer) => result,
            };
            running.fetch_sub(1, Ordering::SeqCst);
            result
        })
    }
}

async fn act(run: Run, job: Job, completer: Completer<(Run, End), Recorded>) -> AttemptResult {
    let report = match job {
        Job::Pass => End::Completed { verdict: Verdict::Passed, metrics: None },
        Job::Fail => {
            let fault = Fault { class: ErrorClass::Final, message: "no".to_owned(), trace: None, retry_after: None };
            End::Failed { fault, metrics: None, policy: RetryPolicy::process() }
        }
        Job::Wait(gate) | Job::Settle(gate) => {
            gate.acquire().await.unwrap().forget();
            End::Completed { verdict: Verdict::Passed, metrics: None }
        }
        Job::Break(well) if well.try_acquire().is_ok() => End::Completed { verdict: Verdict::Passed, metrics: None },
        Job::Break(_) => {
            let error = Error::Thread(std::io::Error::other("out of paper"));
            let give_back = Box::pin(async move {
                completer.complete((run, End::Released { why: None })).await.unwrap();
                AttemptEnd::Released
            });
            return AttemptResult::InfraFailed { error, give_back };
        }
    };
    let is_pass = matches!(report, End::Completed { .. });
    AttemptResult::Ended(match completer.complete((run, report)).await.unwrap() {
        Recorded::As(_) if is_pass => AttemptEnd::Accepted { records: 1 },
        Recorded::As(_) => AttemptEnd::Rejected { class: ErrorClass::Final },
        Recorded::Refused(refused) => AttemptEnd::Refused(refused),
        Recorded::Lost => AttemptEnd::Lost,
    })
}

impl Workload for Jobs {
    fn kind(&self) -> Kind {
        Kind::Process
    }

    fn claim<'a>(&'a self, room: u32, claimant: &'a Claimant) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(self.claim_jobs(room, claimant))
    }

    fn policy(&self, _: &Run) -> RetryPolicy {
        self.policy.clone()
    }

    fn backlog(&self) -> BoxFuture<'_, Result<Backlog>> {
        Box::pin(async {
            let count = async |state| {
                let page =
                    RunPage { workload: Some(Kind::Process), states: vec![state], limit: 100, ..RunPage::default() };
                Ok::<_, Error>(self.data.view().runs(page).await?.len())
            };
            let queued = if count(State::Queued).await? > 0 { Queued::Claimable } else { Queued::Nothing };
            Ok(Backlog { queued, in_flight: u64::try_from(count(State::Running).await?).unwrap() })
        })
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        self.stopped.notify_one();
        Box::pin(async {})
    }
}

pub async fn submit(house: &TestDataPlane, count: usize) -> Vec<RunId> {
    let now = house.store.now();
    let jobs = (0..count).map(|_| NewRun::job("a", None, now)).collect();
    house.store.control().submit(jobs).await.unwrap().into_iter().map(|job| job.run_id).collect()
}

pub async fn states(house: &TestDataPlane, ids: &[RunId]) -> BTreeSet<State> {
    let mut states = BTreeSet::new();
    for id in ids {
        states.insert(house.store.view().run(*id).await.unwrap().unwrap().state);
    }
    states
}

pub fn source(act: impl Fn() -> Act + Send + Sync + 'static) -> Arc<Source> {
    Source::new(move |_| act())
}

/// The two share a worker, and each is drained.
async fn a_worker_drains_all_its_workloads(house: TestDataPlane) {
    let ids = submit(&house, 300).await;
    house.want(&keys("c", 40)).await;
    let (jobs, source) = (Jobs::new(&house, Job::Pass), source(|| Act::Bring(1)));
    let work = Work::with(source);
    let workloads = vec![house.extraction(work.source()), Arc::clone(&jobs) as _];
    let counts = house.worker_for(workloads, work).await.0.run().await.unwrap();
    assert_eq!((counts.claimed, counts.accepted, counts.elsewhere), (340, 340, Some(0)));
    assert_eq!(states(&house, &ids).await, BTreeSet::from([State::Done]));
    assert!(jobs.claims.load(Ordering::SeqCst) < 300, "runs are claimed in batches");
    jobs.stopped.notified().await;
}

/// Whichever comes first with however much, the other gets its share of the permits.
async fn neither_workload_starves_the_other(house: TestDataPlane) {
    let gate = Arc::new(Semaphore::new(0));
    let jobs = Jobs::new(&house, Job::Wait(Arc::clone(&gate)));
    let source = {
        let gate = Arc::clone(&gate);
        source(move || Act::Wait(Arc::clone(&gate)))
    };
    submit(&house, 100).await;
    let work = Work { drain: false, ..Work::with(Arc::clone(&source) as _) };
    let workloads = vec![Arc::clone(&jobs) as Arc<dyn Workload>, house.extraction(work.source())];
    let (worker, stop) = house.worker_for(workloads, work).await;
    let counts = worker.counts();
    let work = tokio::spawn(worker.run());
    eventually("the jobs have all permits", async || jobs.running.load(Ordering::SeqCst) == 8).await;
    house.want(&keys("c", 100)).await;
    // Each permit that becomes free goes to extraction, until it has its half.
    for extractions in 1..=4 {
        gate.add_permits(1);
        eventually("a permit has changed hands", async || source.asked() == extractions).await;
    }
    gate.add_permits(1);
    eventually("another was started", async || counts.borrow().claimed == 13).await;
    assert!(jobs.running.load(Ordering::SeqCst) >= 3 && jobs.busiest.load(Ordering::SeqCst) == 8);
    gate.add_permits(1000);
    eventually("all is done", async || counts.borrow().accepted == 200).await;
    stop.request();
    work.await.unwrap().unwrap();
    assert_eq!(house.partition(&keys("c", 1)[0]).await.state.status, Status::Success);
}

/// With one permit there is no even share of it: the workload that has waited longest comes next.
async fn a_single_permit_goes_from_one_workload_to_the_other(house: TestDataPlane) {
    let gate = Arc::new(Semaphore::new(0));
    let jobs = Jobs::new(&house, Job::Wait(Arc::clone(&gate)));
    let source = {
        let gate = Arc::clone(&gate);
        source(move || Act::Wait(Arc::clone(&gate)))
    };
    submit(&house, 20).await;
    house.want(&keys("c", 20)).await;
    let work = Work { drain: false, concurrency: 1, ..Work::with(Arc::clone(&source) as _) };
    let workloads = vec![Arc::clone(&jobs) as Arc<dyn Workload>, house.extraction(work.source())];
    let (worker, stop) = house.worker_for(workloads, work).await;
    let counts = worker.counts();
    let work = tokio::spawn(worker.run());
    for started in 1..=6 {
        eventually("the next is started", async || counts.borrow().claimed == started).await;
        gate.add_permits(1);
    }
    eventually("six have ended", async || counts.borrow().accepted == 6).await;
    assert!((3..=4).contains(&source.asked()), "{} extractions", source.asked());
    gate.add_permits(1000);
    stop.request();
    work.await.unwrap().unwrap();
}

/// An attempt that waits for the worker's own disk leaves its permit to another, and no more than four times as many are
/// under way as there are permits.
async fn an_attempt_that_settles_leaves_its_permit_to_another(house: TestDataPlane) {
    let gate = Arc::new(Semaphore::new(0));
    let jobs = Jobs::new(&house, Job::Settle(Arc::clone(&gate)));
    submit(&house, 100).await;
    let work = Work { drain: false, ..Work::with(source(|| Act::Bring(1))) };
    let (worker, stop) = house.worker_for(vec![Arc::clone(&jobs) as Arc<dyn Workload>], work).await;
    let mut counts = worker.counts();
    let work = tokio::spawn(worker.run());
    counts.wait_for(|counts| counts.claimed == 32).await.unwrap();
    for ended in 1..=3 {
        gate.add_permits(1);
        counts.wait_for(|counts| counts.accepted == ended).await.unwrap();
    }
    eventually("each that has ended makes room for one", async || counts.borrow().claimed == 35).await;
    stop.request();
    gate.add_permits(1000);
    let counts = work.await.unwrap().unwrap();
    assert_eq!((counts.claimed, counts.accepted, counts.lost), (35, 35, 0), "all that was begun is ended");
}

/// What belongs to one of them fails: it rests, and the other goes on.
async fn a_fault_of_one_workload_leaves_the_other_at_work(house: TestDataPlane) {
    let well = Arc::new(Semaphore::new(0));
    let jobs = Jobs::new(&house, Job::Break(Arc::clone(&well)));
    let ids = submit(&house, 1).await;
    let work = Work { drain: false, poll: Duration::from_millis(10), ..Work::with(source(|| Act::Bring(1))) };
    let workloads = vec![Arc::clone(&jobs) as Arc<dyn Workload>, house.extraction(work.source())];
    let (worker, stop) = house.worker_for(workloads, work).await;
    let mut counts = worker.counts();
    let work = tokio::spawn(worker.run());
    eventually("the job is given back", async || counts.borrow().released == 1).await;
    let claims = jobs.claims.load(Ordering::SeqCst);
    house.want(&keys("c", 20)).await;
    eventually("extraction has gone on", async || counts.borrow().accepted == 20).await;
    assert_eq!(jobs.claims.load(Ordering::SeqCst), claims, "nothing was claimed during the rest");
    well.add_permits(1);
    counts.wait_for(|counts| counts.accepted == 21).await.unwrap();
    stop.request();
    work.await.unwrap().unwrap();
    assert_eq!(states(&house, &ids).await, BTreeSet::from([State::Done]));
}

/// A run that a dead worker left is ended by the policy of its own workload, and by nobody who does not serve it.
async fn a_sweep_goes_by_the_workloads_own_policy(house: TestDataPlane) {
    let ids = submit(&house, 1).await;
    let lease = Duration::from_millis(1);
    let claim = RunClaim::new(Kind::Process, "dead", 1, lease);
    house.store.data().claim_runs(claim).await.unwrap();
    eventually("the lease has passed", async || {
        !house.store.view().overdue(Kind::Process, 9).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(house.drain(source(|| Act::Bring(1))).await.abandoned, 0, "it is not extraction's to end");
    let mut jobs = Jobs::new(&house, Job::Pass);
    let backoff =
        Backoff::Exponential { base: Duration::from_secs(77), multiplier: 2.0, cap: Duration::from_secs(3600) };
    let policy = RetryPolicy { backoff, jitter: Duration::ZERO, ..RetryPolicy::process() };
    Arc::get_mut(&mut jobs).unwrap().policy = policy;
    let worker = house.worker_for(vec![jobs], Work::with(source(|| Act::Bring(1)))).await.0;
    assert_eq!(worker.run().await.unwrap().abandoned, 1);
    let run = house.store.view().run(ids[0]).await.unwrap().unwrap();
    let failed = house.store.view().run_failures(ids[0]).await.unwrap().remove(0);
    assert_eq!((run.state, failed.record.delay), (State::Waiting, Some(Duration::from_secs(77))));
}

async fn a_job_that_an_operator_cancels_is_stopped(house: TestDataPlane) {
    let ids = submit(&house, 2).await;
    let gate = Arc::new(Semaphore::new(0));
    let jobs = Jobs::new(&house, Job::Wait(Arc::clone(&gate)));
    let terms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_millis(50) };
    let work = Work { terms, ..Work::with(source(|| Act::Bring(1))) };
    let worker = house.worker_for(vec![Arc::clone(&jobs) as _], work).await.0;
    let counts = worker.counts();
    let work = tokio::spawn(worker.run());
    eventually("both are under way", async || jobs.running.load(Ordering::SeqCst) == 2).await;
    house.cancel(ids[0]).await;
    eventually("one has stopped", async || counts.borrow().cancelled == 1).await;
    assert_eq!(jobs.running.load(Ordering::SeqCst), 1);
    gate.add_permits(1);
    let counts = work.await.unwrap().unwrap();
    assert_eq!((counts.accepted, counts.cancelled, counts.lost), (1, 1, 0));
    assert_eq!(states(&house, &ids).await, BTreeSet::from([State::Done, State::Dead]));
}

async fn failures_are_recorded_in_the_same_commits(house: TestDataPlane) {
    let ids = submit(&house, 50).await;
    let worker = house.worker_for(vec![Jobs::new(&house, Job::Fail)], Work::with(source(|| Act::Bring(1)))).await.0;
    let counts = worker.run().await.unwrap();
    assert_eq!((counts.accepted, counts.rejected), (0, 50));
    assert_eq!(states(&house, &ids).await, BTreeSet::from([State::Dead]));
}

redrive_fixture::on_both_databases!(
    current_thread:
    a_worker_drains_all_its_workloads,
    neither_workload_starves_the_other,
    a_single_permit_goes_from_one_workload_to_the_other,
    an_attempt_that_settles_leaves_its_permit_to_another,
    a_fault_of_one_workload_leaves_the_other_at_work,
    a_sweep_goes_by_the_workloads_own_policy,
    a_job_that_an_operator_cancels_is_stopped,
    failures_are_recorded_in_the_same_commits,
);
