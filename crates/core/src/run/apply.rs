//! What can happen to a run, and the only function that moves it.

use std::time::Duration;

use super::state::{EndedBy, Incident, Run, RunSnapshot, State, Verdict};
use super::work::Workload;
use crate::failure::{ErrorClass, clean_message, clean_trace};
use crate::id::TaskId;
use crate::refusal::{Reason, Refused};
use crate::retry::{self, Decision, RetryPolicy, StopReason};
use crate::time::Timestamp;

/// Why a try failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub class: ErrorClass,
    pub message: String,
    pub trace: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// How long the source asks to be left alone, where it is a rate limit.
    pub fn hint(&self, policy: &RetryPolicy) -> Option<Duration> {
        let hint = self.retry_after.filter(|_| self.class == ErrorClass::RateLimited);
        hint.map(|hint| policy.bounded_hint(hint))
    }

    /// The worker sent no heartbeat until its lease ran out.
    pub fn lease_expired() -> Self {
        Self::retryable("lease expired".to_owned())
    }

    /// The attempt took as long as it may.
    pub fn timed_out(limit: Duration) -> Self {
        Self::retryable(format!("timed out after {} s", limit.as_secs_f64()))
    }

    fn retryable(message: String) -> Self {
        Self { class: ErrorClass::Retryable, message, trace: None, retry_after: None }
    }
}

/// How a worker ends its claim.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    Completed {
        verdict: Verdict,
        metrics: Option<String>,
    },
    /// The policy says when a job or an upload is tried again. An extraction ends whatever it says.
    Failed {
        fault: Fault,
        metrics: Option<String>,
        policy: RetryPolicy,
    },
    /// Given back untried.
    Released {
        /// What failed on the worker's side, where that is the reason.
        why: Option<String>,
    },
    /// Given back because the source said when to come again. Only an extraction ends so: the wait is its partition's.
    RateLimited {
        /// What the source said.
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The upload is in the sink; a worker may claim it.
    Stored,
    /// The upload was refused while it came, and is not in the sink; no worker will see it.
    NotStored {
        fault: Fault,
        metrics: Option<String>,
    },
    /// A waiting retry has come due and competes with new runs by the age of its submission.
    Due,
    Claimed {
        task_id: TaskId,
        worker: String,
        lease_until: Timestamp,
    },
    /// The claim is sent, for the first time or again, to an outside worker over a network that may lose the answer. Until that
    /// worker speaks, the lease is the time within which it must.
    Delivered {
        task_id: TaskId,
        lease_until: Timestamp,
    },
    Beat {
        task_id: TaskId,
        lease_until: Timestamp,
    },
    Ended {
        task_id: TaskId,
        end: End,
    },
    LeaseExpired {
        /// As in [`End::Failed`].
        policy: RetryPolicy,
        /// How long an attempt may take, where its worker is told so and its lease lasts no longer.
        limit: Option<Duration>,
    },
    /// A person asks for a dead run to be tried again, with a fresh count.
    RetryRequested,
    Cancelled {
        by: String,
    },
    /// A person takes a retry or a cancel back, provided that nothing has happened to the run since.
    Reverted {
        /// As the run was before.
        to: RunSnapshot,
        /// The version that the operation gave it.
        from_version: u64,
    },
}

/// What a person can ask of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlEvent {
    /// As [`Event::RetryRequested`].
    Retry,
    /// As [`Event::Cancelled`].
    Cancel { by: String },
    /// As [`Event::Reverted`].
    Revert { to: RunSnapshot, from_version: u64 },
}

impl From<ControlEvent> for Event {
    fn from(event: ControlEvent) -> Self {
        match event {
            ControlEvent::Retry => Self::RetryRequested,
            ControlEvent::Cancel { by } => Self::Cancelled { by },
            ControlEvent::Revert { to, from_version } => Self::Reverted { to, from_version },
        }
    }
}

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

fn ended(run: &Run, task_id: TaskId, end: End, now: Timestamp) -> Moved {
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

fn lease_expired(run: &Run, policy: &RetryPolicy, limit: Option<Duration>, now: Timestamp) -> Moved {
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

fn retry_requested(run: &Run, now: Timestamp) -> Moved {
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

fn reverted(run: &Run, to: RunSnapshot, from_version: u64, now: Timestamp) -> Moved {
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

fn cancelled(run: &Run, by: &str, now: Timestamp) -> Moved {
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
pub(super) fn seed(run: &Run) -> u64 {
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
