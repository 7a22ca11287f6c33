//! Many claimers on one database, each with a store of its own, as other processes would have.

use redrive_core::lane::Lane;
use redrive_store::{PartitionClaim, Rotation};

use crate::raw::Raw;
use crate::steps::{claim, job_claim, keys};
use crate::support::TestStore;

const CLAIMERS: u32 = 8;

/// RP-9.4, AR-7
async fn eight_claimers_take_five_thousand_runs_and_none_twice(subject: TestStore) {
    let ids = subject.submit(&["a", "b"].repeat(2500)).await;
    subject.clock.advance(std::time::Duration::from_secs(5000));
    let mut tasks = Vec::new();
    for nth in 0..CLAIMERS {
        let store = subject.again().await;
        tasks.push(tokio::spawn(async move {
            let (limit, mut mine) = (20 + nth * 7, Vec::new());
            loop {
                let claimed = store.data().claim_runs(job_claim(limit)).await.unwrap();
                assert!(claimed.len() <= limit as usize, "asked for {limit}, got {}", claimed.len());
                if claimed.is_empty() {
                    return mine;
                }
                let task_id = claimed[0].run.task_id;
                assert!(claimed.iter().all(|claimed| claimed.run.task_id == task_id && claimed.run.attempt == 1));
                mine.extend(claimed.into_iter().map(|claimed| claimed.run.run_id));
            }
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    // A claimer stops when it sees only what others are taking; what they gave back is still there.
    all.extend(subject.claim_jobs(5000).await.into_iter().map(|run| run.run_id));
    all.sort();
    let mut expected = ids;
    expected.sort();
    assert!(all == expected, "{} claims of {} runs", all.len(), expected.len());
}

/// RP-9.4
async fn eight_claimers_take_each_partition_once(subject: TestStore) {
    let mut expected = keys("ads", &["a", "b", "c", "d", "e"], 120);
    subject.want(Lane::Fresh, expected[..300].to_vec()).await;
    subject.want(Lane::Backfill, expected[300..].to_vec()).await;
    let mut tasks = Vec::new();
    for nth in 0..CLAIMERS {
        let store = subject.again().await;
        tasks.push(tokio::spawn(async move {
            let (limit, mut rotation, mut mine) = (3 + nth, Rotation::default(), Vec::new());
            loop {
                let (claimed, next) =
                    store.data().claim_partitions(PartitionClaim { rotation, ..claim(limit) }).await.unwrap();
                assert!(claimed.len() <= limit as usize, "asked for {limit}, got {}", claimed.len());
                if claimed.is_empty() {
                    return mine;
                }
                rotation = next;
                mine.extend(claimed.into_iter().map(|claimed| claimed.partition.state.key));
            }
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort();
    expected.sort();
    assert!(all == expected, "{} claims of {} partitions", all.len(), expected.len());
    for key in expected.iter().step_by(50) {
        assert_eq!(subject.store.view().attempts(key).await.unwrap().len(), 1);
    }
}

/// AR-10: PostgreSQL lets several claim at once; none waits for what another is about to take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_passes_over_what_another_is_taking() {
    let subject = TestStore::postgres().await;
    let ids = subject.submit(&["a"; 3]).await;
    let raw = Raw::of(&subject).await;
    raw.run("BEGIN").await;
    raw.rows(&format!("SELECT 1 FROM run_queue WHERE run_id = {} FOR UPDATE", raw.id(ids[0].uuid()))).await;
    let patience = std::time::Duration::from_secs(20);
    let claimed = tokio::time::timeout(patience, subject.claim_jobs(1)).await.expect("the claim waits for another");
    assert_eq!(claimed.iter().map(|run| run.run_id).collect::<Vec<_>>(), ids[1..2]);
    raw.run("ROLLBACK").await;
    assert_eq!(subject.claim_jobs(1).await[0].run_id, ids[0]);
}

crate::on_both_databases!(
    eight_claimers_take_five_thousand_runs_and_none_twice,
    eight_claimers_take_each_partition_once,
);
