//! What can happen to a partition, and the only function that moves it.

use super::state::{InFlight, Mark, Partition, Reprocess, Standing, Status, Wanted, terminal};
use crate::failure::{ErrorClass, clean_message, with_terminal_mark, without_terminal_mark};
use crate::lane::Lane;
use crate::refusal::{Reason, Refused};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

/// What the control plane may ask for.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlEvent<'a> {
    /// Requeue a failed partition, or a success whose reprocess was rejected; with `stale`, also one that has been
    /// pending for too long.
    Retry {
        policy: &'a RetryPolicy,
        clear_terminal: bool,
        stale: bool,
    },
    /// Ask for a new run of a success, which stays until the new one is accepted.
    Reprocess,
    /// A backfill met a partition that is there already.
    Backfill {
        policy: &'a RetryPolicy,
        force_pending: bool,
    },
    MarkTerminal {
        by: &'a str,
        why: Option<&'a str>,
        threshold: u32,
    },
    ClearTerminal,
    Pause {
        by: &'a str,
        why: Option<&'a str>,
    },
    Resume,
    /// Undo: put back what an operation changed, if nothing has happened since.
    Revert {
        to: &'a Standing,
        from_version: u64,
    },
}

/// The validator's judgement of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    Accepted { records: u64 },
    Rejected { class: ErrorClass, message: String, not_before: Option<Timestamp> },
}

/// What the data plane may report.
#[derive(Debug, Clone, PartialEq)]
pub enum DataEvent {
    Claimed(InFlight),
    /// The worker gave it back untried, in an orderly shutdown.
    Released(InFlight),
    Judged(InFlight, Judgement),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    Control(ControlEvent<'a>),
    Data(DataEvent),
}

/// What must still be true, and what becomes true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub expect_version: u64,
    /// Whether there was anything to remember before, and so a control row.
    pub had_control: bool,
    pub after: Partition,
}

/// The only function that moves a partition.
pub fn apply(partition: &Partition, event: Event<'_>, now: Timestamp) -> Result<Change, Refused> {
    let mut after = partition.clone();
    match event {
        Event::Control(event) => control(partition, event, now, &mut after)?,
        Event::Data(event) => data(partition, event, now, &mut after)?,
    }
    after.state.version = partition.state.version.saturating_add(1);
    Ok(Change { expect_version: partition.state.version, had_control: !partition.control.is_empty(), after })
}

fn control(before: &Partition, event: ControlEvent<'_>, now: Timestamp, after: &mut Partition) -> Result<(), Refused> {
    match event {
        ControlEvent::Retry { policy, clear_terminal, stale } => {
            match before.state.status {
                Status::Success if !before.control.reprocess_rejected() => {
                    return Err(Refused::NoOp(Reason::NotFailed));
                }
                Status::Pending if !stale => return Err(Refused::NoOp(Reason::AlreadyPending)),
                Status::Pending | Status::Success | Status::Failed => {}
            }
            refuse_in_flight(before)?;
            refuse_paused(before)?;
            if terminal(before, policy, now).is_some() && !clear_terminal {
                return Err(Refused::Rule(Reason::Terminal));
            }
            take_mark_off(after);
            want(after, Lane::Retry, now);
            match before.state.status {
                Status::Success => {}
                Status::Pending | Status::Failed => {
                    after.state.status = Status::Pending;
                    after.state.updated_at = now;
                }
            }
        }
        ControlEvent::Reprocess => {
            match before.state.status {
                Status::Pending => return Err(Refused::NoOp(Reason::AlreadyPending)),
                Status::Failed => return Err(Refused::NoOp(Reason::NotSuccess)),
                Status::Success => {}
            }
            if before.control.reprocess.is_some() && !before.control.reprocess_rejected() {
                return Err(Refused::NoOp(Reason::AlreadyPending));
            }
            refuse_in_flight(before)?;
            refuse_paused(before)?;
            want(after, Lane::Retry, now);
            // Asked for anew, it has all its attempts again.
            after.control.reprocess = Some(Reprocess::default());
        }
        ControlEvent::Backfill { policy, force_pending } => {
            if !force_pending {
                return Err(Refused::NoOp(Reason::Exists));
            }
            match before.state.status {
                Status::Pending => return Err(Refused::NoOp(Reason::AlreadyPending)),
                Status::Success | Status::Failed => {}
            }
            refuse_in_flight(before)?;
            refuse_paused(before)?;
            if terminal(before, policy, now).is_some() {
                return Err(Refused::Rule(Reason::Terminal));
            }
            want(after, Lane::Backfill, now);
            after.state.status = Status::Pending;
            after.state.updated_at = now;
            after.control.reprocess = None;
        }
        ControlEvent::MarkTerminal { by, why, threshold } => {
            match before.state.status {
                Status::Pending | Status::Success => return Err(Refused::NoOp(Reason::NotFailed)),
                Status::Failed => {}
            }
            if before.control.terminal.is_some() {
                return Err(Refused::NoOp(Reason::Terminal));
            }
            if before.state.attempt_count < threshold {
                return Err(Refused::Rule(Reason::BelowThreshold));
            }
            after.control.terminal = Some(mark(by, why, now));
            after.state.error_message = Some(with_terminal_mark(before.state.error_message.as_deref()));
        }
        ControlEvent::ClearTerminal => {
            // Only a mark can be cleared: a policy is computed, and `retry --clear-terminal` grants one attempt past it.
            if before.control.terminal.is_none() {
                return Err(Refused::NoOp(Reason::NotTerminal));
            }
            take_mark_off(after);
        }
        ControlEvent::Pause { by, why } => {
            if before.control.paused.is_some() {
                return Err(Refused::NoOp(Reason::Paused));
            }
            after.control.paused = Some(mark(by, why, now));
        }
        ControlEvent::Resume => {
            if before.control.paused.is_none() {
                return Err(Refused::NoOp(Reason::NotPaused));
            }
            after.control.paused = None;
        }
        ControlEvent::Revert { to, from_version } => {
            if before.state.version != from_version {
                refuse_in_flight(before)?;
                return Err(Refused::Rule(Reason::ChangedSincePlan));
            }
            // A pause may come and go while an attempt runs; its place in the queue may not.
            let now = before.standing();
            if (now.status, now.wanted, now.reprocess) != (to.status, to.wanted, to.reprocess) {
                refuse_in_flight(before)?;
            }
            after.state.status = to.status;
            after.state.updated_at = to.updated_at;
            after.control.wanted = to.wanted;
            after.control.reprocess = to.request();
            after.control.not_before = to.not_before;
            after.control.paused = to.paused.clone();
            take_mark_off(after);
            if let Some(mark) = &to.terminal {
                after.control.terminal = Some(mark.clone());
                after.state.error_message = Some(with_terminal_mark(after.state.error_message.as_deref()));
            }
        }
    }
    Ok(())
}

fn data(before: &Partition, event: DataEvent, now: Timestamp, after: &mut Partition) -> Result<(), Refused> {
    match event {
        DataEvent::Claimed(attempt) => {
            refuse_in_flight(before)?;
            refuse_paused(before)?;
            let open = match before.state.status {
                Status::Pending => true,
                Status::Success => before.control.reprocess.is_some(),
                Status::Failed => false,
            };
            if !open || before.control.wanted.is_none() {
                return Err(Refused::NoOp(Reason::NotQueued));
            }
            after.control.active = Some(attempt);
        }
        DataEvent::Released(attempt) => {
            refuse_stale(before, attempt)?;
            after.control.active = None;
        }
        DataEvent::Judged(attempt, judgement) => {
            refuse_stale(before, attempt)?;
            after.state.attempt_count = before.state.attempt_count.saturating_add(1);
            after.state.updated_at = now;
            after.control.active = None;
            after.control.wanted = None;
            after.control.reprocess = None;
            after.control.not_before = None;
            match judgement {
                Judgement::Accepted { records } => {
                    after.state.status = Status::Success;
                    after.state.current_run_id = Some(attempt.run_id);
                    after.state.record_count = Some(records);
                    after.state.error_class = None;
                    after.state.error_message = None;
                }
                Judgement::Rejected { class, message, not_before } => match before.state.status {
                    // The earlier success stays whole; the run's own history says what went wrong.
                    Status::Success => {
                        after.control.reprocess = still_asked_for(before.control.reprocess, class);
                        after.control.not_before = after.control.reprocess.and(not_before);
                    }
                    Status::Pending | Status::Failed => {
                        after.state.status = Status::Failed;
                        after.state.error_class = Some(class);
                        after.state.error_message = Some(clean_message(&message));
                        after.control.not_before = not_before;
                    }
                },
            }
        }
    }
    Ok(())
}

/// What a rejection leaves of a request to reprocess: all of it, unless trying again would give the same answer.
fn still_asked_for(request: Option<Reprocess>, class: ErrorClass) -> Option<Reprocess> {
    match class {
        ErrorClass::Final => None,
        ErrorClass::Retryable | ErrorClass::RateLimited => {
            request.map(|Reprocess { rejected }| Reprocess { rejected: rejected.saturating_add(1) })
        }
    }
}

fn mark(by: &str, why: Option<&str>, at: Timestamp) -> Mark {
    Mark { by: clean_message(by), at, why: why.map(clean_message) }
}

fn want(partition: &mut Partition, lane: Lane, now: Timestamp) {
    partition.control.wanted = Some(Wanted { lane, queued_at: now });
    partition.control.not_before = None;
}

fn take_mark_off(partition: &mut Partition) {
    if partition.control.terminal.take().is_some() {
        partition.state.error_message = partition.state.error_message.as_deref().and_then(without_terminal_mark);
    }
}

fn refuse_in_flight(partition: &Partition) -> Result<(), Refused> {
    match partition.control.active {
        Some(_) => Err(Refused::Rule(Reason::InFlight)),
        None => Ok(()),
    }
}

fn refuse_paused(partition: &Partition) -> Result<(), Refused> {
    match partition.control.paused {
        Some(_) => Err(Refused::NoOp(Reason::Paused)),
        None => Ok(()),
    }
}

fn refuse_stale(partition: &Partition, attempt: InFlight) -> Result<(), Refused> {
    if partition.control.active == Some(attempt) { Ok(()) } else { Err(Refused::Rule(Reason::StaleFence)) }
}
