//! How much at once, how often, and who wakes whom.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::partition::Status;
use redrive_data::extract::Failure;
use redrive_data::worker::LeaseTerms;
use redrive_fixture::eventually;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::house::{TestDataPlane, Work, key, keys};
use crate::source::{Act, Source};

const HOUR: Duration = Duration::from_secs(3600);
const LONG: LeaseTerms = LeaseTerms { lease: HOUR, heartbeat: HOUR };

/// One answer of 429 holds back 499 siblings, in this worker and in every other.
async fn one_rate_limit_holds_back_every_sibling(house: TestDataPlane) {
    house.want(&keys("limited", 500)).await;
    house.want(&keys("free", 5)).await;
    let source = Source::new(|job| match job.key.customer_id.as_str() {
        "limited" => Act::Fail(Failure::rate_limited("429", Some(HOUR))),
        _ => Act::Bring(1),
    });
    let tally = house.drain(Arc::clone(&source) as _).await;
    assert!(source.asked() <= 4 + 5, "{} calls", source.asked());
    assert_eq!(tally.accepted, 5, "another customer is not held back");
    let before = source.asked();
    assert_eq!(house.drain(Arc::clone(&source) as _).await.claimed, 0, "a second worker asks nothing");
    assert_eq!(source.asked(), before);
    let cooling = house.store.view().holds().await.unwrap();
    assert_eq!(cooling.len(), 1);
    let failed = house.partition(&key("limited", 0)).await;
    assert!(failed.control.not_before.is_some(), "the hint is kept: {failed:?}");
}

/// Where the answer says so, the whole source is held back.
async fn a_rate_limit_of_the_source_holds_back_every_customer(house: TestDataPlane) {
    house.want(&keys("a", 20)).await;
    house.want(&keys("b", 20)).await;
    let source = Source::new(|_| Act::Fail(Failure::rate_limited("429", None).of_source()));
    house.drain(Arc::clone(&source) as _).await;
    assert!(source.asked() <= 4, "{} calls", source.asked());
    assert_eq!(house.store.view().holds().await.unwrap()[0].scope.customer_id(), None);
}

async fn two_workers_keep_to_a_sources_limit(house: TestDataPlane) {
    house.want(&keys("c", 40)).await;
    let gate = Arc::new(Semaphore::new(0));
    let source = {
        let gate = Arc::clone(&gate);
        Source::new(move |_| Act::Wait(Arc::clone(&gate)))
    };
    let job = || Work { max_in_flight: Some(3), ..Work::with(Arc::clone(&source) as _) };
    let (one, two) = (house.worker(job()).await.0, house.worker(job()).await.0);
    let work = tokio::spawn(async move { tokio::join!(one.run(), two.run()) });
    eventually("three are under way", async || source.busiest() == 3).await;
    gate.add_permits(1000);
    let (one, two) = work.await.unwrap();
    assert_eq!(one.unwrap().accepted + two.unwrap().accepted, 40);
    assert_eq!(source.busiest(), 3);
}

/// Only what can be started is claimed: what waits in a worker is nobody else's to do.
async fn no_more_is_claimed_than_there_is_room_for(house: TestDataPlane) {
    house.want(&keys("c", 20)).await;
    let gate = Arc::new(Semaphore::new(0));
    let source = {
        let gate = Arc::clone(&gate);
        Source::new(move |_| Act::Wait(Arc::clone(&gate)))
    };
    let (worker, _) = house.worker(Work { concurrency: 4, ..Work::with(Arc::clone(&source) as _) }).await;
    let tally = worker.counts();
    let work = tokio::spawn(worker.run());
    eventually("four are under way", async || source.busiest() == 4).await;
    assert_eq!(tally.borrow().claimed, 4);
    gate.add_permits(1);
    eventually("another was claimed", async || tally.borrow().claimed == 5).await;
    gate.add_permits(1000);
    assert_eq!(work.await.unwrap().unwrap().accepted, 20);
    assert_eq!(source.busiest(), 4);
}

/// With an hour between polls, and a lease for which nobody sweeps sooner, only a call can have woken it.
async fn an_idle_worker_is_woken_by_new_work(house: TestDataPlane) {
    let source = Source::new(|_| Act::Bring(1));
    let (worker, stop) = house.worker(Work { poll: HOUR, terms: LONG, drain: false, ..Work::with(source) }).await;
    let work = tokio::spawn(worker.run());
    for day in 0..3 {
        house.want(&[key("c", day)]).await;
        eventually("it is done", async || house.partition(&key("c", day)).await.state.status == Status::Success).await;
    }
    stop.request();
    assert_eq!(work.await.unwrap().unwrap().accepted, 3);
}

/// What a limit holds back is due: a draining worker stays until there is room, whoever makes it.
async fn a_drain_stays_for_what_somebody_elses_attempt_holds_back(house: TestDataPlane) {
    house.want(&keys("c", 3)).await;
    let other = house.claim(HOUR).await;
    let work = Work { max_in_flight: Some(1), ..Work::with(Source::new(|_| Act::Bring(1))) };
    let mut work = Box::pin(house.worker(work).await.0.run());
    assert!(timeout(Duration::from_millis(500), &mut work).await.is_err(), "it left while work was due");
    house.store.data().release(&other.run, None).await.unwrap();
    let tally = timeout(Duration::from_secs(30), work).await.expect("it ends").unwrap();
    assert_eq!((tally.accepted, tally.elsewhere), (3, Some(0)));
}

/// Nobody ends the attempt of a dead worker but whoever finds its lease passed.
async fn a_drain_stays_for_what_a_dead_workers_lease_holds_back(house: TestDataPlane) {
    house.want(&keys("c", 3)).await;
    house.claim(Duration::from_millis(700)).await;
    let terms = LeaseTerms { lease: Duration::from_millis(1200), heartbeat: Duration::from_millis(300) };
    let work = Work { max_in_flight: Some(1), terms, ..Work::with(Source::new(|_| Act::Bring(1))) };
    let work = house.worker(work).await.0.run();
    let tally = timeout(Duration::from_secs(30), work).await.expect("it ends").unwrap();
    assert_eq!((tally.accepted, tally.abandoned, tally.elsewhere), (2, 1, Some(0)));
}

/// Nothing is queued any more: what others have under way is theirs, and is only told.
async fn a_drain_does_not_stay_for_what_others_have_under_way(house: TestDataPlane) {
    house.want(&keys("c", 2)).await;
    house.claim(HOUR).await;
    house.claim(HOUR).await;
    let work = Work { max_in_flight: Some(2), ..Work::with(Source::new(|_| Act::Bring(1))) };
    let work = house.worker(work).await.0.run();
    let tally = timeout(Duration::from_secs(30), work).await.expect("it ends").unwrap();
    assert_eq!((tally.claimed, tally.elsewhere), (0, Some(2)));
}

/// A row that is queued and that no rule gives out, as a careless hand may leave it, keeps nobody for ever.
#[tokio::test]
async fn a_drain_ends_where_what_is_queued_cannot_be_had() {
    let house = TestDataPlane::sqlite().await;
    house.want(&keys("c", 1)).await;
    let database = rusqlite::Connection::open(house.database.path().join("redrive.db")).unwrap();
    database.execute_batch("UPDATE partitions SET status = 'failed'").unwrap();
    let work = house.worker(Work::with(Source::new(|_| Act::Bring(1)))).await.0.run();
    assert_eq!(timeout(Duration::from_secs(30), work).await.expect("it ends").unwrap().claimed, 0);
}

redrive_fixture::on_both_databases!(
    current_thread:
    a_drain_stays_for_what_somebody_elses_attempt_holds_back,
    a_drain_stays_for_what_a_dead_workers_lease_holds_back,
    a_drain_does_not_stay_for_what_others_have_under_way,
    one_rate_limit_holds_back_every_sibling,
    a_rate_limit_of_the_source_holds_back_every_customer,
    two_workers_keep_to_a_sources_limit,
    no_more_is_claimed_than_there_is_room_for,
    an_idle_worker_is_woken_by_new_work,
);
