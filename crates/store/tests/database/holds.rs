//! Holds: what a claim and a draining worker leave alone, what a person sets, lifts and takes back, and what is recorded.

use std::time::Duration;

use redrive_core::hold::{Hold, HoldKind, HoldScope};
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_store::{ClaimedPartition, Queued, Subject, Verified};

use crate::steps::keys;
use crate::support::TestStore;

fn scope(source: &str, customer: Option<&str>, query: Option<&str>) -> HoldScope {
    let source = source.parse().unwrap();
    match (customer, query) {
        (Some(customer), Some(query)) => HoldScope::Query(source, customer.parse().unwrap(), query.parse().unwrap()),
        (customer, _) => HoldScope::new(source, customer.map(|customer| customer.parse().unwrap())),
    }
}

fn query(customer: &str, query: &str, days: u32) -> Vec<PartitionKey> {
    (1..=days).map(|day| PartitionKey::new("ads", customer, query, &format!("2026-01-{day:02}")).unwrap()).collect()
}

async fn hold(subject: &TestStore, scope: HoldScope, seconds: Option<u64>) -> Hold {
    let until = seconds.map(|seconds| subject.now().saturating_add(Duration::from_secs(seconds)));
    subject.store.control().set_hold(&subject.operation("hold"), scope, until).await.unwrap()
}

async fn lift(subject: &TestStore, scope: &HoldScope, kind: Option<HoldKind>) -> Vec<Hold> {
    subject.store.control().lift_holds(&subject.operation("lift"), &[scope.clone()].into(), kind).await.unwrap()
}

async fn queued(subject: &TestStore) -> Queued {
    subject.store.view().backlog(vec!["ads".parse().unwrap()], [].into()).await.unwrap().queued
}

fn queries(claimed: &[ClaimedPartition]) -> Vec<String> {
    let mut all: Vec<String> = claimed
        .iter()
        .map(|claimed| {
            format!("{}/{}", claimed.partition.state.key.customer_id, claimed.partition.state.key.query_name)
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

async fn whole(subject: &TestStore) {
    assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(_)));
}

/// OP-3
async fn a_hold_covers_what_is_queued_and_what_comes_later(subject: TestStore) {
    subject.want(Lane::Fresh, query("a", "x", 3)).await;
    hold(&subject, scope("ads", None, None), None).await;
    assert_eq!(subject.claim(9).await, []);
    assert_eq!(queued(&subject).await, Queued::Nothing, "a draining worker does not wait for a person");
    subject.want(Lane::Fresh, query("b", "x", 3)).await;
    subject.want(Lane::Fresh, keys("crm", &["a"], 1)).await;
    assert_eq!(queries(&subject.claim(9).await), ["a/daily"], "another source goes on");
    subject.clock.advance(Duration::from_secs(1_000_000));
    assert_eq!(subject.claim(9).await, [], "it is open until it is lifted");
    assert_eq!(lift(&subject, &scope("ads", None, None), None).await.len(), 1);
    assert_eq!(subject.claim(9).await.len(), 6);
    assert_eq!(lift(&subject, &scope("ads", None, None), None).await, [], "there is nothing left to lift");
    whole(&subject).await;
}

/// OP-3
async fn a_held_query_hides_nothing_behind_it(subject: TestStore) {
    // The held ones were queued first and are many.
    subject.want(Lane::Fresh, query("a", "held", 28)).await;
    subject.clock.advance(Duration::from_secs(1));
    subject.want(Lane::Fresh, query("a", "free", 2)).await;
    hold(&subject, scope("ads", Some("a"), Some("held")), Some(60)).await;
    // A query of the same name of another customer is no business of this hold.
    subject.want(Lane::Fresh, query("b", "held", 1)).await;
    let claimed = subject.claim(9).await;
    assert_eq!((claimed.len(), queries(&claimed)), (3, vec!["a/free".to_owned(), "b/held".to_owned()]));
    assert_eq!(subject.claim(9).await, []);
    assert_eq!(queued(&subject).await, Queued::Nothing);
    subject.clock.advance(Duration::from_secs(60));
    assert_eq!(queued(&subject).await, Queued::Claimable, "it has ended by itself");
    assert_eq!(subject.claim(99).await.len(), 28);
}

/// OP-3
async fn a_lift_ends_what_lies_in_its_scope_and_no_more(subject: TestStore) {
    for (customer, query) in [(None, None), (Some("a"), None), (Some("a"), Some("x")), (Some("b"), None)] {
        hold(&subject, scope("ads", customer, query), None).await;
    }
    hold(&subject, scope("crm", None, None), None).await;
    assert_eq!(lift(&subject, &scope("ads", Some("a"), None), Some(HoldKind::Cooldown)).await, []);
    let lifted = lift(&subject, &scope("ads", Some("a"), None), None).await;
    assert_eq!(lifted.iter().map(|hold| hold.scope.to_string()).collect::<Vec<_>>(), ["ads/a", "ads/a/x"]);
    let left = subject.store.view().holds().await.unwrap();
    assert_eq!(left.iter().map(|hold| hold.scope.to_string()).collect::<Vec<_>>(), ["ads", "ads/b", "crm"]);
}

/// OP-3
async fn what_was_done_to_a_hold_is_recorded_and_taken_back(subject: TestStore) {
    let (control, view) = (subject.store.control(), subject.store.view());
    let here = scope("ads", None, None);
    let change = async |operation: &redrive_store::Operation| {
        let changes = view.changes(operation.op_id, 0, 9).await.unwrap();
        let [(_, change)] = &changes[..] else { panic!("{changes:?}") };
        assert!(matches!(change.subject, Subject::Hold(_)), "{change:?}");
        change.hold_change().unwrap()
    };
    let (set, longer, lifted) = (subject.operation("set"), subject.operation("longer"), subject.operation("lift"));
    let first = control.set_hold(&set, here.clone(), None).await.unwrap();
    assert_eq!((first.by.as_str(), first.since, first.kind()), (set.actor.as_str(), set.at, HoldKind::Operator));
    let second = control
        .set_hold(&longer, here.clone(), Some(subject.now().saturating_add(Duration::from_secs(9))))
        .await
        .unwrap();
    let made = change(&longer).await;
    assert_eq!((made.before.as_ref(), made.after.as_ref()), (Some(&first), Some(&second)));

    // The first change is no longer the last word; the second is.
    let take_back = async |change| control.revert_holds(&subject.operation("undo"), vec![change]).await.unwrap();
    assert_eq!(take_back(change(&set).await).await, [false]);
    assert_eq!(view.holds().await.unwrap(), [second]);
    assert_eq!(take_back(made).await, [true]);
    assert_eq!(view.holds().await.unwrap(), std::slice::from_ref(&first));
    control.lift_holds(&lifted, &[here.clone()].into(), None).await.unwrap();
    assert_eq!(view.holds().await.unwrap(), []);
    assert_eq!(take_back(change(&lifted).await).await, [true]);
    assert_eq!(view.holds().await.unwrap(), [first]);
    assert_eq!(take_back(change(&set).await).await, [true]);
    assert_eq!(view.holds().await.unwrap(), []);
    whole(&subject).await;
}

/// OP-3: several scopes are one operation, which is taken back as one.
async fn several_scopes_are_held_and_lifted_at_once(subject: TestStore) {
    let (control, view) = (subject.store.control(), subject.store.view());
    let scopes = [scope("crm", None, None), scope("ads", Some("a"), None), scope("ads", Some("b"), Some("x"))].into();
    let (set, lifted) = (subject.operation("set"), subject.operation("lift"));
    let holds = control.set_holds(&set, &scopes, None).await.unwrap();
    assert_eq!(holds.len(), 3);
    assert_eq!(view.holds().await.unwrap().len(), 3);
    let changes = async |operation: &redrive_store::Operation| {
        let changes = view.changes(operation.op_id, 0, 9).await.unwrap();
        changes.into_iter().map(|(_, change)| change.hold_change().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(changes(&set).await.len(), 3);
    // The query's hold lies in the source's scope, too, and is lifted once.
    let wider = [scope("ads", None, None), scope("ads", Some("b"), Some("x"))].into();
    assert_eq!(control.lift_holds(&lifted, &wider, None).await.unwrap().len(), 2);
    assert_eq!(view.holds().await.unwrap().len(), 1);
    let taken_back = control.revert_holds(&subject.operation("undo"), changes(&lifted).await).await.unwrap();
    assert_eq!(taken_back, [true, true]);
    assert_eq!(view.holds().await.unwrap().len(), 3);
    whole(&subject).await;
}

crate::on_both_databases!(
    several_scopes_are_held_and_lifted_at_once,
    a_hold_covers_what_is_queued_and_what_comes_later,
    a_held_query_hides_nothing_behind_it,
    a_lift_ends_what_lies_in_its_scope_and_no_more,
    what_was_done_to_a_hold_is_recorded_and_taken_back,
);
