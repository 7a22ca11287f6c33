//! The breaker: what trips it, who goes ahead, and what lifts it.

use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::failure::ErrorClass;
use redrive_core::hold::{HoldKind, HoldScope, Trip};
use redrive_core::lane::Lane;
use redrive_core::notice::NoticeKind;
use redrive_core::partition::Judgement;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, Workload};
use redrive_fixture::rejected;
use redrive_store::{ClaimedPartition, JudgedAttempt, PartitionClaim, Verified};

use crate::raw::Raw;
use crate::steps::{accepted, claim, keys};
use crate::support::{LEASE, TestStore};

/// The advisory lock under which streaks move.
const BREAKER: i64 = 0x6272_6561_6b65;

const POLICY: BreakerPolicy = BreakerPolicy { after: 4, probe: Duration::from_secs(300) };

async fn claim_some(subject: &TestStore, limit: u32) -> Vec<ClaimedPartition> {
    let asked = PartitionClaim { breakers: [("ads".parse().unwrap(), POLICY)].into(), ..claim(limit) };
    subject.store.data().claim_partitions(asked).await.unwrap().0
}

fn judged(claimed: ClaimedPartition, judgement: Judgement) -> JudgedAttempt {
    JudgedAttempt { claimed, judgement, metrics: "{}".to_owned(), trace: None, breaker: POLICY }
}

async fn judge(subject: &TestStore, claimed: Vec<ClaimedPartition>, judgement: Judgement) {
    let judged: Vec<_> = claimed.into_iter().map(|claimed| judged(claimed, judgement.clone())).collect();
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

/// OP-4: one machine that fails tells nothing of a source, and an attempt that kills its worker is not sent ahead again at once.
async fn attempts_whose_worker_fell_silent_trip_nothing_and_have_the_next_canary_wait(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b"], 20)).await;
    assert_eq!(claim_some(&subject, 8).await.len(), 8);
    subject.clock.advance(LEASE);
    assert_eq!(expire(&subject).await, 8);
    assert_eq!(subject.store.view().holds().await.unwrap(), []);
    let claimed = claim_some(&subject, 4).await;
    judge(&subject, claimed, expired()).await;
    subject.clock.advance(Duration::from_secs(300));
    assert_eq!(claim_some(&subject, 9).await.len(), 1);
    subject.clock.advance(LEASE);
    assert_eq!(expire(&subject).await, 1);
    assert_eq!(claim_some(&subject, 9).await, [], "the next one waits twice as long");
    subject.clock.advance(Duration::from_secs(600));
    assert_eq!(claim_some(&subject, 9).await.len(), 1);
}

async fn expire(subject: &TestStore) -> usize {
    let policy = |_: &Run| RetryPolicy::partitions();
    subject.store.data().expire(Workload::Extract, 99, policy).await.unwrap().len()
}

/// OP-4: a canary's success ends the streak; failures that are recorded with it begin a new one, however equal to the old.
async fn failures_recorded_with_a_canarys_success_begin_a_new_streak(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b"], 20)).await;
    let mut claimed = claim_some(&subject, 8).await;
    let mut late = claimed.split_off(4);
    judge(&subject, claimed, expired()).await;
    let held = late.iter().filter_map(|claimed| Some((claimed.run.run_id, claimed.run.task_id?))).collect();
    subject.store.data().beat(held, Duration::from_secs(600)).await.unwrap();
    // With their new leases, so that all are recorded together.
    for claimed in &mut late {
        claimed.run = subject.store.view().run(claimed.run.run_id).await.unwrap().unwrap();
    }
    subject.clock.advance(Duration::from_secs(300));
    // A worker that is configured without a breaker does not count what is under way.
    let canary = subject.claim(9).await;
    assert_eq!(canary.len(), 1);
    let verdicts: Vec<_> = canary
        .into_iter()
        .map(|claimed| judged(claimed, accepted(1)))
        .chain(late.into_iter().map(|claimed| judged(claimed, expired())))
        .collect();
    subject.store.verdicts().judge_many(&verdicts).await.unwrap();
    assert_eq!(subject.store.view().holds().await.unwrap().len(), 1, "four have failed alike again");
    let kept = Raw::of(&subject).await.int("SELECT count(*) FROM streaks").await;
    assert_eq!(kept, 3, "of the source and of both customers");
}

/// A verdict of a source that is well waits for no other, though another source's breaker is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_of_a_source_that_is_well_take_no_turns() {
    let subject = TestStore::postgres().await;
    trip(&subject, &["a", "b"]).await;
    subject.want(Lane::Fresh, keys("well", &["c"], 1)).await;
    let claimed = claim_some(&subject, 9).await;
    assert_eq!(claimed.len(), 1);
    let raw = Raw::of(&subject).await;
    raw.run("BEGIN").await;
    raw.run(&format!("SELECT pg_advisory_xact_lock({BREAKER})")).await;
    judge(&subject, claimed, accepted(1)).await;
    raw.run("ROLLBACK").await;
}

/// A verdict reads the breaker's holds before it writes them: a person who lifts one waits for it, and not the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lifting_a_hold_waits_for_verdicts_that_have_read_it() {
    let subject = TestStore::postgres().await;
    trip(&subject, &["a", "b"]).await;
    let (raw, other) = (Raw::of(&subject).await, Raw::of(&subject).await);
    raw.run("BEGIN").await;
    raw.run(&format!("SELECT pg_advisory_xact_lock({BREAKER})")).await;
    let (store, operation) = (subject.again().await, subject.operation("lift"));
    let scope = HoldScope::Source("ads".parse().unwrap());
    let lifting = tokio::spawn(async move { store.control().lift_holds(&operation, &[scope].into(), None).await });
    other.wait_for_lock().await;
    raw.run("COMMIT").await;
    assert_eq!(lifting.await.unwrap().unwrap().len(), 1);
}

crate::on_both_databases!(
    attempts_whose_worker_fell_silent_trip_nothing_and_have_the_next_canary_wait,
    failures_recorded_with_a_canarys_success_begin_a_new_streak,
    a_canary_goes_ahead_alone_and_its_success_lets_all_go,
    one_customers_failures_hold_that_customer,
    few_are_started_while_failures_are_alike,
    a_person_who_lifts_it_starts_a_new_streak,
);
