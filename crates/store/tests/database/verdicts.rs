//! The validator's verdict: once for each attempt, only from the current claim, and never over what was written before.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::TaskId;
use redrive_core::lane::Lane;
use redrive_core::partition::{Judgement, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, State, Verdict, Workload};
use redrive_store::{JudgedAttempt, Recorded};
use uuid::Uuid;

use crate::raw::Raw;
use crate::steps::{accepted, changed, claim, keys, pause, recorded, rejected, retry};
use crate::support::{LEASE, TestStore, key};

const STALE: Recorded = Recorded::Refused(Refused::Rule(Reason::StaleFence));

/// RP-2.1, RP-2.2, RP-3.1, CP-6.2
async fn a_second_verdict_changes_nothing(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    recorded(subject.judge(&claimed.run, accepted(4)).await);
    let (done, history) = (subject.read(&key).await, subject.store.view().attempts(&key).await.unwrap());
    for again in [accepted(4), accepted(5), rejected(ErrorClass::Final, "gone")] {
        assert_eq!(subject.judge(&claimed.run, again).await, STALE);
    }
    assert_eq!(subject.store.data().release(&claimed.run, None).await.unwrap(), STALE);
    assert_eq!(subject.read(&key).await, done);
    assert_eq!(subject.store.view().attempts(&key).await.unwrap(), history);
    assert!(subject.store.view().run_failures(claimed.run.run_id).await.unwrap().is_empty());
}

/// RP-9.4, CP-6.3: the same verdict from eight stores at once counts once.
async fn concurrent_verdicts_count_once(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    let mut tasks = Vec::new();
    for nth in 0..8 {
        let (store, run) = (subject.again().await, claimed.run.clone());
        let judgement = if nth % 2 == 0 { accepted(nth) } else { rejected(ErrorClass::Retryable, "boom") };
        tasks.push(tokio::spawn(async move { store.verdicts().judge(&run, judgement, None).await.unwrap() }));
    }
    let mut taken = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Recorded::As(run) => taken.push(*run),
            other @ (Recorded::Refused(_) | Recorded::Lost) => assert_eq!(other, STALE),
        }
    }
    assert_eq!(taken.len(), 1);
    let after = subject.read(&key).await;
    assert_eq!(after.state.attempt_count, 1);
    assert_eq!(after.control.active, None);
    assert_eq!(subject.store.view().attempts(&key).await.unwrap(), taken);
    let failures = subject.store.view().run_failures(claimed.run.run_id).await.unwrap();
    assert_eq!(failures.len(), usize::from(after.state.status == Status::Failed));
}

/// RP-9.4
async fn a_stale_fence_changes_nothing(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let first = subject.claim(1).await.remove(0);
    let mut forged = first.run.clone();
    forged.task_id = Some(TaskId::from_uuid(Uuid::from_u128(7)));
    let before = subject.read(&key).await;
    assert_eq!(subject.judge(&forged, accepted(1)).await, STALE);
    assert_eq!(subject.store.data().release(&forged, None).await.unwrap(), STALE);
    assert_eq!(subject.read(&key).await, before);

    // The first worker falls silent, the partition is claimed again, and the first worker comes back.
    subject.clock.advance(LEASE);
    subject.store.data().expire(Workload::Extract, 9, |_| RetryPolicy::partitions()).await.unwrap();
    assert!(changed(&subject.ask(&key, retry(&RetryPolicy::partitions())).await));
    let second = subject.claim(1).await.remove(0);
    let before = subject.read(&key).await;
    assert_eq!(subject.judge(&first.run, accepted(1)).await, STALE);
    assert_eq!(subject.store.data().release(&first.run, None).await.unwrap(), STALE);
    assert_eq!(subject.read(&key).await, before);
    recorded(subject.judge(&second.run, accepted(2)).await);
    assert_eq!(subject.read(&key).await.state.current_run_id, Some(second.run.run_id));
}

/// A verdict that comes after the lease, and before anybody noticed, is too late all the same.
async fn a_verdict_after_the_lease_is_refused(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    let before = subject.read(&key).await;
    subject.clock.advance(LEASE);
    let late = Recorded::Refused(Refused::Rule(Reason::LeaseExpired));
    assert_eq!(subject.judge(&claimed.run, accepted(1)).await, late);
    assert_eq!(subject.store.data().release(&claimed.run, None).await.unwrap(), late);
    assert_eq!(subject.read(&key).await, before);
}

/// RP-1.3: a run of a partition ends with its partition or not at all; nothing would ever wake the partition again.
async fn an_attempt_cannot_end_without_its_partition(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    let passed = End::Completed { verdict: Verdict::Passed, metrics: None };
    let _ = subject.store.data().record(vec![(claimed.run.clone(), passed)]).await;
    let (partition, run) = (subject.read(&key).await, subject.run(claimed.run.run_id).await);
    assert_eq!(partition.control.active.is_some(), run.state == State::Running, "{run:?}");
}

/// RP-9.4: both the run and its partition must know the fence.
async fn a_verdict_whose_fence_the_partition_does_not_know_changes_nothing(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    let raw = Raw::of(&subject).await;
    raw.run(&format!("UPDATE partition_control SET active_task_id = {}", raw.id(Uuid::from_u128(7)))).await;
    let before = subject.read(&key).await;
    assert_eq!(subject.judge(&claimed.run, accepted(1)).await, STALE);
    assert_eq!(subject.store.data().release(&claimed.run, None).await.unwrap(), STALE);
    assert_eq!(subject.read(&key).await, before);
    assert_eq!(subject.run(claimed.run.run_id).await, claimed.run);
}

/// RP-9.4: should the control row ever forget an attempt, the table of runs still knows it.
async fn the_database_itself_refuses_a_second_attempt_in_flight(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    Raw::of(&subject).await.run("UPDATE partition_control SET active_run_id = NULL, active_task_id = NULL").await;
    let before = subject.read(&key).await;
    assert!(subject.store.data().claim_partitions(claim(1)).await.is_err());
    assert_eq!(subject.read(&key).await, before);
    assert_eq!(subject.store.view().attempts(&key).await.unwrap(), [claimed.run]);
}

/// RP-3.1, RP-1.2
async fn a_release_burns_no_attempt(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let wanted = subject.read(&key).await;
    let claimed = subject.claim(1).await.remove(0);
    let released = recorded(subject.store.data().release(&claimed.run, None).await.unwrap());
    assert_eq!((released.state, released.completed_at), (State::Dead, Some(subject.now())));
    let mut back = subject.read(&key).await;
    assert_eq!(back.state.version, wanted.state.version + 2);
    back.state.version = wanted.state.version;
    assert_eq!(back, wanted);
    assert!(subject.store.view().run_failures(claimed.run.run_id).await.unwrap().is_empty());
    let again = subject.claim(1).await.remove(0);
    assert_ne!(again.run.run_id, claimed.run.run_id);
    assert_eq!(again.run.attempt, 1);
    recorded(subject.judge(&again.run, accepted(1)).await);
    assert_eq!(subject.read(&key).await.state.attempt_count, 1);
}

/// RP-1.2, RP-2.4, RP-3.1, RP-3.2, RP-8.2, RP-9.5
async fn each_attempt_is_a_new_run_and_none_is_rewritten(subject: TestStore) {
    let policy = RetryPolicy::partitions();
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let mut history = Vec::new();
    for attempt in 1..=5u32 {
        let claimed = subject.claim(1).await.remove(0);
        assert_eq!(claimed.run.attempt, attempt);
        subject.clock.advance(Duration::from_secs(7));
        let judgement = match attempt {
            5 => accepted(9),
            _ => rejected(ErrorClass::Retryable, &format!("boom {attempt}")),
        };
        let run = recorded(subject.judge(&claimed.run, judgement).await);
        history.push(run);
        assert_eq!(subject.store.view().attempts(&key).await.unwrap(), history);
        let partition = subject.read(&key).await;
        assert_eq!(partition.state.attempt_count, attempt);
        if attempt < 5 {
            assert_eq!((partition.state.status, partition.state.current_run_id), (Status::Failed, None));
            let message = history.last().unwrap().error_message.clone();
            assert_eq!(partition.state.error_message, message);
            assert!(changed(&subject.ask(&key, retry(&policy)).await));
        }
    }
    for run in &history[..4] {
        let failures = subject.store.view().run_failures(run.run_id).await.unwrap();
        assert_eq!(failures.len(), 1);
        assert_eq!(Some(&failures[0].record.message), run.error_message.as_ref());
        assert_eq!((run.state, run.verdict), (State::Dead, Some(Verdict::Failed)));
    }
    let done = subject.read(&key).await;
    assert_eq!((done.state.status, done.state.current_run_id), (Status::Success, Some(history[4].run_id)));
}

/// A source's hint is kept beside the partition until the next time it is wanted.
async fn a_hint_is_kept_until_the_partition_is_wanted_again(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    let until = subject.now().saturating_add(Duration::from_secs(900));
    let limited =
        Judgement::Rejected { class: ErrorClass::RateLimited, message: "slow".to_owned(), not_before: Some(until) };
    let failed = subject.judged(vec![key.clone()], limited).await.remove(0);
    assert_eq!(failed.control.not_before, Some(until));
    assert!(changed(&subject.ask(&key, retry(&RetryPolicy::partitions())).await));
    assert_eq!(subject.read(&key).await.control.not_before, None);
}

/// Among many judged at once, one whose partition was paused meanwhile is judged all the same, one that was given back and
/// one whose lease has passed are refused, and none of them stops another.
async fn verdicts_given_together_stand_for_themselves(subject: TestStore) {
    let keys = keys("ads", &["a"], 8);
    subject.want(Lane::Fresh, keys.clone()).await;
    let mut claimed = subject.claim(8).await;
    claimed.sort_by(|a, b| a.partition.state.key.cmp(&b.partition.state.key));
    assert!(changed(&subject.ask(&keys[2], pause()).await));
    recorded(subject.store.data().release(&claimed[5].run, None).await.unwrap());
    let judged: Vec<_> = claimed
        .iter()
        .enumerate()
        .map(|(nth, claimed)| JudgedAttempt {
            claimed: claimed.clone(),
            judgement: if nth == 1 { rejected(ErrorClass::Final, "gone") } else { accepted(3) },
            metrics: "{}".to_owned(),
            trace: None,
            breaker: redrive_core::breaker::BreakerPolicy::OFF,
        })
        .collect();
    let outcomes = subject.store.verdicts().judge_many(&judged).await.unwrap();
    for (nth, (key, outcome)) in keys.iter().zip(outcomes).enumerate() {
        let state = subject.read(key).await.state;
        let expected = match nth {
            1 => (Status::Failed, 1),
            5 => (Status::Pending, 0),
            _ => (Status::Success, 1),
        };
        assert_eq!((state.status, state.attempt_count), expected, "{nth}");
        match nth {
            5 => assert_eq!(outcome, STALE),
            _ => assert_eq!(recorded(outcome), subject.run(claimed[nth].run.run_id).await),
        }
    }
    assert_eq!(subject.store.view().run_failures(claimed[1].run.run_id).await.unwrap().len(), 1);
    let again = subject.store.verdicts().judge_many(&judged).await.unwrap();
    assert!(again.iter().all(|outcome| *outcome == STALE), "{again:?}");
}

/// RP-9.4: a verdict among many whose fence the run no longer knows is refused, though its partition is as it was.
async fn a_verdict_among_many_whose_fence_the_run_does_not_know_changes_nothing(subject: TestStore) {
    let keys = keys("ads", &["a"], 2);
    subject.want(Lane::Fresh, keys.clone()).await;
    let mut claimed = subject.claim(2).await;
    claimed.sort_by(|a, b| a.partition.state.key.cmp(&b.partition.state.key));
    let raw = Raw::of(&subject).await;
    let (fence, run) = (raw.id(Uuid::from_u128(7)), raw.id(claimed[0].run.run_id.uuid()));
    raw.run(&format!("UPDATE run_claims SET task_id = {fence}, version = version + 1 WHERE run_id = {run}")).await;
    let before = subject.read(&keys[0]).await;
    let judged = claimed.iter().cloned();
    let judged = judged.map(|claimed| JudgedAttempt {
        claimed,
        judgement: accepted(1),
        metrics: "{}".to_owned(),
        trace: None,
        breaker: redrive_core::breaker::BreakerPolicy::OFF,
    });
    let outcomes = subject.store.verdicts().judge_many(&judged.collect::<Vec<_>>()).await.unwrap();
    assert_eq!(outcomes[0], STALE);
    assert_eq!(subject.read(&keys[0]).await, before);
    recorded(outcomes.into_iter().nth(1).unwrap());
    assert_eq!(subject.read(&keys[1]).await.state.status, Status::Success);
}

/// What its worker knows of the lease is enough where it was prolonged, and not where it has passed.
async fn a_verdict_among_many_after_the_lease_is_refused(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a"], 2)).await;
    let claimed = subject.claim(2).await;
    subject.clock.advance(LEASE - Duration::from_secs(1));
    let held = vec![(claimed[0].run.run_id, claimed[0].run.task_id.unwrap())];
    let beat = subject.store.data().beat(held, LEASE).await.unwrap();
    subject.clock.advance(Duration::from_secs(2));
    let judged = |nth: usize| JudgedAttempt {
        claimed: claimed[nth].clone(),
        judgement: accepted(1),
        metrics: "{}".to_owned(),
        trace: None,
        breaker: redrive_core::breaker::BreakerPolicy::OFF,
    };
    let mut kept = judged(0);
    (kept.claimed.run.last_heartbeat, kept.claimed.run.lease_until) = (Some(beat.at), Some(beat.until));
    let outcomes = subject.store.verdicts().judge_many(&[kept, judged(1)]).await.unwrap();
    assert_eq!(outcomes[1], Recorded::Refused(Refused::Rule(Reason::LeaseExpired)));
    let run = recorded(outcomes.into_iter().next().unwrap());
    assert_eq!((run.state, run.last_heartbeat), (State::Done, Some(beat.at)));
}

crate::on_both_databases!(
    verdicts_given_together_stand_for_themselves,
    a_verdict_among_many_after_the_lease_is_refused,
    a_verdict_among_many_whose_fence_the_run_does_not_know_changes_nothing,
    a_second_verdict_changes_nothing,
    concurrent_verdicts_count_once,
    a_stale_fence_changes_nothing,
    a_verdict_after_the_lease_is_refused,
    an_attempt_cannot_end_without_its_partition,
    a_verdict_whose_fence_the_partition_does_not_know_changes_nothing,
    the_database_itself_refuses_a_second_attempt_in_flight,
    a_release_burns_no_attempt,
    each_attempt_is_a_new_run_and_none_is_rewritten,
    a_hint_is_kept_until_the_partition_is_wanted_again,
);
