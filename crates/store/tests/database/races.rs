//! Two things at once on one partition: the second sees everything that the first did.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, Workload};
use redrive_fixture::eventually;
use redrive_store::clock::Clock as _;
use redrive_store::{NewRun, Outcome, Recorded, Store};

use crate::raw::{Raw, meanwhile};
use crate::steps::{accepted, claim, keys, pause, recorded, rejected};
use crate::support::{LEASE, TestStore, key};

/// Begins to pause a partition, lets `work` run into it, ends the pause, and gives what both left behind.
async fn pausing_meanwhile<T: Send + 'static>(
    subject: &TestStore,
    partition: &Partition,
    work: impl Future<Output = T> + Send + 'static,
) -> (T, Partition) {
    let key = &partition.state.key;
    // 2026-01-01
    let place = format!(
        "WHERE series_id = (SELECT series_id FROM series WHERE source = '{}' AND customer_id = '{}' \
         AND query_name = '{}') AND period = 20454",
        key.source, key.customer_id, key.query_name
    );
    let pause = [
        format!("UPDATE partitions SET version = version + 1, held = 1 {place}"),
        format!("UPDATE partition_control SET paused_by = 'ada', paused_at = 5 {place}"),
    ];
    let done = meanwhile(subject, &pause.each_ref().map(String::as_str), work).await;
    (done, subject.read(key).await)
}

/// A claim waits, for its turn or for another session, and an attempt ends meanwhile: the next one begins after that end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_begins_after_the_end_of_the_one_before_however_long_its_claim_has_waited() {
    const CLAIMS: i64 = 0x636c_6169_6d73;
    let subject = TestStore::postgres().await;
    subject.want(Lane::Fresh, keys("ads", &["a"], 1)).await;
    let mut before = subject.claim(1).await.remove(0).run;
    let lock_turn = format!("SELECT pg_advisory_xact_lock({CLAIMS})");
    for lock in [lock_turn.as_str(), "LOCK TABLE holds IN ACCESS EXCLUSIVE MODE"] {
        let (raw, other) = (Raw::of(&subject).await, Raw::of(&subject).await);
        raw.run("BEGIN").await;
        raw.run(lock).await;
        let store = subject.again().await;
        let claiming = tokio::spawn(async move { store.data().claim_partitions(claim(1)).await.unwrap().0 });
        other.wait_for_lock().await;
        subject.clock.advance(Duration::from_secs(1));
        let ended = recorded(subject.store.data().release(&before, None).await.unwrap());
        raw.run("COMMIT").await;
        let next = claiming.await.unwrap().remove(0).run;
        assert!(next.started_at >= ended.completed_at, "{lock}: {next:?} follows {ended:?}");
        assert!(next.run_id > ended.run_id, "attempts are listed in their order");
        before = next;
    }
}

/// Both have looked for the series and found none before either may make it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_callers_who_want_the_same_new_series_make_one() {
    const NEW_SERIES: i64 = 0x7365_7269_6573;
    let subject = TestStore::postgres().await;
    let (raw, other) = (Raw::of(&subject).await, Raw::of(&subject).await);
    raw.run("BEGIN").await;
    raw.rows(&format!("SELECT pg_advisory_xact_lock({NEW_SERIES})")).await;
    let callers = keys("ads", &["a"], 2).into_iter().map(|key| {
        let (control, wanted) = (subject.store.control(), subject.wanted(key, Lane::Fresh));
        let operation = subject.operation("want");
        tokio::spawn(async move { control.enqueue(&operation, vec![wanted]).await })
    });
    let callers: Vec<_> = callers.collect();
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
    eventually("both wait for their turn", async || other.int(waiting).await == 2).await;
    raw.run("COMMIT").await;
    for caller in callers {
        assert_eq!(caller.await.unwrap().unwrap(), [true]);
    }
    assert_eq!(raw.int("SELECT count(*) FROM series").await, 1);
}

/// A caller waits in line while another one commits. One that has gone by then may have looked, found nothing, and asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_left_the_line_submits_nothing_later() {
    let subject = TestStore::postgres().await;
    let (raw, other) = (Raw::of(&subject).await, Raw::of(&subject).await);
    raw.run("BEGIN; LOCK TABLE run_specs IN ACCESS EXCLUSIVE MODE").await;
    let job = || NewRun::job("review", None, subject.clock.now());
    let (control, of_first) = (subject.store.control(), job());
    let first = tokio::spawn(async move { control.submit(vec![of_first]).await });
    other.wait_for_lock().await;
    let control = subject.store.control();
    let mut left = Box::pin(control.submit(vec![job()]));
    let in_line = tokio::select! {
        biased;
        _ = &mut left => false,
        () = std::future::ready(()) => true,
    };
    assert!(in_line);
    drop(left);
    raw.run("COMMIT").await;
    first.await.unwrap().unwrap();
    control.submit(vec![job()]).await.unwrap();
    assert_eq!(raw.int("SELECT count(*) FROM runs").await, 2);
}

async fn in_flight(subject: &TestStore) -> (Partition, Run, Store) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    (claimed.partition, claimed.run, subject.again().await)
}

/// CP-2.5
async fn a_verdict_that_waits_for_a_pause_keeps_it(subject: TestStore) {
    let (partition, run, store) = in_flight(&subject).await;
    let judge =
        async move { store.verdicts().judge(&run, rejected(ErrorClass::Retryable, "boom"), None).await.unwrap() };
    let (judged, after) = pausing_meanwhile(&subject, &partition, judge).await;
    recorded(judged);
    assert_eq!((after.state.attempt_count, after.control.active), (1, None));
    assert!(after.control.paused.is_some(), "the pause was lost: {after:?}");
}

/// CP-2.5
async fn a_release_that_waits_for_a_pause_keeps_it(subject: TestStore) {
    let (partition, run, store) = in_flight(&subject).await;
    let release = async move { store.data().release(&run, None).await.unwrap() };
    let (released, after) = pausing_meanwhile(&subject, &partition, release).await;
    recorded(released);
    assert_eq!((after.state.attempt_count, after.control.active), (0, None));
    assert!(after.control.paused.is_some(), "the pause was lost: {after:?}");
}

/// CP-2.5
async fn an_expiry_that_waits_for_a_pause_keeps_it(subject: TestStore) {
    let (partition, _, store) = in_flight(&subject).await;
    subject.clock.advance(LEASE);
    let expire = async move { store.data().expire(Workload::Extract, 9, |_| RetryPolicy::partitions()).await.unwrap() };
    let (expired, after) = pausing_meanwhile(&subject, &partition, expire).await;
    assert_eq!(expired.len(), 1);
    assert_eq!((after.state.attempt_count, after.control.active), (1, None));
    assert!(after.control.paused.is_some(), "the pause was lost: {after:?}");
}

/// CP-2.5
async fn a_claim_that_waits_for_a_pause_respects_it(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let (partition, store) = (subject.read(&key).await, subject.again().await);
    let raw = Raw::of(&subject).await;
    raw.run(if raw.is_postgres() { "BEGIN" } else { "BEGIN IMMEDIATE" }).await;
    raw.run("UPDATE partitions SET version = version + 1, held = 1").await;
    raw.run("UPDATE partition_control SET paused_by = 'ada', paused_at = 5").await;
    let task = tokio::spawn(async move { store.data().claim_partitions(claim(1)).await.unwrap().0 });
    raw.run("COMMIT").await;
    // It may come before, after or in the middle; it must not claim what it then finds paused.
    let claimed = task.await.unwrap();
    let after = subject.read(&key).await;
    assert!(claimed.is_empty() && after.control.active.is_none(), "{claimed:?}");
    assert_eq!(after.state.version, partition.state.version + 1);
}

/// CP-2.5, CP-4.2, RP-9.4: pauses, verdicts and claims of the same partitions at once, through the store alone.
async fn pauses_verdicts_and_claims_at_once_lose_nothing(subject: TestStore) {
    let days = keys("ads", &["a"], 40);
    subject.want(Lane::Fresh, days.clone()).await;
    let claimed = subject.claim(20).await;
    let (pauser, judge, claimer) = (subject.again().await, subject.again().await, subject.again().await);
    let mut read = Vec::new();
    for key in &days {
        read.push(subject.read(key).await);
    }
    let pausing = read.into_iter().map(|partition| {
        let (pauser, operation) = (pauser.clone(), subject.operation("state pause"));
        tokio::spawn(
            async move { pauser.control().commit(&operation, vec![(partition, pause())]).await.unwrap().remove(0) },
        )
    });
    let judging = claimed.into_iter().map(|claimed| {
        let judge = judge.clone();
        tokio::spawn(async move { judge.verdicts().judge(&claimed.run, accepted(1), None).await.unwrap() })
    });
    let claiming = (0..10).map(|_| {
        let claimer = claimer.clone();
        tokio::spawn(async move { claimer.data().claim_partitions(claim(3)).await.unwrap().0.len() })
    });
    let (pausing, judging, claiming): (Vec<_>, Vec<_>, Vec<_>) =
        (pausing.collect(), judging.collect(), claiming.collect());
    for task in judging {
        assert!(matches!(task.await.unwrap(), Recorded::As(_)));
    }
    for task in claiming {
        assert!(task.await.unwrap() <= 3);
    }
    for (task, key) in pausing.into_iter().zip(&days) {
        let now = subject.read(key).await;
        match task.await.unwrap() {
            Outcome::Changed { .. } => assert!(now.control.paused.is_some(), "a pause was lost: {now:?}"),
            Outcome::Overtaken(_) => assert_eq!(now.control.paused, None),
            Outcome::Refused(refused) => panic!("{refused}"),
        }
        let running =
            subject.store.view().attempts(key).await.unwrap().into_iter().filter(|run| run.completed_at.is_none());
        assert_eq!(running.count(), usize::from(now.control.active.is_some()));
    }
}

crate::on_both_databases!(
    a_verdict_that_waits_for_a_pause_keeps_it,
    a_release_that_waits_for_a_pause_keeps_it,
    an_expiry_that_waits_for_a_pause_keeps_it,
    a_claim_that_waits_for_a_pause_respects_it,
    pauses_verdicts_and_claims_at_once_lose_nothing,
);
