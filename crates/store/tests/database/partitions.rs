//! Partitions on both databases: enqueue, read, claim, judge, requeue, audit.

use redrive_core::failure::ErrorClass;
use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Judgement, Status};
use redrive_core::retry::RetryPolicy;
use redrive_store::{Outcome, Page, Recorded, Verified};

use crate::steps::claim;
use crate::support::{TestStore, key};

async fn a_partition_goes_from_wanted_to_success_and_back_to_wanted(subject: TestStore) {
    let (control, data, view) = (subject.store.control(), subject.store.data(), subject.store.view());
    let key = key("ads", "111", "daily", "2026-01-01");
    let new =
        control.enqueue(&subject.operation("want"), vec![subject.wanted(key.clone(), Lane::Fresh)]).await.unwrap();
    assert_eq!(new, [true]);
    assert_eq!(
        control.enqueue(&subject.operation("want"), vec![subject.wanted(key.clone(), Lane::Fresh)]).await.unwrap(),
        [false]
    );

    let verdicts = subject.store.verdicts();
    let (claimed, _) = data.claim_partitions(claim(10)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert!(data.claim_partitions(claim(10)).await.unwrap().0.is_empty());
    let rejected =
        Judgement::Rejected { class: ErrorClass::Retryable, message: "boom [terminal]".to_owned(), not_before: None };
    let recorded = verdicts.judge(&claimed[0].run, rejected.clone(), None).await.unwrap();
    assert!(matches!(recorded, Recorded::As(_)), "{recorded:?}");
    assert!(matches!(verdicts.judge(&claimed[0].run, rejected, None).await.unwrap(), Recorded::Refused(_)));

    let failed = view.partition(&key).await.unwrap().unwrap();
    assert_eq!((failed.state.status, failed.state.attempt_count), (Status::Failed, 1));
    assert_eq!(failed.state.error_message.as_deref(), Some("boom (terminal)"));
    let policy = RetryPolicy::partitions();
    let retry = ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant: None };
    let operation = subject.operation("state retry");
    let outcomes = control.commit(&operation, vec![(failed.clone(), retry.clone())]).await.unwrap();
    assert!(matches!(&outcomes[..], [Outcome::Changed { .. }]), "{outcomes:?}");
    let overtaken = control.commit(&operation, vec![(failed, retry)]).await.unwrap();
    assert!(matches!(&overtaken[..], [Outcome::Overtaken(_)]), "{overtaken:?}");

    let (claimed, _) = data.claim_partitions(claim(10)).await.unwrap();
    verdicts.judge(&claimed[0].run, Judgement::Accepted { records: 7 }, Some("{}".to_owned())).await.unwrap();
    let done = view.partition(&key).await.unwrap().unwrap();
    assert_eq!((done.state.status, done.state.attempt_count, done.state.record_count), (Status::Success, 2, Some(7)));
    assert_eq!(done.state.current_run_id, Some(claimed[0].run.run_id));
    assert!(done.control.is_empty());
    let attempts = view.attempts(&key).await.unwrap();
    assert_eq!(attempts.len(), 2);
    let absent = PartitionKey { customer_id: "nobody".parse().unwrap(), ..key.clone() };
    let of_many = view.attempts_of(vec![absent, key.clone()]).await.unwrap();
    assert_eq!(of_many, [vec![], attempts], "in the order of the keys");
    let page =
        Page { filter: Filter { status: Some(Status::Success), ..Filter::key(&key) }, limit: 9, ..Page::default() };
    assert_eq!(view.partitions(page).await.unwrap(), [done]);
    assert!(matches!(view.verify_audit().await.unwrap(), Verified::Whole(head) if head.seq == 4));
}

crate::on_both_databases!(a_partition_goes_from_wanted_to_success_and_back_to_wanted);
