//! The ends of a claim: a worker's own word, or its silence.

use std::time::Duration;

use super::{FailureRecord, Moved, changed, over, refuse_stale};
use crate::failure::{ErrorClass, clean_message, clean_trace};
use crate::id::TaskId;
use crate::refusal::{Reason, Refused};
use crate::retry::{self, Decision, RetryPolicy};
use crate::run::event::{End, Fault};
use crate::run::state::{EndedBy, Run, State, Verdict};
use crate::run::work::Workload;
use crate::time::Timestamp;

pub(super) fn ended(run: &Run, task_id: TaskId, end: End, now: Timestamp) -> Moved {
    refuse_stale(run, task_id, now)?;
    Ok(match end {
        End::Completed { verdict, metrics } => (completed(run, verdict, metrics, now), None),
        End::Failed { fault, metrics, policy } => {
            let (after, failure) = fail(run, fault, EndedBy::Failed, &policy, now);
            (Run { metrics, ..after }, Some(failure))
        }
        End::Released { why } => (released(run, why, now), None),
        End::RateLimited { message } => (rate_limited(run, &message, now), None),
    })
}

fn completed(run: &Run, verdict: Verdict, metrics: Option<String>, now: Timestamp) -> Run {
    Run {
        state: State::Done,
        verdict: Some(verdict),
        metrics,
        retry_count: 0,
        rate_limit_waited: Duration::ZERO,
        error_class: None,
        error_message: None,
        error_traceback: None,
        ..over(run, EndedBy::Completed, now)
    }
}

fn released(run: &Run, why: Option<String>, now: Timestamp) -> Run {
    match run.workload() {
        // An extraction's next attempt is another run; this one ends without a verdict.
        Workload::Extract => {
            let text = "released by its worker".to_owned();
            let text = why.map_or(text.clone(), |why| clean_message(&format!("{text}: {why}")));
            Run { error_message: Some(text), ..over(run, EndedBy::Released, now) }
        }
        Workload::Ingest | Workload::Process => Run {
            state: State::Queued,
            attempt: run.attempt.saturating_sub(1),
            started_at: None,
            lease_until: None,
            ..changed(run)
        },
    }
}

/// As released, with the source's word.
fn rate_limited(run: &Run, message: &str, now: Timestamp) -> Run {
    match run.workload() {
        Workload::Extract => Run {
            error_class: Some(ErrorClass::RateLimited),
            error_message: Some(clean_message(message)),
            ..over(run, EndedBy::RateLimited, now)
        },
        Workload::Ingest | Workload::Process => released(run, None, now),
    }
}

pub(super) fn lease_expired(run: &Run, policy: &RetryPolicy, limit: Option<Duration>, now: Timestamp) -> Moved {
    if run.state != State::Running {
        return Err(Refused::NoOp(Reason::NotQueued));
    }
    if run.lease_until.is_some_and(|until| until > now) {
        return Err(Refused::Rule(Reason::InFlight));
    }
    if run.awaits_ack {
        // No worker has said that it has the run: the answer to its claim was lost, and nothing was tried.
        return Ok((released(run, None, now), None));
    }
    let (fault, end) = match limit.filter(|limit| run.has_used(*limit)) {
        // Its worker beat to the last; the attempt took as long as it may.
        Some(limit) => (Fault::timed_out(limit), EndedBy::Failed),
        None => (Fault::lease_expired(), EndedBy::Abandoned),
    };
    let (after, failure) = fail(run, fault, end, policy, now);
    Ok((after, Some(failure)))
}

/// A try failed: the run waits for its next one, or ends by `end`.
fn fail(run: &Run, fault: Fault, end: EndedBy, policy: &RetryPolicy, now: Timestamp) -> (Run, FailureRecord) {
    let decision = match run.workload() {
        // Only the control plane retries a partition, and it does so with a new run.
        Workload::Extract => None,
        Workload::Ingest | Workload::Process => {
            Some(retry::next(&tried(run, &fault, now), &policy.of_run(run.max_attempts)))
        }
    };
    let (after, delay, stop) = match decision {
        Some(Decision::At { when, counts }) => {
            let delay = when.since(now);
            let free = if counts { Duration::ZERO } else { delay };
            let after = Run {
                state: State::Waiting,
                next_retry_at: Some(when),
                retry_count: run.retry_count.saturating_add(u32::from(counts)),
                rate_limit_waited: run.rate_limit_waited.saturating_add(free),
                lease_until: None,
                ..changed(run)
            };
            (after, Some(delay), None)
        }
        Some(Decision::Stop(why)) => (over(run, end, now), None, Some(why)),
        None => (Run { verdict: Some(Verdict::Failed), ..over(run, end, now) }, None, None),
    };
    let (class, message, trace) = (fault.class, clean_message(&fault.message), fault.trace.as_deref().map(clean_trace));
    let after =
        Run { error_class: Some(class), error_message: Some(message.clone()), error_traceback: trace.clone(), ..after };
    (after, FailureRecord { at: now, class, message, trace, worker: run.worker.clone(), delay, stop })
}

/// What fixes the jitter of a run's delays.
pub(in crate::run) fn seed(run: &Run) -> u64 {
    run.run_id.uuid().as_u64_pair().1
}

/// The failure of a run, as the policy looks at it.
fn tried(run: &Run, fault: &Fault, now: Timestamp) -> retry::Failure {
    retry::Failure {
        at: now,
        class: fault.class,
        retry_after: fault.retry_after,
        attempt: run.retry_count.saturating_add(1),
        rate_limit_waited: run.rate_limit_waited,
        age: now.since(run.submitted_at),
        seed: seed(run),
    }
}
