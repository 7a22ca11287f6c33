//! Claims that are under way while the worker's loop goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, State, Workload as Kind};
use redrive_data::Result;
use redrive_data::process::Sections;
use redrive_data::worker::{Claimant, Claimed, Workload};
use redrive_fixture::eventually;
use redrive_store::Backlog;
use tokio::sync::Semaphore;

use crate::house::{TestDataPlane, Work};
use crate::jobs::{Job, Jobs, source, states, submit};
use crate::source::Act;
use crate::told::{self, Told, section};

/// What of a claim is held back.
#[derive(Debug, PartialEq)]
enum Held {
    Question,
    Answer,
}

/// Jobs whose claims go on only when a test lets them.
#[derive(Debug)]
struct Slow {
    jobs: Arc<dyn Workload>,
    at_once: u32,
    held: Held,
    asked: AtomicU32,
    /// One permit for each claim.
    answers: Semaphore,
}

impl Slow {
    fn new(house: &TestDataPlane, at_once: u32) -> Arc<Self> {
        Self::holding(Held::Answer, Jobs::new(house, Job::Pass), at_once)
    }

    fn holding(held: Held, jobs: Arc<dyn Workload>, at_once: u32) -> Arc<Self> {
        Arc::new(Self { jobs, at_once, held, asked: AtomicU32::new(0), answers: Semaphore::new(0) })
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    async fn hold_back(&self, what: Held) {
        if self.held == what {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.answers.acquire().await.unwrap().forget();
        }
    }
}

impl Workload for Slow {
    fn kind(&self) -> Kind {
        self.jobs.kind()
    }

    fn claim<'a>(&'a self, room: u32, claimant: &'a Claimant) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(async move {
            self.hold_back(Held::Question).await;
            let claimed = self.jobs.claim(room, claimant).await;
            self.hold_back(Held::Answer).await;
            claimed
        })
    }

    fn claims_at_once(&self) -> u32 {
        self.at_once
    }

    fn policy(&self, run: &Run) -> RetryPolicy {
        self.jobs.policy(run)
    }

    fn backlog(&self) -> BoxFuture<'_, Result<Backlog>> {
        self.jobs.backlog()
    }
}

/// A workload whose sink never answers.
#[derive(Debug)]
struct Hung(Arc<Jobs>);

impl Workload for Hung {
    fn kind(&self) -> Kind {
        Kind::Ingest
    }

    fn claim<'a>(&'a self, _: u32, _: &'a Claimant) -> BoxFuture<'a, Result<Claimed>> {
        panic!("it was never found usable")
    }

    fn policy(&self, run: &Run) -> RetryPolicy {
        self.0.policy(run)
    }

    fn backlog(&self) -> BoxFuture<'_, Result<Backlog>> {
        self.0.backlog()
    }

    fn is_ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::pending())
    }
}

/// A worker that looks by itself only once an hour.
fn work() -> Work {
    Work { drain: false, poll: Duration::from_secs(3600), ..Work::with(source(|| Act::Bring(1))) }
}

async fn what_is_announced_during_a_claim_that_finds_nothing_is_claimed_at_once(house: TestDataPlane) {
    let slow = Slow::new(&house, 2);
    // Permits are left, so that the loop listens meanwhile.
    let (worker, stop) = house.worker_for(vec![Arc::clone(&slow) as _], Work { concurrency: 128, ..work() }).await;
    let counts = worker.counts();
    let working = tokio::spawn(worker.run());
    eventually("the claim has looked", async || slow.asked() == 1).await;
    let mut announced = house.store.data().wakeups();
    announced.borrow_and_update();
    submit(&house, 1).await;
    announced.changed().await.unwrap();
    slow.answers.add_permits(1000);
    eventually("the job has passed", async || counts.borrow().accepted == 1).await;
    stop.request();
    working.await.unwrap().unwrap();
}

async fn two_claims_are_under_way_where_the_last_was_full(house: TestDataPlane) {
    let slow = Slow::new(&house, 2);
    submit(&house, 3 * 64).await;
    let (worker, stop) = house.worker_for(vec![Arc::clone(&slow) as _], Work { concurrency: 128, ..work() }).await;
    let mut counts = worker.counts();
    let working = tokio::spawn(worker.run());
    eventually("the first claim has found its jobs", async || slow.asked() == 1).await;
    slow.answers.add_permits(1);
    eventually("the next two are under way together", async || slow.asked() == 3).await;
    assert_eq!(counts.borrow().claimed, 64, "one claim takes half of the permits");
    slow.answers.add_permits(1000);
    counts.wait_for(|counts| counts.accepted == 3 * 64).await.unwrap();
    stop.request();
    working.await.unwrap().unwrap();
}

async fn what_a_claim_brings_after_the_end_was_asked_for_is_not_left_behind(house: TestDataPlane) {
    let slow = Slow::new(&house, 1);
    let ids = submit(&house, 5).await;
    let (worker, stop) = house.worker_for(vec![Arc::clone(&slow) as _], work()).await;
    let working = tokio::spawn(worker.run());
    eventually("the claim has found its jobs", async || slow.asked() == 1).await;
    stop.request();
    slow.answers.add_permits(1000);
    let counts = working.await.unwrap().unwrap();
    assert_eq!((counts.claimed, counts.accepted + counts.released), (5, 5));
    assert!(!states(&house, &ids).await.contains(&State::Running));
}

async fn nothing_is_claimed_after_the_end_was_asked_for(house: TestDataPlane) {
    let id = house.submit_jobs("a", 1).await[0];
    let sections = Sections::new([section("a", Told::to(|_| told::Act::Pass))]).unwrap();
    let served = sections.workloads(&house.store.data(), None).pop().unwrap();
    let slow = Slow::holding(Held::Question, served, 1);
    let (worker, stop) = house.worker_for(vec![Arc::clone(&slow) as _], work()).await;
    let working = tokio::spawn(worker.run());
    eventually("the claim is about to ask", async || slow.asked() == 1).await;
    stop.request();
    slow.answers.add_permits(1000);
    assert_eq!(working.await.unwrap().unwrap().claimed, 0);
    assert_eq!(house.run(id).await.state, State::Queued);
}

async fn a_sink_that_does_not_answer_holds_back_its_own_workload_alone(house: TestDataPlane) {
    let jobs = Jobs::new(&house, Job::Pass);
    submit(&house, 5).await;
    let served: Vec<Arc<dyn Workload>> = vec![Arc::new(Hung(Arc::clone(&jobs))), jobs];
    let (worker, stop) = house.worker_for(served, work()).await;
    let mut counts = worker.counts();
    let working = tokio::spawn(worker.run());
    counts.wait_for(|counts| counts.accepted == 5).await.unwrap();
    stop.request();
    working.await.unwrap().unwrap();
}

redrive_fixture::on_both_databases!(
    current_thread:
    what_is_announced_during_a_claim_that_finds_nothing_is_claimed_at_once,
    two_claims_are_under_way_where_the_last_was_full,
    what_a_claim_brings_after_the_end_was_asked_for_is_not_left_behind,
    nothing_is_claimed_after_the_end_was_asked_for,
    a_sink_that_does_not_answer_holds_back_its_own_workload_alone,
);
