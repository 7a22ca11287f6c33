//! The retry schedule of runs, as it is written and read back.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::{RetryPolicy, StopReason};
use redrive_core::run::{ControlEvent, End, Run, State, Verdict, Workload};
use redrive_store::{HeartbeatAnswer, Recorded, RunChangeOutcome, RunClaim};

use crate::steps::{fault, fault_under, job_claim, recorded, upload};
use crate::support::TestStore;

async fn fail_when_due(subject: &TestStore, class: ErrorClass, hint: Option<Duration>) -> Run {
    let run = subject.claim_jobs(1).await.remove(0);
    assert_eq!((run.state, run.next_retry_at), (State::Running, None));
    let failed = recorded(subject.report(&run, fault(class, hint)).await);
    assert_eq!(subject.run(run.run_id).await, failed);
    if let Some(due) = failed.next_retry_at {
        subject.clock.advance(due.since(subject.now()).saturating_sub(Duration::from_micros(1)));
        assert!(subject.claim_jobs(9).await.is_empty(), "it is not due for another microsecond");
        subject.clock.advance(Duration::from_micros(1));
    }
    failed
}

/// AR-1, AR-3, AR-5, AR-9
async fn a_retryable_failure_backs_off_until_attempts_run_out(subject: TestStore) {
    let id = subject.submit(&["a"]).await[0];
    let delays = [60, 120, 240, 480, 960, 1920, 3600];
    for (nth, delay) in (1u32..).zip(delays) {
        let before = subject.now();
        let failed = fail_when_due(&subject, ErrorClass::Retryable, None).await;
        assert_eq!((failed.state, failed.retry_count, failed.attempt), (State::Waiting, nth, nth));
        assert_eq!(failed.next_retry_at, Some(before.saturating_add(Duration::from_secs(delay))));
        assert_eq!(failed.error_class, Some(ErrorClass::Retryable));
    }
    let dead = fail_when_due(&subject, ErrorClass::Retryable, None).await;
    assert_eq!((dead.state, dead.retry_count, dead.next_retry_at), (State::Dead, 7, None));
    subject.clock.advance(Duration::from_secs(1_000_000));
    assert!(subject.claim_jobs(9).await.is_empty());
    let failures = subject.store.view().run_failures(id).await.unwrap();
    let told: Vec<_> =
        failures.iter().map(|failure| (failure.attempt, failure.record.delay, failure.record.stop)).collect();
    let mut expected: Vec<_> =
        (1..).zip(delays).map(|(nth, delay)| (nth, Some(Duration::from_secs(delay)), None)).collect();
    expected.push((8, None, Some(StopReason::AttemptsExhausted)));
    assert_eq!(told, expected);
    assert!(failures.iter().all(|failure| failure.record.trace.as_deref() == Some("at line 1")));
    assert!(failures.iter().all(|failure| failure.record.worker.as_deref() == Some("w1")));
}

/// AR-2
async fn a_final_failure_is_never_retried(subject: TestStore) {
    let id = subject.submit(&["a"]).await[0];
    let dead = fail_when_due(&subject, ErrorClass::Final, Some(Duration::from_secs(5))).await;
    assert_eq!((dead.state, dead.next_retry_at, dead.completed_at), (State::Dead, None, Some(subject.now())));
    let failures = subject.store.view().run_failures(id).await.unwrap();
    assert_eq!((failures.len(), failures[0].record.stop), (1, Some(StopReason::FinalError)));
}

/// AR-4
async fn a_rate_limit_with_a_hint_is_exact_and_free(subject: TestStore) {
    subject.submit(&["a"]).await;
    for _ in 0..10 {
        let before = subject.now();
        let failed = fail_when_due(&subject, ErrorClass::RateLimited, Some(Duration::from_millis(1234))).await;
        assert_eq!(failed.next_retry_at, Some(before.saturating_add(Duration::from_millis(1234))));
        assert_eq!(failed.retry_count, 0);
    }
    let before = subject.now();
    let failed = fail_when_due(&subject, ErrorClass::RateLimited, None).await;
    assert_eq!(failed.next_retry_at, Some(before.saturating_add(Duration::from_secs(60))));
    assert_eq!((failed.retry_count, failed.attempt), (1, 11));
}

/// AR-9
async fn starting_keeps_the_count_and_success_clears_it(subject: TestStore) {
    let id = subject.submit(&["a"]).await[0];
    fail_when_due(&subject, ErrorClass::Retryable, None).await;
    let run = subject.claim_jobs(1).await.remove(0);
    assert_eq!((run.retry_count, run.next_retry_at, run.attempt), (1, None, 2));
    assert_eq!(run.error_message.as_deref(), Some("boom"));
    recorded(subject.report(&run, End::Completed { verdict: Verdict::Passed, metrics: None }).await);
    let done = subject.run(id).await;
    assert_eq!((done.retry_count, done.next_retry_at, done.error_class), (0, None, None));
    assert_eq!((done.error_message, done.error_traceback, done.verdict), (None, None, Some(Verdict::Passed)));
    assert_eq!(subject.store.view().run_failures(id).await.unwrap().len(), 1, "history stays");
}

/// IN-3
async fn an_archive_is_retried_after_1_3_and_10_minutes(subject: TestStore) {
    subject.store.control().submit(vec![upload(subject.now())]).await.unwrap();
    let ingest = || RunClaim { workload: Workload::Ingest, ..job_claim(1) };
    let mut waits = Vec::new();
    loop {
        let claimed = subject.store.data().claim_runs(ingest()).await.unwrap().remove(0);
        let report = vec![(claimed.run, fault_under(RetryPolicy::ingest(), ErrorClass::Retryable, None))];
        let failed = subject.store.data().record(report).await.unwrap().remove(0);
        let failed = recorded(failed);
        let Some(due) = failed.next_retry_at else {
            assert_eq!((failed.state, failed.attempt), (State::Dead, 4));
            break;
        };
        waits.push(due.since(subject.now()).as_secs());
        subject.clock.advance(due.since(subject.now()));
    }
    assert_eq!(waits, [60, 180, 600]);
}

async fn a_dead_run_can_be_granted_another_attempt(subject: TestStore) {
    let id = subject.submit(&["a"]).await[0];
    let refused = async |event| {
        let outcome = subject.ask_run(id, event).await;
        let RunChangeOutcome::Refused(refused) = outcome else { panic!("{outcome:?}") };
        refused
    };
    assert_eq!(refused(ControlEvent::Retry).await, Refused::NoOp(Reason::AlreadyPending));
    fail_when_due(&subject, ErrorClass::Final, None).await;
    assert_eq!(refused(ControlEvent::Cancel { by: "ada".to_owned() }).await, Refused::NoOp(Reason::AlreadyCompleted));
    let RunChangeOutcome::Changed { after: queued, .. } = subject.ask_run(id, ControlEvent::Retry).await else {
        panic!("a dead run is retried")
    };
    assert_eq!((queued.state, queued.completed_at), (State::Queued, None));
    assert_eq!(subject.run(id).await, queued);
    let run = subject.claim_jobs(1).await.remove(0);
    assert_eq!(refused(ControlEvent::Retry).await, Refused::Rule(Reason::InFlight));
    recorded(subject.report(&run, End::Completed { verdict: Verdict::Failed, metrics: None }).await);
    assert_eq!(refused(ControlEvent::Retry).await, Refused::NoOp(Reason::AlreadyCompleted));
}

async fn a_cancelled_runs_worker_changes_nothing_any_more(subject: TestStore) {
    let ids = subject.submit(&["a"; 3]).await;
    let run = subject.claim_jobs(1).await.remove(0);
    for id in &ids[..2] {
        let dead = subject.cancel(*id).await;
        assert_eq!((dead.state, dead.error_message.as_deref()), (State::Dead, Some("cancelled by ada")));
        assert_eq!(subject.run(*id).await, dead);
    }
    let cancelled = subject.run(run.run_id).await;
    let held = vec![(run.run_id, run.task_id.unwrap())];
    let beat = subject.store.data().beat(held, crate::support::LEASE).await.unwrap();
    assert_eq!(beat.answers, [HeartbeatAnswer::Cancelled]);
    for report in [
        End::Completed { verdict: Verdict::Passed, metrics: None },
        fault(ErrorClass::Retryable, None),
        End::Released { why: None },
    ] {
        assert_eq!(subject.report(&run, report).await, Recorded::Lost);
    }
    assert_eq!(subject.run(run.run_id).await, cancelled);
    assert!(subject.store.view().run_failures(run.run_id).await.unwrap().is_empty());
    assert_eq!(subject.claim_jobs(9).await[0].run_id, ids[2]);
}

crate::on_both_databases!(
    a_retryable_failure_backs_off_until_attempts_run_out,
    a_final_failure_is_never_retried,
    a_rate_limit_with_a_hint_is_exact_and_free,
    starting_keeps_the_count_and_success_clears_it,
    an_archive_is_retried_after_1_3_and_10_minutes,
    a_dead_run_can_be_granted_another_attempt,
    a_cancelled_runs_worker_changes_nothing_any_more,
);
