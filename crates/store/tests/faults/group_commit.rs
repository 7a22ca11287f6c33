//! Pieces of work that share one commit on SQLite: one that fails takes none of its neighbours with it.

use std::collections::BTreeSet;

use redrive_core::id::RunId;
use redrive_core::partition::{ControlEvent, ControlSnapshot, Partition, Status};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Fault, Run, Workload};
use redrive_fixture::Postgres;
use redrive_store::{Error, Store, StoreUrl, Submitted};
use tokio::task::JoinSet;

use crate::support::{
    Place, assert_integrity, assert_whole, claim_runs, count_at, count_in, job, one_line, open, operation, wanted,
};

/// What one caller asked for, and what it was told.
type Told = (String, Result<(), Error>);

fn told<T>(name: String, result: Result<T, Error>) -> Told {
    (name, result.map(drop))
}

/// A change that the schema forbids: a success that no run stands for.
async fn forbidden(store: Store, partition: Partition) -> Told {
    let to = ControlSnapshot { status: Status::Success, ..partition.snapshot() };
    let revert = ControlEvent::Revert { to: &to, from_version: partition.state.version };
    told(String::new(), store.control().commit(&operation(&store, "state undo"), vec![(partition, revert)]).await)
}

/// A partition that the schema forbids, beside one that it does not.
async fn forbidden_insert(store: Store, nth: usize) -> Told {
    let fine = wanted("ads", &format!("taken-along-{nth}"));
    let mut bad = wanted("ads", &format!("forbidden-{nth}"));
    bad.state.status = Status::Success;
    told(String::new(), store.control().enqueue(&operation(&store, "enqueue"), vec![fine, bad]).await)
}

async fn submit(store: Store, name: String) -> Told {
    let result = store.control().submit(vec![job(&name), job("asked for by all"), job(&name)]).await;
    if let Ok([first, all, again]) = result.as_deref() {
        assert!(!first.existing && *again == Submitted { run_id: first.run_id, existing: true }, "{all:?}");
    }
    told(name, result)
}

async fn enqueue(store: Store, name: String) -> Told {
    let new = store.control().enqueue(&operation(&store, "enqueue"), vec![wanted("ads", &name)]).await;
    told(name, new.map(|new| assert_eq!(new, [true])))
}

/// The end of an upload that is not there, or is no upload that waits for its bytes.
async fn not_stored(store: Store, run: RunId) -> Told {
    told(String::new(), store.data().not_stored(run, Fault::lease_expired(), None).await)
}

/// Everything at once, good and bad in turn.
async fn throng(store: &Store) -> JoinSet<Told> {
    let control = store.control();
    control.enqueue(&operation(store, "want"), vec![wanted("ads", "victim")]).await.unwrap();
    let queued = control.submit(vec![job("queued")]).await.unwrap()[0].run_id;
    let victim = store.view().partition(&wanted("ads", "victim").state.key).await.unwrap().unwrap();
    let mut callers = JoinSet::new();
    for nth in 0..20 {
        callers.spawn(submit(store.clone(), format!("run-{nth}")));
        callers.spawn(forbidden(store.clone(), victim.clone()));
        callers.spawn(enqueue(store.clone(), format!("partition-{nth}")));
        callers.spawn(forbidden_insert(store.clone(), nth));
        callers.spawn(not_stored(store.clone(), RunId::from_uuid(uuid::Uuid::nil())));
        callers.spawn(not_stored(store.clone(), queued));
    }
    callers
}

/// Asserts that the good got what they asked for and the bad got an error, and that the database says the same.
async fn assert_told_truly(store: &Store, callers: JoinSet<Told>, count: impl Fn(&str) -> u64) {
    let (mut good, mut bad) = (BTreeSet::new(), 0);
    for (name, result) in callers.join_all().await {
        match (name.is_empty(), result) {
            (false, Ok(())) => assert!(good.insert(name)),
            (true, Err(error)) => {
                one_line(&error);
                bad += 1;
            }
            (false, Err(error)) => panic!("{name} was taken along: {error}"),
            (true, Ok(())) => panic!("something forbidden was let through"),
        }
    }
    assert_eq!((good.len(), bad), (40, 80));
    assert_eq!(count("SELECT count(*) FROM runs WHERE external_id LIKE 'run-%'"), 20);
    assert_eq!(count("SELECT count(*) FROM runs"), 22);
    assert_eq!(count("SELECT count(*) FROM partition_state WHERE customer_id LIKE 'partition-%'"), 20);
    assert_eq!(count("SELECT count(*) FROM partitions"), 21);
    assert_eq!(count("SELECT count(*) FROM operations"), 20 + 1, "and the one that made the victim wanted");
    assert_whole(store, count).await;
}

#[tokio::test]
async fn a_failure_takes_no_neighbour_with_it_on_sqlite() {
    let place = Place::new();
    let store = open(&place.url()).await;
    let blocker = rusqlite::Connection::open(place.file()).unwrap();
    let callers = throng(&store).await;
    // The writer waits for this lock while all the callers line up behind it.
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    tokio::task::yield_now().await;
    blocker.execute_batch("ROLLBACK").unwrap();
    assert_told_truly(&store, callers, |sql| count_in(&place.file(), sql)).await;
    assert_integrity(&place.file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failure_takes_no_neighbour_with_it_on_postgres() {
    let database = Postgres::shared().fresh_database();
    let store = open(&StoreUrl::parse(&database.url).unwrap()).await;
    let callers = throng(&store).await;
    assert_told_truly(&store, callers, |sql| count_at(&database, sql)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_no_longer_waits_does_not_disturb_the_others() {
    let place = Place::new();
    let store = open(&place.url()).await;
    let blocker = rusqlite::Connection::open(place.file()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut callers = JoinSet::new();
    let mut waiting = Vec::new();
    for nth in 0..20 {
        let abort = callers.spawn(submit(store.clone(), format!("run-{nth}")));
        if nth % 2 == 0 {
            abort.abort();
        } else {
            waiting.push(format!("run-{nth}"));
        }
    }
    blocker.execute_batch("ROLLBACK").unwrap();
    let mut told = Vec::new();
    while let Some(ended) = callers.join_next().await {
        let Ok((name, result)) = ended else { continue };
        result.unwrap();
        told.push(name);
    }
    assert!(waiting.iter().all(|name| told.contains(name)), "{told:?}");
    assert_whole(&store, |sql| count_in(&place.file(), sql)).await;
}

/// A policy is the caller's code, and runs inside the writer.
fn broken(run: &Run) -> RetryPolicy {
    panic!("no policy for {}", run.run_id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_one_callers_work_does_not_end_the_store() {
    let place = Place::new();
    let clock = redrive_store::clock::ManualClock::at(crate::support::START);
    let options = crate::support::with_clock(&clock);
    let store = Store::open(&place.url(), redrive_store::Open::Migrate, options).await.unwrap();
    store.control().submit(vec![job("a")]).await.unwrap();
    assert_eq!(store.data().claim_runs(claim_runs("w", 1)).await.unwrap().len(), 1);
    clock.advance(2 * crate::support::LEASE);
    let data = store.data();
    // Whether the caller sees the panic or an error is a matter of taste; the next one must not.
    let panicked = tokio::spawn(async move { data.expire(Workload::Process, 10, broken).await }).await;
    assert!(!matches!(panicked, Ok(Ok(_))), "{panicked:?}");
    store.control().submit(vec![job("b")]).await.unwrap();
    assert_eq!(store.data().expire(Workload::Process, 10, |_| RetryPolicy::process()).await.unwrap().len(), 1);
}
