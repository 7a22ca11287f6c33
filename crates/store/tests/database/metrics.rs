//! Counts and averages over everything.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::run::{End, State, Verdict, Workload};
use redrive_store::NewRun;

use crate::steps::{fault, keys, recorded, rejected};
use crate::support::TestStore;

const DONE: End = End::Completed { verdict: Verdict::Passed, metrics: None };

/// IN-11
async fn runs_are_counted_by_state_and_retry(subject: TestStore) {
    subject.submit(&["a"; 5]).await;
    let claimed = subject.claim_jobs(3).await;
    subject.clock.advance(Duration::from_secs(10));
    recorded(subject.report(&claimed[0], DONE).await);
    recorded(subject.report(&claimed[1], fault(ErrorClass::Final, None)).await);
    recorded(subject.report(&claimed[2], fault(ErrorClass::RateLimited, Some(Duration::from_secs(1)))).await);
    subject.clock.advance(Duration::from_secs(1));
    let again = subject.claim_jobs(3).await;
    let retried = again.iter().find(|run| run.run_id == claimed[2].run_id).unwrap();
    subject.clock.advance(Duration::from_secs(20));
    recorded(subject.report(retried, DONE).await);
    let metrics = subject.store.view().run_metrics(Workload::Process, 1).await.unwrap();
    assert_eq!(metrics.by_state, [(State::Dead, 1), (State::Done, 2), (State::Running, 2)]);
    assert_eq!((metrics.retried_runs, metrics.total_retries, metrics.max_retries), (1, 1, 1));
    assert_eq!(metrics.average_duration, Some(Duration::from_secs(15)));
    assert_eq!(metrics.recent_failures.len(), 1);
    let none = subject.store.view().run_metrics(Workload::Ingest, 9).await.unwrap();
    assert_eq!((none.by_state.len(), none.average_duration, none.max_retries), (0, None, 0));
}

/// IN-11: the average is the same number wherever it is asked for.
async fn an_average_is_cut_to_whole_microseconds(subject: TestStore) {
    subject.submit(&["a"; 2]).await;
    for micros in [1, 2] {
        let run = subject.claim_jobs(1).await.remove(0);
        subject.clock.advance(Duration::from_micros(micros));
        recorded(subject.report(&run, DONE).await);
    }
    let metrics = subject.store.view().run_metrics(Workload::Process, 0).await.unwrap();
    assert_eq!(metrics.average_duration, Some(Duration::from_micros(1)));
}

/// IN-11
async fn recent_failures_are_those_of_the_workload_asked_for(subject: TestStore) {
    subject.submit(&["a"]).await;
    let run = subject.claim_jobs(1).await.remove(0);
    recorded(subject.report(&run, fault(ErrorClass::Retryable, None)).await);
    subject.clock.advance(Duration::from_secs(1));
    subject.judged(keys("ads", &["a"], 1), rejected(ErrorClass::Retryable, "boom")).await;
    let failures = subject.store.view().run_metrics(Workload::Process, 9).await.unwrap().recent_failures;
    assert_eq!(failures.iter().map(|failure| failure.run_id).collect::<Vec<_>>(), [run.run_id]);
}

/// However many runs there are, as many are looked at as are told.
async fn many_runs_are_counted_up_to_a_bound(subject: TestStore) {
    let new = (0..10_050).map(|_| NewRun::job("a", None, subject.now())).collect();
    subject.store.control().submit(new).await.unwrap();
    let metrics = subject.store.view().run_metrics(Workload::Process, 0).await.unwrap();
    assert_eq!(metrics.by_state, [(State::Queued, 10_001)]);
}

crate::on_both_databases!(
    many_runs_are_counted_up_to_a_bound,
    runs_are_counted_by_state_and_retry,
    an_average_is_cut_to_whole_microseconds,
    recent_failures_are_those_of_the_workload_asked_for,
);
