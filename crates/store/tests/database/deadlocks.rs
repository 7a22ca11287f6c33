//! The planes take their locks in one order, so that nobody has to be sacrificed: PostgreSQL takes a second to notice,
//! and a claim that is stuck holds up every other claim.

use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::lane::Lane;
use redrive_core::partition::ControlEvent;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, Workload};
use redrive_store::{DataStore, HeartbeatAnswer, HeldByWorker, Page, Store};
use tokio::task::JoinSet;

use crate::raw::Raw;
use crate::steps::{claim, job_claim, keys, passed, pause, recorded, rejected};
use crate::support::{LEASE, TestStore};

/// How many transactions the server has sacrificed in this database. Servers count when a connection ends.
async fn deadlocks(raw: &Raw) -> i64 {
    if !raw.is_postgres() {
        return 0;
    }
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'works'";
    while raw.int(open).await > 0 {
        tokio::task::yield_now().await;
    }
    raw.int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await
}

/// Lets tasks run on stores of their own, and counts what the server had to sacrifice for them.
async fn count<F: Future<Output = ()> + Send + 'static>(
    subject: &TestStore,
    works: Vec<impl FnOnce(Store) -> F>,
) -> i64 {
    let raw = Raw::of(subject).await;
    let mut tasks = JoinSet::new();
    for work in works {
        tasks.spawn(work(subject.again_as("works").await));
    }
    tasks.join_all().await;
    tokio::time::timeout(Duration::from_secs(30), deadlocks(&raw)).await.expect("connections stay open")
}

/// CP-2.5
async fn claims_and_pauses_of_the_same_partitions(subject: TestStore) {
    let days = keys("ads", &["a", "b"], 200);
    subject.want(Lane::Fresh, days).await;
    let operation = subject.operation("state pause");
    let works: Vec<Box<dyn FnOnce(Store) -> futures_util::future::BoxFuture<'static, ()>>> = vec![
        Box::new(move |store| {
            Box::pin(async move {
                for event in [pause(), ControlEvent::Resume].into_iter().cycle().take(12) {
                    let page = Page { limit: 1000, ..Page::default() };
                    let read = store.view().partitions(page).await.unwrap();
                    let items = read.into_iter().map(|partition| (partition, event.clone())).collect();
                    store.control().commit(&operation, items).await.unwrap();
                }
            })
        }),
        Box::new(|store| {
            Box::pin(async move {
                for _ in 0..20 {
                    let claimed = store.data().claim_partitions(claim(50)).await.unwrap().0;
                    join_all(claimed.iter().map(|claimed| {
                        let data = store.data();
                        async move { data.release(&claimed.run, None).await.unwrap() }
                    }))
                    .await;
                }
            })
        }),
    ];
    assert_eq!(count(&subject, works).await, 0);
}

/// A lease runs out while its worker's verdict is on the way.
async fn verdicts_and_expiries_of_the_same_attempts(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a"], 400)).await;
    let claimed = subject.claim(400).await;
    subject.submit(&["a"; 50]).await;
    subject.store.data().claim_runs(job_claim(50)).await.unwrap();
    subject.clock.advance(LEASE);
    let works: Vec<Box<dyn FnOnce(Store) -> futures_util::future::BoxFuture<'static, ()>>> = vec![
        Box::new(move |store| {
            Box::pin(async move {
                for some in claimed.chunks(8) {
                    let judged = some.iter().map(|claimed| {
                        let (verdicts, judgement) = (store.verdicts(), rejected(ErrorClass::Retryable, "boom"));
                        async move { verdicts.judge(&claimed.run, judgement, None).await.unwrap() }
                    });
                    join_all(judged).await;
                }
            })
        }),
        Box::new(|store| {
            Box::pin(async move {
                while !store.data().expire(Workload::Process, 25, |_| RetryPolicy::process()).await.unwrap().is_empty()
                {
                }
            })
        }),
    ];
    assert_eq!(count(&subject, works).await, 0);
}

/// Jobs that are in a bundle and jobs that have rows of their own, as one worker has them.
async fn bundled_and_single(subject: &TestStore, jobs: usize) -> (Vec<Run>, Vec<Run>) {
    subject.submit(&vec!["a"; jobs]).await;
    let bundled = subject.claim_jobs(1000).await;
    subject.submit(&vec!["a"; jobs]).await;
    let mut single = Vec::new();
    while single.len() < jobs {
        single.extend(subject.claim_jobs(10).await);
    }
    (bundled, single)
}

async fn reports_and_heartbeats_of_the_same_jobs(subject: TestStore) {
    let (bundled, single) = bundled_and_single(&subject, 60).await;
    let held = bundled.iter().chain(&single).map(|run| (run.run_id, run.task_id.unwrap())).collect::<Vec<_>>();
    let works: Vec<Box<dyn FnOnce(Store) -> futures_util::future::BoxFuture<'static, ()>>> = vec![
        Box::new(move |store| {
            Box::pin(async move {
                for (bundled, single) in bundled.chunks(3).zip(single.chunks(3)) {
                    let ends = single.iter().chain(bundled).map(|run| (run.clone(), passed())).collect::<Vec<_>>();
                    store.data().record(ends).await.unwrap();
                }
            })
        }),
        Box::new(|store| {
            Box::pin(async move {
                for _ in 0..40 {
                    store.data().beat(held.clone(), LEASE).await.unwrap();
                }
            })
        }),
    ];
    assert_eq!(count(&subject, works).await, 0);
}

/// A heartbeat that has the bundle may be waiting for the other row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_waits_for_a_bundle_holds_no_other_row() {
    let subject = TestStore::postgres().await;
    let (bundled, single) = bundled_and_single(&subject, 20).await;
    let raw = Raw::of(&subject).await;
    raw.run("BEGIN").await;
    raw.run("SELECT 1 FROM run_bundles FOR UPDATE").await;
    let ends = [&single[0], &bundled[0]].map(|run| (run.clone(), passed()));
    let data = subject.again().await.data();
    let reporting = tokio::spawn(async move { data.record(ends.to_vec()).await.unwrap() });
    Raw::of(&subject).await.wait_for_lock().await;
    raw.run("SELECT 1 FROM run_claims FOR UPDATE NOWAIT").await;
    raw.run("COMMIT").await;
    reporting.await.unwrap().into_iter().for_each(|outcome| drop(recorded(outcome)));
}

/// Reports take the rows of jobs in the order of their ids. So must a heartbeat: here it names the younger of two jobs first, waits for
/// the older one's row, and must not hold the younger one's meanwhile.
async fn takes_rows_in_order<F>(beat: impl FnOnce(DataStore, Vec<(RunId, TaskId)>) -> F)
where
    F: Future<Output = Vec<HeartbeatAnswer>> + Send + 'static,
{
    let subject = TestStore::postgres().await;
    subject.submit(&["a"; 2]).await;
    let held = subject.claim_jobs(2).await.into_iter().map(|run| (run.run_id, run.task_id.unwrap()));
    let held: Vec<_> = held.rev().collect();
    let raw = Raw::of(&subject).await;
    let row = |nth: usize| format!("SELECT 1 FROM run_claims WHERE run_id = {} FOR UPDATE", raw.id(held[nth].0.uuid()));
    let (first, second) = (row(1), row(0));
    raw.run("BEGIN").await;
    raw.run(&first).await;
    let beating = tokio::spawn(beat(subject.again().await.data(), held));
    Raw::of(&subject).await.wait_for_lock().await;
    raw.run(&format!("{second} NOWAIT")).await;
    raw.run("COMMIT").await;
    assert_eq!(beating.await.unwrap(), [HeartbeatAnswer::Held; 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_takes_rows_in_the_order_of_their_jobs() {
    takes_rows_in_order(async |data, held| data.beat(held, LEASE).await.unwrap().answers).await;
}

/// The worker says how far it is with the younger job alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_of_an_outside_worker_takes_rows_in_the_order_of_their_jobs() {
    takes_rows_in_order(async |data, held| {
        let progress = [Some("0.5".to_owned()), None];
        let held = held.into_iter().zip(progress);
        let held = held.map(|((run_id, task_id), progress)| HeldByWorker { run_id, task_id, progress }).collect();
        let beats = data.beat_outside(held, |run, now| run.prolonged(now, LEASE, LEASE * 10)).await.unwrap();
        beats.into_iter().map(|beat| beat.answer).collect()
    })
    .await;
}

crate::on_both_databases!(
    claims_and_pauses_of_the_same_partitions,
    verdicts_and_expiries_of_the_same_attempts,
    reports_and_heartbeats_of_the_same_jobs
);
