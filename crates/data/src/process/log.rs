//! The log lines about attempts at jobs, the same for this program's own workers and for outside workers.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{Change, Run, State, Verdict};

pub(crate) fn started(run: &Run) {
    let (run_id, category, attempt) = (run.run_id, run.work.category(), run.attempt);
    if attempt > 1 {
        tracing::info!(%run_id, category, attempt, "retry started");
    } else {
        tracing::info!(%run_id, category, attempt, "first attempt started");
    }
}

/// Says that an outside worker is given a run; again, where the worker asks again.
pub(crate) fn sent(run: &Run) {
    let (run_id, category, attempt, worker) = (run.run_id, run.work.category(), run.attempt, run.worker.as_deref());
    if attempt > 1 {
        tracing::info!(%run_id, category, attempt, worker, "retry sent to its worker");
    } else {
        tracing::info!(%run_id, category, attempt, worker, "first attempt sent to its worker");
    }
}

pub(crate) fn done(run_id: RunId, category: &str, attempt: u32, verdict: Option<Verdict>) {
    let verdict = verdict.map(Verdict::as_str);
    let text = if attempt > 1 { "retry succeeded" } else { "done" };
    tracing::info!(%run_id, category, attempt, verdict, "{text}");
}

/// Says what comes next after a failed try, after which the run waits for `delay` if it is tried again.
pub(crate) fn failed(run: &Run, delay: Duration) {
    let (run_id, category, attempt) = (run.run_id, run.work.category(), run.attempt);
    let why = run.error_message.as_deref();
    match (run.state, run.error_class) {
        (State::Waiting, class) => {
            let (class, delay_s) = (class.map(ErrorClass::as_str), delay.as_secs_f64());
            let next_retry_at = run.next_retry_at.map(|at| at.to_string());
            tracing::info!(%run_id, category, attempt, class, delay_s, next_retry_at, why, "retry scheduled");
        }
        (State::Dead, Some(ErrorClass::Final)) => {
            tracing::info!(%run_id, category, attempt, why, "final error; it is not tried again");
        }
        (State::Dead, class) => {
            let (class, retry_count) = (class.map(ErrorClass::as_str), run.retry_count);
            tracing::info!(%run_id, category, attempt, retry_count, class, why, "attempts exhausted");
        }
        (State::Storing | State::Queued | State::Running | State::Done, _) => {}
    }
}

/// Says what an outside worker's report has changed.
pub(crate) fn reported(change: &Change) {
    let run = &change.after;
    match &change.failure {
        Some(failure) => failed(run, failure.delay.unwrap_or_default()),
        None if run.state == State::Done => done(run.run_id, run.work.category(), run.attempt, run.verdict),
        None => {
            let (run_id, category, worker) = (run.run_id, run.work.category(), run.worker.as_deref());
            tracing::info!(%run_id, category, worker, "given back untried");
        }
    }
}
