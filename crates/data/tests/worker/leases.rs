//! Leases: kept while work blocks everything, given up before they end, and ended when their worker fell silent.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::partition::{Judgement, Status};
use redrive_core::run::{State, Verdict, Workload};
use redrive_data::worker::{LeaseEnd, LeaseTerms, end_expired};
use redrive_fixture::eventually;
use redrive_store::Recorded;
use redrive_store::raw::{RunHeader, RunOutcome};
use tokio::time::Instant;

use crate::house::{TERMS, TestDataPlane, Work, key};
use crate::source::{Act, Source};

const SHORT: LeaseTerms = LeaseTerms { lease: Duration::from_millis(1200), heartbeat: Duration::from_millis(150) };

/// The test's runtime has one thread, and the source holds on to it for longer than the lease.
async fn work_that_blocks_its_thread_keeps_its_lease(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let source = Source::new(|_| Act::Block(Box::new(|| std::thread::sleep(2 * SHORT.lease))));
    let (worker, _) = house.worker(Work { terms: SHORT, ..Work::with(source) }).await;
    let tally = worker.run().await.unwrap();
    assert_eq!((tally.accepted, tally.lost), (1, 0));
    let run = house.attempts(&key).await.remove(0);
    let beaten = run.last_heartbeat.unwrap().since(run.started_at.unwrap());
    assert!(beaten > SHORT.lease, "the lease was prolonged meanwhile: {beaten:?}");
}

/// A database that cannot be written: the lease is given up before it ends, and so before anybody else may have it.
#[tokio::test]
async fn a_lease_that_cannot_be_prolonged_is_given_up_before_it_ends() {
    let house = TestDataPlane::sqlite().await;
    house.want(&[key("c", 0)]).await;
    let asked = Instant::now();
    let claimed = house.claim(SHORT.lease).await;
    let keeper = house.keeper(SHORT).await;
    let locked = rusqlite::Connection::open(house.database.path().join("redrive.db")).unwrap();
    locked.busy_timeout(Duration::from_secs(10)).unwrap();
    locked.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lease = keeper.hold(claimed.run.run_id, claimed.run.task_id.unwrap(), asked);
    let end = tokio::time::timeout(Duration::from_secs(20), lease.ended()).await.unwrap();
    assert_eq!(end, LeaseEnd::Lost);
    assert!(asked.elapsed() < SHORT.lease, "given up after {:?}", asked.elapsed());
    locked.execute_batch("ROLLBACK").unwrap();
}

/// A worker may claim a run anew before it has let go of it.
#[tokio::test]
async fn a_lease_that_is_let_go_of_leaves_a_newer_one_of_the_run_alone() {
    let house = TestDataPlane::sqlite().await;
    house.want(&[key("c", 0), key("c", 1)]).await;
    let (run, other) = (house.claim(TERMS.lease).await.run, house.claim(TERMS.lease).await.run);
    let keeper = house.keeper(TERMS).await;
    let first = keeper.hold(run.run_id, run.task_id.unwrap(), Instant::now());
    let second = keeper.hold(run.run_id, other.task_id.unwrap(), Instant::now());
    assert_eq!(first.ended().await, LeaseEnd::Lost, "the run has a newer claim");
    drop(first);
    assert!(futures_util::poll!(Box::pin(second.ended())).is_pending());
}

async fn a_lease_that_somebody_else_ended_is_lost(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let source = {
        let gate = Arc::clone(&gate);
        Source::new(move |_| Act::Wait(Arc::clone(&gate)))
    };
    let terms = LeaseTerms { lease: Duration::from_secs(3600), ..SHORT };
    let (worker, stop) = house.worker(Work { terms, drain: false, ..Work::with(Arc::clone(&source) as _) }).await;
    let tally = worker.counts();
    let work = tokio::spawn(worker.run());
    eventually("it is at work", async || source.asked() == 1).await;
    let run = house.attempts(&key).await.remove(0);
    house.store.data().release(&run, None).await.unwrap();
    eventually("it has noticed", async || tally.borrow().lost == 1).await;
    stop.request();
    stop.request();
    work.await.unwrap().unwrap();
    assert_eq!(house.partition(&key).await.state.attempt_count, 0);
}

/// The run is written as done, a heartbeat finds it gone, and only then does the answer come.
async fn a_report_that_a_heartbeat_overtakes_is_heard_out(house: TestDataPlane) {
    let terms = LeaseTerms { lease: Duration::from_secs(3600), ..SHORT };
    house.want(&[key("c", 0)]).await;
    let claimed = house.claim(terms.lease).await;
    let keeper = house.keeper(terms).await;
    let lease = keeper.hold(claimed.run.run_id, claimed.run.task_id.unwrap(), Instant::now());
    let report = async {
        let recorded =
            house.store.verdicts().judge(&claimed.run, Judgement::Accepted { records: 1 }, None).await.unwrap();
        assert_eq!(lease.ended().await, LeaseEnd::Lost, "the heartbeat finds nothing to prolong");
        tokio::task::yield_now().await;
        recorded
    };
    let answer = lease.answered(report).await;
    assert!(matches!(answer, Ok(Recorded::As(_))), "{answer:?}");
    assert_eq!(lease.end(), Some(LeaseEnd::Lost));
}

/// RP-8.4: what is abandoned before its first part leaves a manifest all the same.
async fn an_abandoned_attempt_is_rejected_once_and_leaves_word(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let claimed = house.claim(Duration::from_millis(1)).await;
    eventually("the lease has passed", async || {
        !house.store.view().overdue(Workload::Extract, 9).await.unwrap().is_empty()
    })
    .await;
    let (data, extraction) = (house.store.data(), house.idle_extraction());
    let (one, two) = tokio::join!(end_expired(&data, &extraction), end_expired(&data, &extraction));
    assert_eq!(one.unwrap() + two.unwrap(), 1);
    let state = house.partition(&key).await.state;
    assert_eq!((state.status, state.attempt_count), (Status::Failed, 1));
    let run = house.attempts(&key).await.remove(0);
    assert_eq!((run.state, run.verdict), (State::Dead, Some(Verdict::Failed)));
    let manifest = house.sink.view().manifest(&key, run.run_id).await.unwrap().unwrap();
    assert!(matches!(manifest.outcome, RunOutcome::Failed { .. }), "{manifest:?}");
    // The worker comes back to life: it can commit nothing any more.
    let directory = RunHeader {
        key: key.clone(),
        run_id: run.run_id,
        fence: claimed.run.task_id.unwrap(),
        extractor: "told".to_owned(),
        started_at: house.store.now(),
    };
    let mut late = house.sink.begin(directory);
    late.write_line(b"{}").await.unwrap();
    let refused = late.finish(RunOutcome::Complete, house.store.now()).await.unwrap_err();
    assert!(matches!(refused, redrive_store::raw::Error::Conflict { .. }), "{refused}");
}

/// A worker that died after its manifest and before its verdict: the manifest stays as it is.
async fn an_abandoned_attempt_that_had_finished_keeps_its_manifest(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let run = house.claim(Duration::from_millis(1)).await.run;
    let directory = RunHeader {
        key: key.clone(),
        run_id: run.run_id,
        fence: run.task_id.unwrap(),
        extractor: "told".to_owned(),
        started_at: house.store.now(),
    };
    let written = house.sink.begin(directory).finish(RunOutcome::Complete, house.store.now()).await.unwrap();
    eventually("the lease has passed", async || {
        !house.store.view().overdue(Workload::Extract, 9).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(end_expired(&house.store.data(), &house.idle_extraction()).await.unwrap(), 1);
    assert_eq!(house.sink.view().manifest(&key, run.run_id).await.unwrap(), Some(written));
    let state = house.partition(&key).await.state;
    assert_eq!((state.status, state.current_run_id), (Status::Failed, None));
}

/// Where the sink takes no word of it, an abandoned attempt is ended all the same, and so are all others.
async fn an_abandoned_attempt_that_the_sink_refuses_is_ended_too(house: TestDataPlane) {
    let (bad, good) = (key("bad", 0), key("good", 0));
    house.want(&[bad.clone(), good.clone()]).await;
    house.claim(Duration::from_millis(1)).await;
    house.claim(Duration::from_millis(1)).await;
    let raw = house.database.path().join("raw/source=src");
    std::fs::create_dir_all(&raw).unwrap();
    std::fs::write(raw.join("customer_id=bad"), "a file in the way").unwrap();
    eventually("the leases have passed", async || {
        house.store.view().overdue(Workload::Extract, 9).await.unwrap().len() == 2
    })
    .await;
    assert_eq!(end_expired(&house.store.data(), &house.idle_extraction()).await.unwrap(), 2);
    for key in [&bad, &good] {
        assert_eq!(house.partition(key).await.state.status, Status::Failed, "{key}");
    }
    assert!(house.sink.view().has_any(&good).await.unwrap());
}

redrive_fixture::on_both_databases!(
    current_thread:
    an_abandoned_attempt_that_the_sink_refuses_is_ended_too,
    work_that_blocks_its_thread_keeps_its_lease,
    a_report_that_a_heartbeat_overtakes_is_heard_out,
    a_lease_that_somebody_else_ended_is_lost,
    an_abandoned_attempt_is_rejected_once_and_leaves_word,
    an_abandoned_attempt_that_had_finished_keeps_its_manifest,
);
