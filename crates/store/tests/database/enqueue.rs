//! Making partitions wanted, many at once.

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::partition::Status;

use crate::steps::{keys, rejected};
use crate::support::{TestStore, key};

/// RP-6.1, CP-3b.1
async fn a_bulk_enqueue_answers_for_each_item(subject: TestStore) {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|customer| key("ads", customer, "daily", "2026-01-01"));
    subject.want(Lane::Fresh, vec![b.clone()]).await;
    let before = subject.read(&b).await;
    let asked = [&a, &b, &a, &c, &c, &d, &b].map(|key| subject.wanted(key.clone(), Lane::Backfill));
    let operation = subject.operation("want");
    let new = subject.store.control().enqueue(&operation, asked.to_vec()).await.unwrap();
    assert_eq!(new, [true, false, false, true, false, true, false]);
    assert_eq!(subject.read(&b).await, before);
    assert_eq!(subject.read(&a).await, subject.wanted(a, Lane::Backfill));
    assert!(subject.store.control().enqueue(&operation, vec![]).await.unwrap().is_empty());
}

/// CP-3b.1, CP-7.2
async fn an_existing_partition_keeps_its_status_when_it_is_enqueued_again(subject: TestStore) {
    let days = keys("ads", &["a"], 3);
    let failed = subject.judged(days.clone(), rejected(ErrorClass::Final, "gone")).await;
    let asked = days.iter().map(|key| subject.wanted(key.clone(), Lane::Backfill)).collect();
    let operation = subject.operation("state backfill enqueue");
    assert_eq!(subject.store.control().enqueue(&operation, asked).await.unwrap(), [false; 3]);
    for before in failed {
        assert_eq!(before.state.status, Status::Failed);
        assert_eq!(subject.read(&before.state.key).await, before);
    }
    assert_eq!(subject.store.view().audit_head().await.unwrap().seq, 1 + 3, "the preparation's own");
}

/// RP-6.1, CP-4.1: the same rows from four stores at once, in different orders.
async fn concurrent_enqueues_make_each_partition_once(subject: TestStore) {
    let all = keys("ads", &["a", "b", "c"], 100);
    let mut tasks = Vec::new();
    for nth in 0..4 {
        let store = subject.again().await;
        let mut mine: Vec<_> = all.iter().map(|key| subject.wanted(key.clone(), Lane::Fresh)).collect();
        mine.rotate_left(nth * 70);
        if nth % 2 == 1 {
            mine.reverse();
        }
        let operation = subject.operation("want");
        tasks.push(tokio::spawn(async move { store.control().enqueue(&operation, mine).await.unwrap() }));
    }
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap().into_iter().filter(|new| *new).count();
    }
    assert_eq!(new, 300);
    assert_eq!(subject.claim(1000).await.len(), 300);
}

crate::on_both_databases!(
    a_bulk_enqueue_answers_for_each_item,
    an_existing_partition_keeps_its_status_when_it_is_enqueued_again,
    concurrent_enqueues_make_each_partition_once,
);
