//! A run's life: one execution of any workload, its states, and the only function that moves it.

use std::time::Duration;

use crate::failure::{ErrorClass, clean_message, clean_trace};
use crate::id::{RunId, TaskId};
use crate::refusal::{Reason, Refused};
use crate::retry::{self, Decision, Failure, RetryPolicy, Stop};
use crate::time::Timestamp;
use crate::word::words;

words!(
    Workload, "workload" {
        Extract = "extract",
        Ingest = "ingest",
        Process = "process",
    }
);

words!(
    State, "run state" {
        Queued = "queued",
        Running = "running",
        /// For `next_retry_at`; without one, for its input to be stored.
        Waiting = "waiting",
        Done = "done",
        Dead = "dead",
    }
);

words!(
    /// What a finished run found.
    Verdict, "verdict" {
        Passed = "passed",
        NeedsReview = "needs_review",
        Failed = "failed",
    }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub run_id: RunId,
    pub workload: Workload,
    pub category: String,
    pub subject: Option<String>,
    pub state: State,
    /// How often it was claimed.
    pub attempt: u32,
    /// How many retries counted against the policy.
    pub retry_count: u32,
    pub submitted_at: Timestamp,
    pub next_retry_at: Option<Timestamp>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub error_traceback: Option<String>,
    pub task_id: Option<TaskId>,
    pub worker: Option<String>,
    pub started_at: Option<Timestamp>,
    pub last_heartbeat: Option<Timestamp>,
    /// Until when its worker holds it. An ended extraction has one only if it was abandoned: the one it let run out.
    pub lease_until: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub verdict: Option<Verdict>,
    /// A JSON object, verbatim.
    pub metrics: Option<String>,
}

/// Why a try failed, as its worker or the lease keeper tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub class: ErrorClass,
    pub message: String,
    pub trace: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// The worker fell silent.
    pub fn lease_expired() -> Self {
        Self { class: ErrorClass::Retryable, message: "lease expired".to_owned(), trace: None, retry_after: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The upload is in the sink; it may be worked on.
    Stored,
    /// A waiting retry has come due and competes with new runs by the age of its submission.
    Due,
    Claimed {
        task_id: TaskId,
        worker: String,
        lease_until: Timestamp,
    },
    Beat {
        task_id: TaskId,
        lease_until: Timestamp,
    },
    Released {
        task_id: TaskId,
        /// What of the worker's own failed, where that is the reason.
        why: Option<String>,
    },
    Completed {
        task_id: TaskId,
        verdict: Verdict,
        metrics: Option<String>,
    },
    Failed {
        task_id: TaskId,
        fault: Fault,
        metrics: Option<String>,
    },
    LeaseExpired,
    /// A person asks for one more attempt of a dead run.
    RetryRequested,
    Cancelled {
        by: String,
    },
}

/// What must still be true, what becomes true, and what is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub expect_state: State,
    pub expect_task: Option<TaskId>,
    pub after: Run,
    pub failure: Option<FailureRecord>,
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
    pub stop: Option<Stop>,
}

/// The only function that moves a run.
pub fn apply(run: &Run, event: Event, now: Timestamp, policy: &RetryPolicy) -> Result<Change, Refused> {
    let mut after = run.clone();
    let mut failure = None;
    match event {
        Event::Stored => {
            match run.state {
                State::Waiting if run.next_retry_at.is_none() => {}
                State::Queued | State::Running | State::Waiting => {
                    return Err(Refused::NoOp(Reason::AlreadyPending));
                }
                // Cancelled while its file was under way: whoever sent it must hear of it.
                State::Done | State::Dead => return Err(Refused::Rule(Reason::AlreadyCompleted)),
            }
            after.state = State::Queued;
        }
        Event::Due => {
            if run.state != State::Waiting || run.next_retry_at.is_none_or(|at| at > now) {
                return Err(Refused::NoOp(Reason::NotDue));
            }
            after.state = State::Queued;
        }
        Event::Claimed { task_id, worker, lease_until } => {
            match run.state {
                State::Queued => {}
                State::Running => return Err(Refused::Rule(Reason::InFlight)),
                State::Waiting => return Err(Refused::NoOp(Reason::NotDue)),
                State::Done => return Err(Refused::NoOp(Reason::AlreadyCompleted)),
                State::Dead => return Err(Refused::NoOp(Reason::NotQueued)),
            }
            after.state = State::Running;
            after.attempt = run.attempt.saturating_add(1);
            after.next_retry_at = None;
            after.task_id = Some(task_id);
            after.worker = Some(clean_message(&worker));
            after.started_at = Some(now);
            after.last_heartbeat = Some(now);
            after.lease_until = Some(lease_until);
        }
        Event::Beat { task_id, lease_until } => {
            refuse_stale(run, task_id, now)?;
            after.last_heartbeat = Some(now);
            after.lease_until = Some(lease_until);
        }
        Event::Released { task_id, why } => {
            refuse_stale(run, task_id, now)?;
            stop_running(&mut after);
            match run.workload {
                // An extraction's next attempt is another run; this one ends without a verdict.
                Workload::Extract => {
                    after.state = State::Dead;
                    after.completed_at = Some(now);
                    after.error_message = Some(match why {
                        Some(why) => clean_message(&format!("released by its worker: {why}")),
                        None => "released by its worker".to_owned(),
                    });
                }
                Workload::Ingest | Workload::Process => {
                    after.state = State::Queued;
                    after.attempt = run.attempt.saturating_sub(1);
                    after.started_at = None;
                }
            }
        }
        Event::Completed { task_id, verdict, metrics } => {
            refuse_stale(run, task_id, now)?;
            stop_running(&mut after);
            after.state = State::Done;
            after.completed_at = Some(now);
            after.verdict = Some(verdict);
            after.metrics = metrics;
            after.retry_count = 0;
            after.error_class = None;
            after.error_message = None;
            after.error_traceback = None;
        }
        Event::Failed { task_id, fault, metrics } => {
            refuse_stale(run, task_id, now)?;
            after.metrics = metrics;
            failure = Some(fail(run, fault, now, policy, &mut after));
        }
        Event::LeaseExpired => {
            if run.state != State::Running {
                return Err(Refused::NoOp(Reason::NotQueued));
            }
            if run.lease_until.is_some_and(|until| until > now) {
                return Err(Refused::Rule(Reason::InFlight));
            }
            failure = Some(fail(run, Fault::lease_expired(), now, policy, &mut after));
            if run.workload == Workload::Extract {
                // What tells an abandoned run from one that failed, whatever that one said.
                after.lease_until = run.lease_until;
            }
        }
        Event::RetryRequested => {
            match run.state {
                State::Dead => {}
                State::Done => return Err(Refused::NoOp(Reason::AlreadyCompleted)),
                State::Queued | State::Waiting => return Err(Refused::NoOp(Reason::AlreadyPending)),
                State::Running => return Err(Refused::Rule(Reason::InFlight)),
            }
            match run.workload {
                // A partition is retried through its state, never through one of its runs.
                Workload::Extract => return Err(Refused::Rule(Reason::NotQueued)),
                // Nobody ever started it, so its file may never have arrived: it is to be sent again.
                Workload::Ingest if run.attempt == 0 => return Err(Refused::Rule(Reason::NotQueued)),
                Workload::Ingest | Workload::Process => {}
            }
            after.state = State::Queued;
            after.completed_at = None;
        }
        Event::Cancelled { by } => {
            match run.state {
                State::Queued | State::Waiting | State::Running => {}
                State::Done | State::Dead => return Err(Refused::NoOp(Reason::AlreadyCompleted)),
            }
            match run.workload {
                Workload::Extract => return Err(Refused::Rule(Reason::InFlight)),
                Workload::Ingest | Workload::Process => {}
            }
            stop_running(&mut after);
            // Whoever works on it now holds no fence any more.
            after.task_id = None;
            after.state = State::Dead;
            after.next_retry_at = None;
            after.completed_at = Some(now);
            after.error_class = Some(ErrorClass::Final);
            after.error_message = Some(clean_message(&format!("cancelled by {by}")));
            after.error_traceback = None;
        }
    }
    Ok(Change { expect_state: run.state, expect_task: run.task_id, after, failure })
}

fn fail(run: &Run, fault: Fault, now: Timestamp, policy: &RetryPolicy, after: &mut Run) -> FailureRecord {
    let (message, trace) = (clean_message(&fault.message), fault.trace.as_deref().map(clean_trace));
    let decision = match run.workload {
        // Only the control plane retries a partition, and it does so with a new run.
        Workload::Extract => None,
        Workload::Ingest | Workload::Process => Some(retry::next(
            &Failure {
                at: now,
                class: fault.class,
                retry_after: fault.retry_after,
                attempt: run.retry_count.saturating_add(1),
                age: now.since(run.submitted_at),
                seed: run.run_id.uuid().as_u64_pair().1,
            },
            policy,
        )),
    };
    stop_running(after);
    after.error_class = Some(fault.class);
    after.error_message = Some(message.clone());
    after.error_traceback = trace.clone();
    let (mut delay, mut stop) = (None, None);
    match decision {
        Some(Decision::At { when, counts }) => {
            after.state = State::Waiting;
            after.next_retry_at = Some(when);
            after.retry_count = run.retry_count.saturating_add(u32::from(counts));
            delay = Some(when.since(now));
        }
        Some(Decision::Stop(why)) => {
            after.state = State::Dead;
            after.next_retry_at = None;
            after.completed_at = Some(now);
            stop = Some(why);
        }
        None => {
            after.state = State::Dead;
            after.verdict = Some(Verdict::Failed);
            after.completed_at = Some(now);
        }
    }
    FailureRecord { at: now, class: fault.class, message, trace, worker: run.worker.clone(), delay, stop }
}

fn stop_running(run: &mut Run) {
    run.lease_until = None;
}

/// A write must come from the current claim, and before its lease ran out.
fn refuse_stale(run: &Run, task_id: TaskId, now: Timestamp) -> Result<(), Refused> {
    if run.state != State::Running || run.task_id != Some(task_id) {
        return Err(Refused::Rule(Reason::StaleFence));
    }
    if run.lease_until.is_some_and(|until| until <= now) {
        return Err(Refused::Rule(Reason::LeaseExpired));
    }
    Ok(())
}

words!(
    /// How an attempt at a partition stands or ended.
    Outcome, "outcome" {
        Running = "running",
        Success = "success",
        Failed = "failed",
        /// Its worker was not heard of until its lease ran out.
        Abandoned = "abandoned",
        /// Its worker gave it back untried.
        Released = "released",
    }
);

pub fn outcome(run: &Run) -> Outcome {
    match (run.state, run.verdict) {
        (State::Queued | State::Running | State::Waiting, _) => Outcome::Running,
        (State::Done, _) => Outcome::Success,
        (State::Dead, None) => Outcome::Released,
        (State::Dead, Some(Verdict::Passed | Verdict::NeedsReview | Verdict::Failed)) => match run.lease_until {
            Some(_) => Outcome::Abandoned,
            None => Outcome::Failed,
        },
    }
}

/// The word each workload's users know for where a run stands.
pub fn label(run: &Run) -> &'static str {
    match (run.workload, run.state) {
        (Workload::Ingest, State::Queued) => "STORED",
        (Workload::Ingest, State::Waiting) if run.next_retry_at.is_none() => "PENDING",
        (Workload::Ingest, State::Waiting) => "STORED",
        (Workload::Ingest, State::Running) => "PARSING",
        (Workload::Ingest, State::Done) => "COMPLETE",
        (Workload::Ingest, State::Dead) => "FAILED",
        // What failed before is an error until somebody starts it again.
        (Workload::Process, State::Queued) if run.error_class.is_some() => "error",
        (Workload::Process, State::Queued) => "discovered",
        (Workload::Process, State::Running) => "processing",
        (Workload::Process, State::Waiting | State::Dead) => "error",
        (Workload::Process, State::Done) => run.verdict.unwrap_or(Verdict::Passed).as_str(),
        (Workload::Extract, State::Queued | State::Waiting) => "queued",
        (Workload::Extract, State::Running) => "extracting",
        (Workload::Extract, State::Done) => "success",
        (Workload::Extract, State::Dead) => "failed",
    }
}
