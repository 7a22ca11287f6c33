//! The breaker: what trips it, who goes ahead, and what lifts it.

use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::failure::ErrorClass;
use redrive_core::hold::{HoldKind, HoldScope, Trip};
use redrive_core::lane::Lane;
use redrive_core::notice::NoticeKind;
use redrive_core::partition::Judgement;
use redrive_fixture::rejected;
use redrive_store::{ClaimedPartition, JudgedAttempt, PartitionClaim, Verified};

use crate::steps::{accepted, claim, keys};
use crate::support::TestStore;

const POLICY: BreakerPolicy = BreakerPolicy { after: 4, probe: Duration::from_secs(300) };

async fn claim_some(subject: &TestStore, limit: u32) -> Vec<ClaimedPartition> {
    let asked = PartitionClaim { breakers: [("ads".parse().unwrap(), POLICY)].into(), ..claim(limit) };
    subject.store.data().claim_partitions(asked).await.unwrap().0
}

async fn judge(subject: &TestStore, claimed: Vec<ClaimedPartition>, judgement: Judgement) {
    let judged = |claimed| JudgedAttempt {
        claimed,
        judgement: judgement.clone(),
        metrics: "{}".to_owned(),
        trace: None,
        breaker: POLICY,
    };
    let judged: Vec<_> = claimed.into_iter().map(judged).collect();
    subject.store.verdicts().judge_many(&judged).await.unwrap();
}

fn expired() -> Judgement {
    rejected(ErrorClass::Final, "the token expired")
}

async fn trip(subject: &TestStore, customers: &[&str]) {
    subject.want(Lane::Fresh, keys("ads", customers, 20)).await;
    let claimed = claim_some(subject, 4).await;
    judge(subject, claimed, expired()).await;
}

/// OP-4
async fn a_canary_goes_ahead_alone_and_its_success_lets_all_go(subject: TestStore) {
    trip(&subject, &["a", "b"]).await;
    let holds = subject.store.view().holds().await.unwrap();
    assert_eq!((holds.len(), holds[0].kind(), holds[0].scope.to_string().as_str()), (1, HoldKind::Breaker, "ads"));
    assert!(matches!(holds[0].probing().unwrap().trip, Trip::Group(_)));
    let told = subject.store.view().notifications(10).await.unwrap();
    assert_eq!((told.len(), told[0].notice.event), (1, NoticeKind::BreakerTripped));
    assert!(!told[0].audit_head.starts_with("0:"), "its own row in the trail is before it");
    assert_eq!(claim_some(&subject, 9).await, []);
    subject.clock.advance(Duration::from_secs(300));
    let canary = claim_some(&subject, 9).await;
    assert_eq!((canary.len(), claim_some(&subject, 9).await.len()), (1, 0), "one goes ahead");
    judge(&subject, canary, expired()).await;
    subject.clock.advance(Duration::from_secs(599));
    assert_eq!(claim_some(&subject, 9).await, [], "it failed, and the next waits twice as long");
    subject.clock.advance(Duration::from_secs(1));
    // One that comes back untried is followed by another.
    let canary = claim_some(&subject, 9).await;
    subject.store.data().release(&canary[0].run, None).await.unwrap();
    let canary = claim_some(&subject, 9).await;
    assert_eq!(canary.len(), 1);
    judge(&subject, canary, accepted(1)).await;
    assert_eq!(subject.store.view().holds().await.unwrap(), []);
    assert_eq!(claim_some(&subject, 99).await.len(), 34, "all but the five that failed and the one that did not");
    assert!(matches!(subject.store.view().verify_audit().await.unwrap(), Verified::Whole(_)));
}

/// OP-4
async fn one_customers_failures_hold_that_customer(subject: TestStore) {
    trip(&subject, &["a"]).await;
    subject.want(Lane::Fresh, keys("ads", &["b"], 3)).await;
    let holds = subject.store.view().holds().await.unwrap();
    assert_eq!(holds.iter().map(|hold| hold.scope.to_string()).collect::<Vec<_>>(), ["ads/a"]);
    assert_eq!(claim_some(&subject, 9).await.len(), 1, "of the source no more is started than could trip it too");
}

/// OP-4
async fn few_are_started_while_failures_are_alike(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b"], 20)).await;
    let first = claim_some(&subject, 1).await;
    judge(&subject, first, expired()).await;
    let next = claim_some(&subject, 40).await;
    assert_eq!(next.len(), 3, "three more complete the streak");
    assert_eq!(claim_some(&subject, 40).await, []);
    let (well, rest) = next.split_at(1);
    judge(&subject, well.to_vec(), accepted(1)).await;
    assert_eq!(claim_some(&subject, 40).await.len(), 36, "a success ends the streak");
    judge(&subject, rest.to_vec(), rejected(ErrorClass::Retryable, "boom")).await;
    assert_eq!(subject.store.view().holds().await.unwrap(), []);
}

/// OP-4
async fn a_person_who_lifts_it_starts_a_new_streak(subject: TestStore) {
    trip(&subject, &["a", "b"]).await;
    let control = subject.store.control();
    let (operation, scope) = (subject.operation("lift"), HoldScope::Source("ads".parse().unwrap()));
    assert_eq!(control.lift_holds(&operation, &[scope.clone()].into(), None).await.unwrap().len(), 1);
    let claimed = claim_some(&subject, 3).await;
    judge(&subject, claimed, expired()).await;
    assert_eq!(subject.store.view().holds().await.unwrap(), [], "three are not four");
    let claimed = claim_some(&subject, 9).await;
    assert_eq!(claimed.len(), 1);
    judge(&subject, claimed, expired()).await;
    assert_eq!(subject.store.view().holds().await.unwrap().len(), 1);
}

crate::on_both_databases!(
    a_canary_goes_ahead_alone_and_its_success_lets_all_go,
    one_customers_failures_hold_that_customer,
    few_are_started_while_failures_are_alike,
    a_person_who_lifts_it_starts_a_new_streak,
);
