//! The only function that moves a run.

mod ends;
mod person;

use std::time::Duration;

use self::ends::{ended, lease_expired};
use self::person::{cancelled, retry_requested, reverted};
use super::event::{Event, Fault};
use super::state::{EndedBy, Incident, Run, State};
use super::work::Workload;
use crate::failure::{ErrorClass, clean_message, clean_trace};
use crate::id::TaskId;
use crate::refusal::{Reason, Refused};
use crate::retry::StopReason;
use crate::time::Timestamp;
pub(super) use ends::seed;

/// What must still be true, what becomes true, and what is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub expect_state: State,
    pub expect_task: Option<TaskId>,
    pub expect_version: u64,
    pub after: Run,
    pub failure: Option<FailureRecord>,
    /// What else the history keeps.
    pub incident: Option<Incident>,
}

/// One failed try, for the history that is never rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRecord {
    pub at: Timestamp,
    pub class: ErrorClass,
    pub message: String,
    pub trace: Option<String>,
    pub worker: Option<String>,
    /// The delay that was chosen; none where there is no further try.
    pub delay: Option<Duration>,
    pub stop: Option<StopReason>,
}

/// A run as an event leaves it, with the failure it records.
type Moved = Result<(Run, Option<FailureRecord>), Refused>;

/// The only function that moves a run.
pub fn apply(run: &Run, event: Event, now: Timestamp) -> Result<Change, Refused> {
    let incident = match &event {
        Event::LeaseExpired { .. } if run.awaits_ack => Some(Incident::DeliveryLost),
        Event::LeaseExpired { .. }
        | Event::Stored
        | Event::NotStored { .. }
        | Event::Due
        | Event::Claimed { .. }
        | Event::Delivered { .. }
        | Event::Beat { .. }
        | Event::Ended { .. }
        | Event::RetryRequested
        | Event::Cancelled { .. }
        | Event::Reverted { .. } => None,
    };
    let (after, failure) = match event {
        Event::Stored => stored(run, now),
        Event::NotStored { fault, metrics } => not_stored(run, &fault, metrics, now),
        Event::Due => due(run, now),
        Event::Claimed { task_id, worker, lease_until } => claimed(run, task_id, &worker, lease_until, now),
        Event::Delivered { task_id, lease_until } => delivered(run, task_id, lease_until, now),
        Event::Beat { task_id, lease_until } => beat(run, task_id, lease_until, now),
        Event::Ended { task_id, end } => ended(run, task_id, end, now),
        Event::LeaseExpired { policy, limit } => lease_expired(run, &policy, limit, now),
        Event::RetryRequested => retry_requested(run, now),
        Event::Cancelled { by } => cancelled(run, &by, now),
        Event::Reverted { to, from_version } => reverted(run, to, from_version, now),
    }?;
    let Run { state: expect_state, task_id: expect_task, version: expect_version, .. } = *run;
    Ok(Change { expect_state, expect_task, expect_version, after, failure, incident })
}

/// What `run` is after a change that counts.
fn changed(run: &Run) -> Run {
    Run { version: run.version.saturating_add(1), awaits_ack: false, ..run.clone() }
}

fn stored(run: &Run, now: Timestamp) -> Moved {
    match run.state {
        State::Storing => Ok((Run { state: Run::ready_state(run.not_before, now), ..changed(run) }, None)),
        State::Queued | State::Running | State::Waiting => Err(Refused::NoOp(Reason::AlreadyPending)),
        // Cancelled while its file was under way: the client that sent it must hear of it.
        State::Done | State::Dead => Err(Refused::Rule(Reason::AlreadyCompleted)),
    }
}

fn not_stored(run: &Run, fault: &Fault, metrics: Option<String>, now: Timestamp) -> Moved {
    match run.state {
        State::Storing => {}
        State::Queued | State::Running | State::Waiting => return Err(Refused::NoOp(Reason::AlreadyPending)),
        State::Done | State::Dead => return Err(Refused::Rule(Reason::AlreadyCompleted)),
    }
    let (message, trace) = (clean_message(&fault.message), fault.trace.as_deref().map(clean_trace));
    let after = Run {
        error_class: Some(ErrorClass::Final),
        error_message: Some(message.clone()),
        error_traceback: trace.clone(),
        metrics,
        ..over(run, EndedBy::Failed, now)
    };
    let (class, stop) = (ErrorClass::Final, Some(StopReason::FinalError));
    Ok((after, Some(FailureRecord { at: now, class, message, trace, worker: None, delay: None, stop })))
}

fn due(run: &Run, now: Timestamp) -> Moved {
    if run.state != State::Waiting || run.due_at().is_none_or(|at| at > now) {
        return Err(Refused::NoOp(Reason::NotDue));
    }
    Ok((Run { state: State::Queued, lease_until: None, ..run.clone() }, None))
}

fn claimed(run: &Run, task_id: TaskId, worker: &str, lease_until: Timestamp, now: Timestamp) -> Moved {
    match run.state {
        State::Queued => {}
        State::Running => return Err(Refused::Rule(Reason::InFlight)),
        State::Storing | State::Waiting => return Err(Refused::NoOp(Reason::NotDue)),
        State::Done => return Err(Refused::NoOp(Reason::AlreadyCompleted)),
        State::Dead => return Err(Refused::NoOp(Reason::NotQueued)),
    }
    let after = Run {
        state: State::Running,
        attempt: run.attempt.saturating_add(1),
        next_retry_at: None,
        task_id: Some(task_id),
        worker: Some(clean_message(worker)),
        started_at: Some(now),
        last_heartbeat: Some(now),
        lease_until: Some(lease_until),
        ..changed(run)
    };
    Ok((after, None))
}

fn delivered(run: &Run, task_id: TaskId, lease_until: Timestamp, now: Timestamp) -> Moved {
    refuse_stale(run, task_id, now)?;
    match run.workload() {
        // What the validator judges never leaves this house.
        Workload::Extract => return Err(Refused::Rule(Reason::NotQueued)),
        Workload::Ingest | Workload::Process => {}
    }
    Ok((Run { awaits_ack: true, lease_until: Some(lease_until), ..run.clone() }, None))
}

fn beat(run: &Run, task_id: TaskId, lease_until: Timestamp, now: Timestamp) -> Moved {
    refuse_stale(run, task_id, now)?;
    Ok((Run { last_heartbeat: Some(now), lease_until: Some(lease_until), awaits_ack: false, ..run.clone() }, None))
}

/// The run at its end: dead, unless the caller says otherwise, and held by no worker.
fn over(run: &Run, by: EndedBy, now: Timestamp) -> Run {
    Run {
        state: State::Dead,
        next_retry_at: None,
        lease_until: None,
        completed_at: Some(now),
        ended_by: Some(by),
        ..changed(run)
    }
}

/// A worker's word must come from the current claim, and before its lease ran out.
fn refuse_stale(run: &Run, task_id: TaskId, now: Timestamp) -> Result<(), Refused> {
    if run.state != State::Running || run.task_id != Some(task_id) {
        return Err(Refused::Rule(Reason::StaleFence));
    }
    if run.lease_until.is_some_and(|until| until <= now) {
        return Err(Refused::Rule(Reason::LeaseExpired));
    }
    Ok(())
}
