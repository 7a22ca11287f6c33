//! The audit trail: one row for every change, in its own transaction, in one chain.

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::partition::ControlEvent;
use redrive_core::retry::RetryPolicy;
use redrive_store::{AuditedChange, Operation, Subject as Changed, Verified};

use crate::steps::{changed, keys, mark, pause, rejected, retry};
use crate::support::TestStore;

async fn whole(subject: &TestStore) -> i64 {
    match subject.store.view().verify_audit().await.unwrap() {
        Verified::Whole(head) => head.seq,
        Verified::Broken { seq, why } => panic!("broken at {seq}: {why}"),
    }
}

/// RP-8.5, CP-5.4
async fn an_operation_is_kept_as_it_was_asked_for(subject: TestStore) {
    let operation = Operation {
        filters: "{\"source\":\"ads\"}".to_owned(),
        flags: "{\"force\":true}".to_owned(),
        reason: Some("Tuesday's \"outage\" — é".to_owned()),
        ..subject.operation("state backfill enqueue")
    };
    let wanted: Vec<_> = keys("ads", &["a"], 3).into_iter().map(|key| subject.wanted(key, Lane::Backfill)).collect();
    subject.store.control().enqueue(&operation, wanted.clone()).await.unwrap();
    let view = subject.store.view();
    assert_eq!(view.operation(operation.op_id).await.unwrap(), Some(operation.clone()));
    let changes: Vec<_> = view.changes(operation.op_id, 0, 9).await.unwrap();
    let expected: Vec<_> =
        wanted.iter().map(|made| (Changed::Partition(made.state.key.clone()), None, made.snapshot())).collect();
    let parsed = |(_, change): (i64, AuditedChange)| {
        let (before, after) = change.snapshots().unwrap();
        (change.subject, before, after)
    };
    assert_eq!(changes.into_iter().map(parsed).collect::<Vec<_>>(), expected);
    assert_eq!(whole(&subject).await, 4);
    let again = subject.operation("state backfill enqueue");
    subject.store.control().enqueue(&again, wanted).await.unwrap();
    assert_eq!(view.operation(again.op_id).await.unwrap(), None, "nothing was new");
    assert_eq!(view.operation(subject.store.control().new_operation_id()).await.unwrap(), None);
}

/// CP-5.3, CP-5.4
async fn nothing_is_audited_for_what_was_not_changed(subject: TestStore) {
    let policy = RetryPolicy::partitions();
    let failed = subject.judged(keys("ads", &["a"], 2), rejected(ErrorClass::Retryable, "boom")).await;
    let operation = subject.operation("state mark-terminal");
    let refused = failed.iter().map(|partition| (partition.clone(), mark(5))).collect();
    subject.store.control().commit(&operation, refused).await.unwrap();
    assert_eq!(subject.store.view().operation(operation.op_id).await.unwrap(), None);
    let prepared = 1 + 2;
    assert_eq!(whole(&subject).await, prepared);
    assert!(changed(&subject.put(failed[0].clone(), retry(&policy)).await));
    assert_eq!(whole(&subject).await, prepared + 2);
    let operation = subject.operation("state retry");
    let overtaken = vec![(failed[0].clone(), retry(&policy))];
    subject.store.control().commit(&operation, overtaken).await.unwrap();
    assert_eq!(subject.store.view().operation(operation.op_id).await.unwrap(), None);
    assert_eq!(whole(&subject).await, prepared + 2);
}

/// CP-5.4, RP-8.5
async fn operations_and_changes_are_listed_page_by_page(subject: TestStore) {
    let days = keys("ads", &["a"], 7);
    let operation = subject.operation("state backfill enqueue");
    for chunk in days.chunks(3) {
        let wanted = chunk.iter().map(|key| subject.wanted(key.clone(), Lane::Backfill)).collect();
        subject.store.control().enqueue(&operation, wanted).await.unwrap();
    }
    for key in &days[..4] {
        assert!(changed(&subject.ask(key, pause()).await));
    }
    let view = subject.store.view();
    let (mut before, mut listed) = (None, Vec::new());
    loop {
        let page = view.operations(before, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        listed.extend(page);
    }
    assert!(listed.is_sorted_by(|a, b| a.seq > b.seq));
    assert_eq!(listed.iter().map(|operation| operation.changes).collect::<Vec<_>>(), [1, 1, 1, 1, 7]);
    assert_eq!(listed.last().unwrap().operation, operation);
    let (mut after, mut changes) = (0, Vec::new());
    loop {
        let page = view.changes(operation.op_id, after, 3).await.unwrap();
        let Some((seq, _)) = page.last() else { break };
        after = *seq;
        changes.extend(page.into_iter().map(|(_, change)| change.subject));
    }
    assert_eq!(changes, days.into_iter().map(Changed::Partition).collect::<Vec<_>>());
    assert_eq!(whole(&subject).await, 5 + 7 + 4);
    assert_eq!(view.audit_head().await.unwrap().seq, 16);
}

/// CP-5.4: six stores change partitions of their own at once, some in several commits of one operation.
async fn the_chain_is_whole_after_concurrent_operations(subject: TestStore) {
    let mut tasks = Vec::new();
    for nth in 0..6 {
        let store = subject.again().await;
        let days = keys("ads", &[&format!("customer-{nth}")], 20);
        let operations: Vec<_> = (0..5).map(|_| subject.operation("test")).collect();
        let wanted: Vec<_> = days.iter().map(|key| subject.wanted(key.clone(), Lane::Fresh)).collect();
        tasks.push(tokio::spawn(async move {
            let control = store.control();
            for chunk in wanted.chunks(7) {
                control.enqueue(&operations[0], chunk.to_vec()).await.unwrap();
            }
            for (operation, key) in operations.iter().cycle().zip(&days) {
                for event in [pause(), ControlEvent::Resume] {
                    let now = control.view().partition(key).await.unwrap().unwrap();
                    let outcomes = control.commit(operation, vec![(now, event)]).await.unwrap();
                    assert!(changed(&outcomes[0]), "{outcomes:?}");
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(whole(&subject).await, 6 * (5 + 20 + 40));
}

/// A busy worker asks this once a poll, and beats before its time where the answer is yes.
async fn only_a_change_of_a_run_is_one_to_a_worker(subject: TestStore) {
    let view = subject.store.view();
    let run = subject.submit(&["a"]).await[0];
    let day = subject.failed(&keys("ads", &["a"], 1)[0]).await;
    let (seen, _) = view.runs_changed_since(i64::MAX).await.unwrap();
    assert!(changed(&subject.put(day, pause()).await));
    let (after_partition, has_changed) = view.runs_changed_since(seen).await.unwrap();
    assert!(after_partition > seen && !has_changed, "a partition's change concerns no run");
    subject.cancel(run).await;
    let (after_run, has_changed) = view.runs_changed_since(after_partition).await.unwrap();
    assert!(after_run > after_partition && has_changed);
    assert_eq!(view.runs_changed_since(after_run).await.unwrap(), (after_run, false), "it was seen");
}

crate::on_both_databases!(
    an_operation_is_kept_as_it_was_asked_for,
    nothing_is_audited_for_what_was_not_changed,
    only_a_change_of_a_run_is_one_to_a_worker,
    operations_and_changes_are_listed_page_by_page,
    the_chain_is_whole_after_concurrent_operations,
);
