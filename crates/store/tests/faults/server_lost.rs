//! A PostgreSQL server that goes away in the middle of things, and comes back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redrive_core::run::{End, Verdict};
use redrive_fixture::{Database, Durability, Postgres};
use redrive_store::{Error, NewRun, Recorded, Store, StoreUrl};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::support::{
    assert_whole, claim_runs, count_at, eventually, job, one_line, open, operation, standing_still, unavailable_at,
    wanted, within,
};

/// How long a caller may be left without an answer when the server is gone.
const BOUND: Duration = Duration::from_secs(15);

/// How long the server may be away.
const BACK: Duration = Duration::from_secs(60);

/// What all callers together were told.
#[derive(Default)]
struct Ledger {
    stop: AtomicBool,
    /// Whether the server is away: nothing is asked for again before it is back.
    away: watch::Sender<bool>,
    /// Acknowledged external ids.
    submitted: Mutex<BTreeSet<String>>,
    completed: Mutex<BTreeSet<String>>,
    /// How often each caller was told that the server is gone.
    losses: [AtomicUsize; CALLERS],
    longest: Mutex<Duration>,
}

const CALLERS: usize = 6;

impl Ledger {
    fn note_wait(&self, wait: Duration) {
        let mut longest = self.longest.lock().unwrap();
        *longest = longest.max(wait);
    }

    /// Calls until it is acknowledged, and notes what was told on the way.
    async fn insist<'a, T>(&self, caller: usize, place: &str, call: impl Fn() -> BoxFuture<'a, Result<T, Error>>) -> T {
        loop {
            let asked = Instant::now();
            let result = within(BOUND, "an answer", call()).await;
            self.note_wait(asked.elapsed());
            match result {
                Ok(value) => return value,
                Err(error) => {
                    assert!(matches!(error, Error::Lost { .. } | Error::Unknown { .. }), "{error:?}");
                    unavailable_at(&error, place);
                    self.losses[caller].fetch_add(1, Ordering::SeqCst);
                }
            }
            let mut away = self.away.subscribe();
            within(BACK, "the server is back", away.wait_for(|away| !away)).await.unwrap();
        }
    }
}

/// Submits, enqueues, claims and completes until told to stop; every step is asked for again until acknowledged.
async fn call(store: Store, ledger: Arc<Ledger>, caller: usize) {
    let place = store.place().to_owned();
    let worker = format!("w{caller}");
    for nth in 0.. {
        if ledger.stop.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("{caller}-{nth}");
        let (control, data) = (&store.control(), &store.data());
        ledger.insist(caller, &place, || control.submit(vec![job(&name)]).boxed()).await;
        assert!(ledger.submitted.lock().unwrap().insert(name.clone()));
        let enqueue = operation(&store, "enqueue");
        let all = || vec![wanted("ads", &name)];
        ledger.insist(caller, &place, || control.enqueue(&enqueue, all()).boxed()).await;

        let claimed = ledger.insist(caller, &place, || data.claim_runs(claim_runs(&worker, 2)).boxed()).await;
        let names: Vec<String> =
            claimed.iter().filter_map(|claimed| claimed.run.work.external_id().map(str::to_owned)).collect();
        let done = End::Completed { verdict: Verdict::Passed, metrics: None };
        let reports: Vec<_> = claimed.into_iter().map(|claimed| (claimed.run, done.clone())).collect();
        let losses = ledger.losses[caller].load(Ordering::SeqCst);
        let recorded = ledger.insist(caller, &place, || data.record(reports.clone()).boxed()).await;
        let unsure = ledger.losses[caller].load(Ordering::SeqCst) > losses;
        for (name, recorded) in names.into_iter().zip(recorded) {
            // One whose first report was committed and not acknowledged is now told that nothing was changed.
            assert!(matches!(recorded, Recorded::As(_)) || unsure, "{recorded:?}");
            assert!(ledger.completed.lock().unwrap().insert(name), "completed twice");
        }
    }
}

fn names(database: &Database, sql: &str) -> Vec<String> {
    database.query(sql).lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_outlives_its_server_and_nothing_acknowledged_is_lost() {
    let mut postgres = Postgres::start(Durability::Full);
    let database = postgres.fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    let (store, other) = (open(&url).await, open(&url).await);
    let mut news = other.wakeups();
    let ledger = Arc::new(Ledger::default());
    let callers: Vec<_> =
        (0..CALLERS).map(|caller| tokio::spawn(call(store.clone(), Arc::clone(&ledger), caller))).collect();
    let submitted = || ledger.submitted.lock().unwrap().len();
    eventually("the callers are at it", async || submitted() >= 50).await;

    for _ in 0..2 {
        let lost = || ledger.losses.iter().map(|losses| losses.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let before = lost();
        ledger.away.send_replace(true);
        tokio::task::block_in_place(|| postgres.stop());
        eventually("every caller is told", async || lost().iter().zip(&before).all(|(now, then)| now > then)).await;
        let before = submitted();
        tokio::task::block_in_place(|| postgres.restart());
        ledger.away.send_replace(false);
        eventually("the callers go on", async || submitted() >= before + 50).await;
    }
    ledger.stop.store(true, Ordering::SeqCst);
    for caller in callers {
        within(BOUND, "the callers end", caller).await.unwrap();
    }

    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN redrive'";
    eventually("both stores listen again", async || count_at(&database, listening) == 2).await;
    news.mark_unchanged();
    store.control().submit(vec![job("news")]).await.unwrap();
    within(BOUND, "news after the restart", news.changed()).await.unwrap();

    let there = names(&database, "SELECT external_id FROM runs");
    let set: BTreeSet<String> = there.iter().cloned().collect();
    assert_eq!(set.len(), there.len(), "something is there twice");
    assert!(ledger.submitted.lock().unwrap().is_subset(&set));
    let done: BTreeSet<_> = names(&database, "SELECT external_id FROM runs WHERE state = 'done'").into_iter().collect();
    assert!(ledger.completed.lock().unwrap().is_subset(&done), "acknowledged and not done");
    assert_eq!(count_at(&database, "SELECT count(*) FROM runs WHERE attempt > 1"), 0);
    assert_whole(&store, |sql| count_at(&database, sql)).await;
    println!("longest wait for an answer: {:?}", ledger.longest.lock().unwrap());
    drop((store, other));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_while_the_server_is_away_fails_and_later_works() {
    let mut postgres = Postgres::start(Durability::Fast);
    let database = postgres.fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    drop(open(&url).await);
    tokio::task::block_in_place(|| postgres.stop());
    let opened = Store::open(&url, redrive_store::Open::Current, standing_still());
    let error = within(BOUND, "an answer", opened).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    unavailable_at(&error, &url.place());
    tokio::task::block_in_place(|| postgres.restart());
    Store::open(&url, redrive_store::Open::Current, standing_still()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_the_server_ends_costs_at_most_the_call_that_was_using_it() {
    let database = Postgres::shared().fresh_database();
    let store = open(&StoreUrl::parse(&database.url).unwrap()).await;
    store.control().submit(vec![job("before")]).await.unwrap();
    let others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.query(&format!("SELECT pg_terminate_backend(pid) {others}"));
    // Again and again: the announcer may only now connect to tell of the first job.
    eventually("the connections are gone", async || {
        let ended = format!("SELECT count(pg_terminate_backend(pid)) {others} AND query <> 'LISTEN redrive'");
        database.query(&ended) == "0"
    })
    .await;
    let mut tries = 0;
    eventually("the store works", async || {
        tries += 1;
        store.control().submit(vec![job("after")]).await.is_ok()
    })
    .await;
    assert!(tries <= 2, "it took {tries} calls to notice");
    assert_eq!(count_at(&database, "SELECT count(*) FROM runs"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_refuses_is_told_in_one_line() {
    let database = Postgres::shared().fresh_database();
    let store = open(&StoreUrl::parse(&database.url).unwrap()).await;
    // Longer than an index of PostgreSQL can hold, and not to be made smaller.
    let long: String = (0..80u32).map(|nth| format!("{:?}", Sha256::digest(nth.to_le_bytes()))).collect();
    let nul = NewRun { payload: Some("a\0b".to_owned()), ..job("nul") };
    for run in [job(&long), nul] {
        if let Err(error) = store.control().submit(vec![run]).await {
            println!("{error}");
            one_line(&error);
        }
    }
    store.control().submit(vec![job("fine")]).await.unwrap();
}
