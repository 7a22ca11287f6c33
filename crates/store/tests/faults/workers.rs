//! Eight workers on PostgreSQL, each with a store of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use futures_util::future::join_all;
use redrive_core::key::Source;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, State, Verdict, Workload};
use redrive_fixture::{Database, Postgres};
use redrive_store::{ClaimedPartition, Page, PartitionClaim, Recorded, Store, StoreUrl};

use crate::support::{assert_whole, claim_partitions, claim_runs, count_at, eventually, job, open, operation, wanted};

const WORKERS: usize = 8;

async fn stores() -> (Database, Vec<Store>) {
    let database = Postgres::shared().fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    let stores = join_all((0..WORKERS).map(|_| open(&url))).await;
    (database, stores)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_run_is_claimed_twice_and_none_is_forgotten() {
    const JOBS: usize = 50;
    let (database, stores) = stores().await;
    let submitting = Arc::new(AtomicI64::new(i64::try_from(WORKERS).unwrap()));
    let workers = stores.iter().cloned().enumerate().map(|(nth, store)| {
        let submitting = Arc::clone(&submitting);
        tokio::spawn(async move {
            let (worker, limit) = (format!("w{nth}"), u32::try_from(nth).unwrap() % 5 + 1);
            let mut mine = Vec::new();
            for round in 0..1000 {
                if round < JOBS / 5 {
                    let jobs = (0..5).map(|job_nth| job(&format!("{nth}-{round}-{job_nth}"))).collect();
                    store.control().submit(jobs).await.unwrap();
                } else if round == JOBS / 5 {
                    submitting.fetch_sub(1, Ordering::SeqCst);
                }
                let nobody_submits = submitting.load(Ordering::SeqCst) == 0;
                let claimed = store.data().claim_runs(claim_runs(&worker, limit)).await.unwrap();
                assert!(claimed.len() <= usize::try_from(limit).unwrap(), "more than was asked for");
                if claimed.is_empty() && nobody_submits {
                    break;
                }
                let done = End::Completed { verdict: Verdict::Passed, metrics: None };
                let reports: Vec<_> = claimed.iter().map(|claimed| (claimed.run.clone(), done.clone())).collect();
                let recorded = store.data().record(reports).await.unwrap();
                assert!(recorded.iter().all(|recorded| matches!(recorded, Recorded::As(_))), "{recorded:?}");
                mine.extend(claimed.into_iter().map(|claimed| claimed.run.run_id));
            }
            mine
        })
    });
    let mut all = Vec::new();
    for worker in join_all(workers).await {
        all.extend(worker.unwrap());
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "a run was claimed twice");
    let left = stores[0].data().claim_runs(claim_runs("last", 1000)).await.unwrap();
    // Skipping what another has locked may let the last round of every worker come up empty.
    assert_eq!(all.len() + left.len(), WORKERS * JOBS);
    assert_eq!(count_at(&database, "SELECT count(*) FROM runs WHERE attempt <> 1"), 0);
    let by_state = stores[0].view().run_metrics(Workload::Process, 1).await.unwrap().by_state;
    assert!(by_state.contains(&(State::Done, u64::try_from(all.len()).unwrap())), "{by_state:?}");
}

fn limited(worker: &str, limit: u32, source: &str, most: u32) -> PartitionClaim {
    let source: Source = source.parse().unwrap();
    PartitionClaim { max_in_flight: BTreeMap::from([(source, most)]), ..claim_partitions(worker, limit) }
}

async fn claim_at_once(stores: &[Store], limit: u32, most: u32) -> Vec<ClaimedPartition> {
    let claims = stores.iter().cloned().enumerate().map(|(nth, store)| {
        tokio::spawn(async move {
            let claim = limited(&format!("w{nth}"), limit, "ads", most);
            let (claimed, _) = store.data().claim_partitions(claim).await.unwrap();
            assert!(claimed.len() <= usize::try_from(limit).unwrap(), "more than was asked for");
            claimed
        })
    });
    join_all(claims).await.into_iter().flat_map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sources_limit_is_reached_exactly_and_never_passed() {
    const MOST: u32 = 5;
    let (database, stores) = stores().await;
    let all = (0..60).map(|nth| wanted("ads", &format!("{nth:02}"))).collect();
    stores[0].control().enqueue(&operation(&stores[0], "want"), all).await.unwrap();

    let first = claim_at_once(&stores, 3, MOST).await;
    assert_eq!(first.len(), 5, "what is in flight after every worker has asked");
    assert!(claim_at_once(&stores, 3, MOST).await.is_empty());
    stores[1].verdicts().judge(&first[0].run, Judgement::Accepted { records: 1 }, None).await.unwrap();
    stores[2].data().release(&first[1].run, None).await.unwrap();
    assert_eq!(claim_at_once(&stores, 3, MOST).await.len(), 2);
    assert_eq!(count_at(&database, "SELECT count(*) FROM runs WHERE state = 'running'"), 5);

    // Now with claims and judgements crossing each other: the gauge counts only what is surely in flight.
    let gauge = Arc::new(AtomicI64::new(0));
    let most = stores[0].data().expire(Workload::Extract, 100, |_| RetryPolicy::partitions()).await.unwrap();
    assert!(most.is_empty(), "no lease has passed");
    for claimed in stores[0].view().runs(redrive_store::RunPage { limit: 100, ..Default::default() }).await.unwrap() {
        if claimed.state == State::Running {
            stores[0].verdicts().judge(&claimed, Judgement::Accepted { records: 1 }, None).await.unwrap();
        }
    }
    let workers = stores.iter().cloned().enumerate().map(|(nth, store)| {
        let gauge = Arc::clone(&gauge);
        tokio::spawn(async move {
            let mut mine = Vec::new();
            for _ in 0..15 {
                let claim = limited(&format!("w{nth}"), 2, "ads", MOST);
                let (claimed, _) = store.data().claim_partitions(claim).await.unwrap();
                let in_flight = gauge.fetch_add(i64::try_from(claimed.len()).unwrap(), Ordering::SeqCst);
                assert!(in_flight + i64::try_from(claimed.len()).unwrap() <= i64::from(MOST), "over the limit");
                for claimed in claimed {
                    gauge.fetch_sub(1, Ordering::SeqCst);
                    let judged = store.verdicts().judge(&claimed.run, Judgement::Accepted { records: 1 }, None).await;
                    assert!(matches!(judged.unwrap(), Recorded::As(_)));
                    mine.push(claimed.partition.state.key);
                }
            }
            mine
        })
    });
    let judged: Vec<_> = join_all(workers).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(judged.iter().collect::<BTreeSet<_>>().len(), judged.len(), "a partition was claimed twice");
    assert_whole(&stores[0], |sql| count_at(&database, sql)).await;
}

/// Pauses and resumes every partition, in key order or against it.
async fn toggle(store: &Store, backwards: bool) {
    let mut page = store.view().partitions(Page { limit: 100, ..Page::default() }).await.unwrap();
    if backwards {
        page.reverse();
    }
    let event = |paused| if paused { ControlEvent::Resume } else { ControlEvent::Pause { by: "tester", why: None } };
    let items = page.into_iter().map(|it| (it.clone(), event(it.control.paused.is_some()))).collect();
    store.control().commit(&operation(store, "state pause"), items).await.unwrap();
}

/// Claims and releases while operations go over the same partitions; gives how many deadlocks that made.
async fn cross(claimers: usize, operators: usize, both_ways: bool) -> u64 {
    let (database, stores) = stores().await;
    let all = (0..40).map(|nth| wanted("ads", &format!("{nth:02}"))).collect();
    stores[0].control().enqueue(&operation(&stores[0], "want"), all).await.unwrap();
    let claiming = Arc::new(AtomicUsize::new(claimers));
    let workers = stores.iter().take(claimers + operators).cloned().enumerate().map(|(nth, store)| {
        let claiming = Arc::clone(&claiming);
        tokio::spawn(async move {
            if nth >= claimers {
                let mut backwards = false;
                while claiming.load(Ordering::SeqCst) > 0 {
                    toggle(&store, backwards && both_ways).await;
                    backwards = !backwards;
                }
                return;
            }
            for _ in 0..10 {
                let (claimed, _) = store.data().claim_partitions(claim_partitions("w", 10)).await.unwrap();
                for claimed in claimed {
                    let released = store.data().release(&claimed.run, None).await.unwrap();
                    assert!(matches!(released, Recorded::As(_)), "{released:?}");
                }
            }
            claiming.fetch_sub(1, Ordering::SeqCst);
        })
    });
    for worker in join_all(workers).await {
        worker.unwrap();
    }
    assert_whole(&stores[0], |sql| count_at(&database, sql)).await;
    drop(stores);
    // Each connection has told its numbers when it is gone.
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    eventually("the connections are closed", async || count_at(&database, others) == 0).await;
    count_at(&database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_and_operations_on_the_same_partitions_do_not_fail_each_other() {
    println!("deadlocks: {}", cross(4, 4, true).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_and_an_operation_do_not_deadlock() {
    // Every deadlock keeps all claims on all machines waiting for a second, until the server notices.
    assert_eq!(cross(4, 1, false).await, 0, "deadlocks");
}
