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
use redrive_store::{Backlog, DataStore, NewRun, Queued, Recorded, RunClaim, RunPage};
use tokio::sync::{Notify, Semaphore};

use crate::house::{House, Work, keys, until};
use crate::source::{Act, Source};

/// What a job does.
#[derive(Debug, Clone)]
enum Job {
    Pass,
    Fail,
    /// Waits for a permit, and then passes.
    Wait(Arc<Semaphore>),
    /// Something of the worker's own fails, as long as it is broken.
    Break(Arc<Semaphore>),
}

/// Jobs in the store's queue of process runs.
#[derive(Debug)]
struct Jobs {
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
    fn new(house: &House, job: Job) -> Arc<Self> {
        let (data, policy) = (house.store.data(), RetryPolicy::process());
        let committing = data.clone();
        let completer = Completer::start(move |ends| {
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
        let (worker, lease) = (claimant.worker.clone(), claimant.lease);
        let claim = RunClaim { workload: Kind::Process, categories: None, limit: room, worker, lease };
        let claimed = self.data.claim_runs(claim).await?;
        let tasks = claimed.into_iter().map(|claimed| self.task(claimed.run)).collect();
        Ok(Claimed { tasks, look_again: None })
    }

    fn task(&self, run: Run) -> Task {
        let (completer, job) = (self.completer.clone(), self.job.clone());
        let (running, busiest) = (Arc::clone(&self.running), Arc::clone(&self.busiest));
        Task::new(run.run_id, run.task_id.unwrap(), async move |lease: redrive_data::worker::Lease, _shutdown| {
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
        Job::Wait(gate) => {
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
                    RunPage { workload: Some(Kind::Process), state: Some(state), limit: 100, ..RunPage::default() };
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

async fn submit(house: &House, count: usize) -> Vec<RunId> {
    let now = house.store.now();
    let jobs = (0..count).map(|_| NewRun::job("a", None, now)).collect();
    house.store.control().submit(jobs).await.unwrap().into_iter().map(|job| job.run_id).collect()
}

async fn states(house: &House, ids: &[RunId]) -> BTreeSet<State> {
    let mut states = BTreeSet::new();
    for id in ids {
        states.insert(house.store.view().run(*id).await.unwrap().unwrap().state);
    }
    states
}

fn source(act: impl Fn() -> Act + Send + Sync + 'static) -> Arc<Source> {
    Source::new(move |_| act())
}

/// The two share a worker, and each is drained.
async fn a_worker_drains_all_its_workloads(house: House) {
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
async fn neither_workload_starves_the_other(house: House) {
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
    until("the jobs have all permits", async || jobs.running.load(Ordering::SeqCst) == 8).await;
    house.want(&keys("c", 100)).await;
    // Each permit that becomes free goes to extraction, until it has its half.
    for extractions in 1..=4 {
        gate.add_permits(1);
        until("a permit has changed hands", async || source.asked() == extractions).await;
    }
    gate.add_permits(1);
    until("another was started", async || counts.borrow().claimed == 13).await;
    assert!(jobs.running.load(Ordering::SeqCst) >= 3 && jobs.busiest.load(Ordering::SeqCst) == 8);
    gate.add_permits(1000);
    until("all is done", async || counts.borrow().accepted == 200).await;
    stop.request();
    work.await.unwrap().unwrap();
    assert_eq!(house.partition(&keys("c", 1)[0]).await.state.status, Status::Success);
}

/// What belongs to one of them fails: it rests, and the other goes on.
async fn a_fault_of_one_workload_leaves_the_other_at_work(house: House) {
    let well = Arc::new(Semaphore::new(0));
    let jobs = Jobs::new(&house, Job::Break(Arc::clone(&well)));
    let ids = submit(&house, 1).await;
    let work = Work { drain: false, poll: Duration::from_millis(10), ..Work::with(source(|| Act::Bring(1))) };
    let workloads = vec![Arc::clone(&jobs) as Arc<dyn Workload>, house.extraction(work.source())];
    let (worker, stop) = house.worker_for(workloads, work).await;
    let mut counts = worker.counts();
    let work = tokio::spawn(worker.run());
    until("the job is given back", async || counts.borrow().released == 1).await;
    let claims = jobs.claims.load(Ordering::SeqCst);
    house.want(&keys("c", 20)).await;
    until("extraction has gone on", async || counts.borrow().accepted == 20).await;
    assert_eq!(jobs.claims.load(Ordering::SeqCst), claims, "nothing was claimed during the rest");
    well.add_permits(1);
    counts.wait_for(|counts| counts.accepted == 21).await.unwrap();
    stop.request();
    work.await.unwrap().unwrap();
    assert_eq!(states(&house, &ids).await, BTreeSet::from([State::Done]));
}

/// A run that a dead worker left is ended by the policy of its own workload, and by nobody who does not serve it.
async fn a_sweep_goes_by_the_workloads_own_policy(house: House) {
    let ids = submit(&house, 1).await;
    let lease = Duration::from_millis(1);
    let claim = RunClaim { workload: Kind::Process, categories: None, limit: 1, worker: "dead".to_owned(), lease };
    house.store.data().claim_runs(claim).await.unwrap();
    until("the lease has passed", async || !house.store.view().overdue(Kind::Process, 9).await.unwrap().is_empty())
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
    let failed = house.store.view().failures(ids[0]).await.unwrap().remove(0);
    assert_eq!((run.state, failed.record.delay), (State::Waiting, Some(Duration::from_secs(77))));
}

async fn a_job_that_an_operator_cancels_is_stopped(house: House) {
    let ids = submit(&house, 2).await;
    let gate = Arc::new(Semaphore::new(0));
    let jobs = Jobs::new(&house, Job::Wait(Arc::clone(&gate)));
    let terms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_millis(50) };
    let work = Work { terms, ..Work::with(source(|| Act::Bring(1))) };
    let worker = house.worker_for(vec![Arc::clone(&jobs) as _], work).await.0;
    let counts = worker.counts();
    let work = tokio::spawn(worker.run());
    until("both are under way", async || jobs.running.load(Ordering::SeqCst) == 2).await;
    house.store.control().cancel_run(ids[0], "ada").await.unwrap();
    until("one has stopped", async || counts.borrow().cancelled == 1).await;
    assert_eq!(jobs.running.load(Ordering::SeqCst), 1);
    gate.add_permits(1);
    let counts = work.await.unwrap().unwrap();
    assert_eq!((counts.accepted, counts.cancelled, counts.lost), (1, 1, 0));
    assert_eq!(states(&house, &ids).await, BTreeSet::from([State::Done, State::Dead]));
}

async fn failures_are_recorded_in_the_same_commits(house: House) {
    let ids = submit(&house, 50).await;
    let worker = house.worker_for(vec![Jobs::new(&house, Job::Fail)], Work::with(source(|| Act::Bring(1)))).await.0;
    let counts = worker.run().await.unwrap();
    assert_eq!((counts.accepted, counts.rejected), (0, 50));
    assert_eq!(states(&house, &ids).await, BTreeSet::from([State::Dead]));
}

crate::on_both_databases!(
    a_worker_drains_all_its_workloads,
    neither_workload_starves_the_other,
    a_fault_of_one_workload_leaves_the_other_at_work,
    a_sweep_goes_by_the_workloads_own_policy,
    a_job_that_an_operator_cancels_is_stopped,
    failures_are_recorded_in_the_same_commits,
);
