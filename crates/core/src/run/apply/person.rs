//! What people ask of a run: another try, an end, or that either is taken back.

use std::time::Duration;

use super::{Moved, changed, over};
use crate::failure::{ErrorClass, clean_message};
use crate::refusal::{Reason, Refused};
use crate::run::state::{EndedBy, Run, RunSnapshot, State};
use crate::run::work::Workload;
use crate::time::Timestamp;

pub(super) fn retry_requested(run: &Run, now: Timestamp) -> Moved {
    match run.state {
        State::Dead => {}
        // It waits for its backoff, and the person does not want to.
        State::Waiting if run.next_retry_at.is_some() => {}
        State::Done => return Err(Refused::NoOp(Reason::AlreadyCompleted)),
        State::Storing | State::Queued | State::Waiting => return Err(Refused::NoOp(Reason::AlreadyPending)),
        State::Running => return Err(Refused::Rule(Reason::InFlight)),
    }
    match run.workload() {
        // A partition is retried through its state, never through one of its runs.
        Workload::Extract => return Err(Refused::Rule(Reason::NotQueued)),
        // No worker ever started it, so its file may never have arrived: the client has to send it again.
        Workload::Ingest if run.attempt == 0 => return Err(Refused::Rule(Reason::NotQueued)),
        Workload::Ingest | Workload::Process => {}
    }
    let after = Run {
        state: free_state(run, now),
        lease_until: run.held_until(now),
        retry_count: 0,
        rate_limit_waited: Duration::ZERO,
        next_retry_at: None,
        completed_at: None,
        ended_by: None,
        ..changed(run)
    };
    Ok((after, None))
}

pub(super) fn reverted(run: &Run, to: RunSnapshot, from_version: u64, now: Timestamp) -> Moved {
    match run.workload() {
        Workload::Extract => return Err(Refused::Rule(Reason::NotQueued)),
        Workload::Ingest | Workload::Process => {}
    }
    match run.state {
        State::Running => return Err(Refused::Rule(Reason::InFlight)),
        State::Storing | State::Queued | State::Waiting | State::Dead if run.version == from_version => {}
        State::Storing | State::Queued | State::Waiting | State::Done | State::Dead => {
            return Err(Refused::Rule(Reason::ChangedSincePlan));
        }
    }
    let state = match to.state {
        // The worker that had it was told to stop: another one starts it anew.
        State::Queued | State::Running => free_state(run, now),
        // It waits for nothing any more but the end of a lease.
        State::Waiting if to.next_retry_at.is_none() && Run::ready_state(run.not_before, now) == State::Queued => {
            free_state(run, now)
        }
        // Its time may have come while it was cancelled; a claim looks for that.
        State::Storing | State::Waiting | State::Done | State::Dead => to.state,
    };
    let after = Run {
        state,
        lease_until: run.held_until(now),
        retry_count: to.retry_count,
        rate_limit_waited: Duration::from_micros(u64::try_from(to.rate_limit_waited).unwrap_or(0)),
        next_retry_at: to.next_retry_at,
        error_class: to.error_class,
        error_message: to.error_message,
        error_traceback: to.error_traceback,
        completed_at: to.completed_at,
        ended_by: to.ended_by,
        ..changed(run)
    };
    Ok((after, None))
}

/// The state of a run that is put back into the queue. The worker of a claim that was cancelled hears of it with its next heartbeat, and
/// gives the run up when its lease ends at the latest: until then the run waits, or two workers would be at it.
fn free_state(run: &Run, now: Timestamp) -> State {
    if run.held_until(now).is_some() { State::Waiting } else { State::Queued }
}

pub(super) fn cancelled(run: &Run, by: &str, now: Timestamp) -> Moved {
    match run.state {
        State::Storing | State::Queued | State::Waiting | State::Running => {}
        State::Done | State::Dead => return Err(Refused::NoOp(Reason::AlreadyCompleted)),
    }
    match run.workload() {
        Workload::Extract => return Err(Refused::Rule(Reason::InFlight)),
        Workload::Ingest | Workload::Process => {}
    }
    let after = Run {
        // The worker that has claimed it holds no fence any more, and may be at it as long as its lease lasts.
        task_id: None,
        lease_until: run.held_until(now),
        error_class: Some(ErrorClass::Final),
        error_message: Some(clean_message(&format!("cancelled by {by}"))),
        error_traceback: None,
        ..over(run, EndedBy::Cancelled, now)
    };
    Ok((after, None))
}
