//! Committing an operation's events: each partition is decided and written for itself.

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Partition, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::RetryPolicy;
use redrive_store::{Outcome, Verified};

use crate::steps::{accepted, changed, keys, mark, pause, rejected, retry};
use crate::support::{TestStore, key};

/// CP-4.2, CP-4.3, CP-5.3, CP-6.2, CP-3c.2
async fn one_commit_gives_each_partition_its_own_outcome(subject: TestStore) {
    let policy = RetryPolicy::partitions();
    let days = keys("ads", &["a"], 4);
    let failed = subject.judged(days, rejected(ErrorClass::Retryable, "boom")).await;
    let [plain, raced, marked, paused] = failed.try_into().unwrap();
    let pending = key("ads", "b", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![pending.clone()]).await;
    let pending = subject.read(&pending).await;
    assert!(changed(&subject.put(raced.clone(), retry(&policy)).await));
    let overtaken = subject.read(&raced.state.key).await;
    assert!(changed(&subject.put(marked.clone(), mark(1)).await));
    let marked = subject.read(&marked.state.key).await;
    assert!(changed(&subject.put(paused.clone(), pause()).await));
    let paused = subject.read(&paused.state.key).await;

    let items: Vec<(Partition, ControlEvent<'_>)> =
        [&pending, &raced, &marked, &plain, &paused].map(|partition| (partition.clone(), retry(&policy))).into();
    let operation = subject.operation("state retry");
    let outcomes = subject.store.control().commit(&operation, items).await.unwrap();
    let after = subject.read(&plain.state.key).await;
    assert_eq!(
        outcomes,
        [
            Outcome::Refused(Refused::NoOp(Reason::AlreadyPending)),
            Outcome::Overtaken(Box::new(overtaken.clone())),
            Outcome::Refused(Refused::Rule(Reason::Terminal)),
            Outcome::Changed { before: plain.clone(), after: after.clone() },
            Outcome::Refused(Refused::NoOp(Reason::Paused)),
        ]
    );
    assert_eq!(after.state.status, Status::Pending);
    for untouched in [pending, overtaken, marked, paused] {
        assert_eq!(subject.read(&untouched.state.key).await, untouched);
    }
    let audited = subject.store.view().changes(operation.op_id, 0, 99).await.unwrap();
    assert_eq!(audited.len(), 1);
    let change = &audited[0].1;
    assert_eq!(change.subject, redrive_store::Subject::Partition(plain.state.key.clone()));
    assert_eq!(change.snapshots().unwrap(), (Some(plain.snapshot()), after.snapshot()));
}

/// CP-4.2
async fn a_partition_given_twice_in_one_commit_is_changed_once(subject: TestStore) {
    let failed = subject.failed(&key("ads", "a", "daily", "2026-01-01")).await;
    let operation = subject.operation("state pause");
    let items = vec![(failed.clone(), pause()), (failed.clone(), pause())];
    let outcomes = subject.store.control().commit(&operation, items).await.unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| changed(outcome)).count(), 1, "{outcomes:?}");
    let now = subject.read(&failed.state.key).await;
    assert_eq!(now.state.version, failed.state.version + 1);
    assert!(outcomes.contains(&Outcome::Overtaken(Box::new(now))));
    assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(head) if head.seq == 2 + 2));
}

/// RD-7, CP-6.3: eight daemons see the same failures and requeue them at once, each in its own order.
async fn many_daemons_requeue_each_failure_once(subject: TestStore) {
    let failed = subject.judged(keys("ads", &["a", "b"], 50), rejected(ErrorClass::Retryable, "boom")).await;
    let mut tasks = Vec::new();
    for nth in 0..8 {
        let (store, operation) = (subject.again().await, subject.operation("daemon"));
        let mut mine = failed.clone();
        mine.rotate_left(nth * 12);
        if nth % 2 == 1 {
            mine.reverse();
        }
        tasks.push(tokio::spawn(async move {
            let policy = RetryPolicy::partitions();
            let items = mine.into_iter().map(|partition| (partition, retry(&policy))).collect();
            store.control().commit(&operation, items).await.unwrap()
        }));
    }
    let mut requeued = Vec::new();
    for task in tasks {
        requeued.extend(task.await.unwrap().into_iter().filter_map(|outcome| match outcome {
            Outcome::Changed { after, .. } => Some(after),
            Outcome::Refused(refused) => panic!("{refused}"),
            Outcome::Overtaken(_) => None,
        }));
    }
    requeued.sort_by(|a, b| a.state.key.cmp(&b.state.key));
    requeued.dedup_by(|a, b| a.state.key == b.state.key);
    assert_eq!(requeued.len(), 100);
    for partition in &requeued {
        assert_eq!(&subject.read(&partition.state.key).await, partition);
    }
    let operations = subject.store.view().operations(None, 99).await.unwrap();
    assert_eq!(operations.iter().map(|operation| operation.changes).sum::<u64>(), 100 + 100, "wanted and requeued");
    assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(_)));
}

/// CP-3a.1, CP-7.3, RP-3.1, RD-10
async fn a_retry_leaves_the_run_the_count_and_the_history(subject: TestStore) {
    let policy = RetryPolicy::partitions();
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.judged(vec![key.clone()], accepted(12)).await;
    let force = ControlEvent::Backfill { policy: &policy, force_pending: true };
    assert!(changed(&subject.ask(&key, force).await));
    let again = subject.claim(1).await;
    subject.judge(&again[0].run, rejected(ErrorClass::Retryable, "boom")).await;
    let (failed, history) = (subject.read(&key).await, subject.store.view().attempts(&key).await.unwrap());
    assert_eq!((failed.state.status, failed.state.record_count), (Status::Failed, Some(12)));
    assert!(changed(&subject.ask(&key, retry(&policy)).await));
    let pending = subject.read(&key).await;
    assert_eq!(pending.state.status, Status::Pending);
    assert_eq!(pending.state.attempt_count, 2);
    assert_eq!(pending.state.current_run_id, failed.state.current_run_id);
    assert_eq!(pending.state.record_count, Some(12));
    assert_eq!(subject.store.view().attempts(&key).await.unwrap(), history);
    let twice = subject.ask(&key, retry(&policy)).await;
    assert_eq!(twice, Outcome::Refused(Refused::NoOp(Reason::AlreadyPending)));
    assert_eq!(subject.read(&key).await, pending);
}

/// CP-2.3, CP-2.4, CP-2.5, CP-3c.1
async fn marks_and_pauses_come_off_as_they_went_on(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    let failed = subject.failed(&key).await;
    let below = subject.ask(&key, mark(2)).await;
    assert_eq!(below, Outcome::Refused(Refused::Rule(Reason::BelowThreshold)));
    assert_eq!(subject.read(&key).await, failed);
    assert!(changed(&subject.ask(&key, mark(1)).await));
    let marked = subject.read(&key).await;
    assert_eq!(marked.state.error_message.as_deref(), Some("[terminal] boom"));
    assert_eq!(marked.state.status, Status::Failed);
    assert_eq!(marked.control.terminal.as_ref().unwrap().why.as_deref(), Some("hopeless"));
    assert!(changed(&subject.ask(&key, pause()).await));
    assert!(changed(&subject.ask(&key, ControlEvent::ClearTerminal).await));
    assert!(changed(&subject.ask(&key, ControlEvent::Resume).await));
    let mut bare = subject.read(&key).await;
    assert_eq!(bare.state.version, failed.state.version + 4);
    bare.state.version = failed.state.version;
    assert_eq!(bare, failed);
}

/// CP-4.2, CP-4.4: days of one query that follow one another are written together, but for those that another caller changed.
async fn a_long_stretch_is_changed_day_by_day_where_another_caller_was_first(subject: TestStore) {
    let policy = RetryPolicy::partitions();
    let failed = subject.judged(keys("ads", &["a", "b"], 25), rejected(ErrorClass::Retryable, "boom")).await;
    let overtaken = &failed[17].state.key;
    assert!(changed(&subject.ask(overtaken, pause()).await));
    let operation = subject.operation("state retry");
    let items = failed.iter().map(|partition| (partition.clone(), retry(&policy))).collect();
    let outcomes = subject.store.control().commit(&operation, items).await.unwrap();
    for (before, outcome) in failed.iter().zip(&outcomes) {
        let now = subject.read(&before.state.key).await;
        match before.state.key == *overtaken {
            true => assert_eq!(*outcome, Outcome::Overtaken(Box::new(now))),
            false => assert_eq!(*outcome, Outcome::Changed { before: before.clone(), after: now }),
        }
    }
    let changes = subject.store.view().changes(operation.op_id, 0, 99).await.unwrap();
    assert_eq!(changes.len(), failed.len() - 1);
}

/// CP-4.2: undo puts back what an operation changed, and only while nothing has happened since.
async fn an_undo_restores_the_standing_unless_something_happened_since(subject: TestStore) {
    let policy = RetryPolicy::partitions();
    let failed = subject.judged(keys("ads", &["a"], 2), rejected(ErrorClass::Retryable, "boom")).await;
    let operation = subject.operation("state retry");
    let items = failed.iter().map(|partition| (partition.clone(), retry(&policy))).collect();
    subject.store.control().commit(&operation, items).await.unwrap();
    let second = &failed[1].state.key;
    assert!(changed(&subject.ask(second, pause()).await));
    let changes = subject.store.view().changes(operation.op_id, 0, 9).await.unwrap();
    let mut outcomes = Vec::new();
    for (_, change) in &changes {
        let redrive_store::Subject::Partition(key) = &change.subject else { panic!("{change:?}") };
        let (before, after) = change.snapshots().unwrap();
        let to = &before.unwrap();
        outcomes.push(subject.ask(key, ControlEvent::Revert { to, from_version: after.version }).await);
    }
    assert!(changed(&outcomes[0]), "{outcomes:?}");
    assert_eq!(outcomes[1], Outcome::Refused(Refused::Rule(Reason::ChangedSincePlan)));
    let mut back = subject.read(&failed[0].state.key).await;
    back.state.version = failed[0].state.version;
    assert_eq!(back, failed[0]);
}

crate::on_both_databases!(
    one_commit_gives_each_partition_its_own_outcome,
    a_partition_given_twice_in_one_commit_is_changed_once,
    many_daemons_requeue_each_failure_once,
    a_retry_leaves_the_run_the_count_and_the_history,
    marks_and_pauses_come_off_as_they_went_on,
    a_long_stretch_is_changed_day_by_day_where_another_caller_was_first,
    an_undo_restores_the_standing_unless_something_happened_since,
);
