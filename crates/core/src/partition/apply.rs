//! What can happen to a partition, and the only function that moves it.

use std::num::NonZeroU32;
use std::time::Duration;

use super::state::{ControlSnapshot, InFlight, Mark, Partition, Reprocess, Status, Wanted, terminal};
use crate::failure::{ErrorClass, clean_message, with_terminal_mark, without_terminal_mark};
use crate::lane::Lane;
use crate::refusal::{Reason, Refused};
use crate::retry::{Grant, RetryPolicy};
use crate::time::Timestamp;

/// What the control plane may ask for.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlEvent<'a> {
    /// Requeue a failed partition, or a success whose reprocess was rejected; with `stale`, also one that has been
    /// pending for too long. A grant is given first, and may be what allows the retry.
    Retry {
        policy: &'a RetryPolicy,
        clear_terminal: bool,
        stale: bool,
        grant: Option<Grant>,
    },
    /// Ask for a new run of a success, which stays until the new one is accepted.
    Reprocess,
    /// Take a request to reprocess back, also one whose last attempt was rejected. The success stays as it is.
    Withdraw,
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
        to: &'a ControlSnapshot,
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
    /// The source said when to come again, and nothing was extracted: the worker gave it back until then.
    RateLimited {
        attempt: InFlight,
        until: Timestamp,
    },
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
        ControlEvent::Retry { policy, clear_terminal, stale, grant } => {
            give(after, policy, clear_terminal, grant);
            may_retry(after, policy, clear_terminal, stale, now)?;
            retry(after, now);
        }
        ControlEvent::Reprocess => {
            may_reprocess(before)?;
            reprocess(after, now);
        }
        ControlEvent::Withdraw => {
            may_withdraw(before)?;
            withdraw(after);
        }
        ControlEvent::Backfill { policy, force_pending } => {
            may_backfill(before, policy, force_pending, now)?;
            backfill(after, now);
        }
        ControlEvent::MarkTerminal { by, why, threshold } => {
            may_mark_terminal(before, threshold)?;
            put_mark_on(after, mark(by, why, now));
        }
        ControlEvent::ClearTerminal => {
            may_clear_terminal(before)?;
            take_mark_off(after);
        }
        ControlEvent::Pause { by, why } => {
            refuse_paused(before)?;
            after.control.paused = Some(mark(by, why, now));
        }
        ControlEvent::Resume => {
            after.control.paused.take().ok_or(Refused::NoOp(Reason::NotPaused))?;
        }
        ControlEvent::Revert { to, from_version } => {
            may_revert(before, to, from_version)?;
            revert(after, to);
        }
    }
    Ok(())
}

/// Adds what a retry gives. One that clears what the policy stopped, and says no number, gives the one attempt it asks for.
fn give(after: &mut Partition, policy: &RetryPolicy, clear_terminal: bool, grant: Option<Grant>) {
    let stopped = after.state.status == Status::Failed && policy.is_spent(after.spent());
    let one = (clear_terminal && stopped).then_some(Grant::Attempts(NonZeroU32::MIN));
    if let Some(grant) = grant.or(one) {
        after.control.granted = policy.granted(grant, after.tried(), after.control.granted);
    }
}

fn may_retry(
    before: &Partition,
    policy: &RetryPolicy,
    clear_terminal: bool,
    stale: bool,
    now: Timestamp,
) -> Result<(), Refused> {
    match before.state.status {
        Status::Success if !before.control.reprocess_rejected() => return Err(Refused::NoOp(Reason::NotFailed)),
        Status::Pending if !stale => return Err(Refused::NoOp(Reason::AlreadyPending)),
        Status::Pending | Status::Success | Status::Failed => {}
    }
    refuse_in_flight(before)?;
    refuse_paused(before)?;
    if clear_terminal { Ok(()) } else { refuse_terminal(before, policy, now) }
}

fn retry(after: &mut Partition, now: Timestamp) {
    take_mark_off(after);
    want(after, Lane::Retry, now);
    match after.state.status {
        // A success stays one until its reprocess is accepted.
        Status::Success => {}
        Status::Pending | Status::Failed => make_pending(after, now),
    }
}

fn may_reprocess(before: &Partition) -> Result<(), Refused> {
    match before.state.status {
        Status::Pending => return Err(Refused::NoOp(Reason::AlreadyPending)),
        Status::Failed => return Err(Refused::NoOp(Reason::NotSuccess)),
        Status::Success => {}
    }
    if before.control.reprocess.is_some() && !before.control.reprocess_rejected() {
        return Err(Refused::NoOp(Reason::AlreadyPending));
    }
    refuse_in_flight(before)?;
    refuse_paused(before)
}

fn reprocess(after: &mut Partition, now: Timestamp) {
    want(after, Lane::Retry, now);
    // Asked for anew, it has all its attempts again.
    after.control.reprocess = Some(Reprocess::default());
    after.control.granted = 0;
}

fn may_withdraw(before: &Partition) -> Result<(), Refused> {
    match before.state.status {
        Status::Pending | Status::Failed => return Err(Refused::NoOp(Reason::NotSuccess)),
        Status::Success => {}
    }
    before.control.reprocess.ok_or(Refused::NoOp(Reason::NotQueued))?;
    refuse_in_flight(before)
}

fn withdraw(after: &mut Partition) {
    let control = &mut after.control;
    control.wanted = None;
    control.reprocess = None;
    control.not_before = None;
    control.rate_limit_waited = Duration::ZERO;
    control.granted = 0;
}

fn may_backfill(before: &Partition, policy: &RetryPolicy, force_pending: bool, now: Timestamp) -> Result<(), Refused> {
    if !force_pending {
        return Err(Refused::NoOp(Reason::Exists));
    }
    match before.state.status {
        Status::Pending => return Err(Refused::NoOp(Reason::AlreadyPending)),
        Status::Success | Status::Failed => {}
    }
    refuse_in_flight(before)?;
    refuse_paused(before)?;
    refuse_terminal(before, policy, now)
}

fn backfill(after: &mut Partition, now: Timestamp) {
    want(after, Lane::Backfill, now);
    make_pending(after, now);
    if after.control.reprocess.take().is_some() {
        // It was given to the reprocess, which is no more.
        after.control.granted = 0;
    }
}

fn may_mark_terminal(before: &Partition, threshold: u32) -> Result<(), Refused> {
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
    Ok(())
}

/// Only a mark can be cleared. A policy is computed; a retry can grant attempts past it.
fn may_clear_terminal(before: &Partition) -> Result<(), Refused> {
    if before.control.terminal.is_some() { Ok(()) } else { Err(Refused::NoOp(Reason::NotTerminal)) }
}

fn may_revert(before: &Partition, to: &ControlSnapshot, from_version: u64) -> Result<(), Refused> {
    if before.state.version != from_version {
        refuse_in_flight(before)?;
        return Err(Refused::Rule(Reason::ChangedSincePlan));
    }
    // A pause may come and go while an attempt runs; its place in the queue may not.
    let from = before.snapshot();
    if (from.status, from.wanted, from.reprocess) != (to.status, to.wanted, to.reprocess) {
        refuse_in_flight(before)?;
    }
    Ok(())
}

fn revert(after: &mut Partition, to: &ControlSnapshot) {
    after.state.status = to.status;
    after.state.updated_at = to.updated_at;
    after.control.wanted = to.wanted;
    after.control.reprocess = to.request();
    after.control.not_before = to.not_before;
    after.control.rate_limit_waited = to.rate_limit_waited();
    after.control.granted = to.granted;
    after.control.paused = to.paused.clone();
    take_mark_off(after);
    if let Some(mark) = &to.terminal {
        put_mark_on(after, mark.clone());
    }
}

fn data(before: &Partition, event: DataEvent, now: Timestamp, after: &mut Partition) -> Result<(), Refused> {
    match event {
        DataEvent::Claimed(attempt) => {
            may_claim(before, now)?;
            after.control.active = Some(attempt);
        }
        DataEvent::Released(attempt) => {
            refuse_stale(before, attempt)?;
            after.control.active = None;
        }
        DataEvent::RateLimited { attempt, until } => {
            refuse_stale(before, attempt)?;
            let waited = before.control.rate_limit_waited.saturating_add(until.since(now));
            after.control.active = None;
            after.control.not_before = Some(until);
            after.control.rate_limit_waited = waited;
        }
        DataEvent::Judged(attempt, judgement) => {
            refuse_stale(before, attempt)?;
            count_verdict(after, now);
            match judgement {
                Judgement::Accepted { records } => accept(after, attempt, records),
                Judgement::Rejected { class, message, not_before } => {
                    reject(before, after, class, &message, not_before);
                }
            }
        }
    }
    Ok(())
}

fn may_claim(before: &Partition, now: Timestamp) -> Result<(), Refused> {
    refuse_in_flight(before)?;
    refuse_paused(before)?;
    if before.control.wanted.is_some() && before.control.not_before.is_some_and(|until| until > now) {
        return Err(Refused::NoOp(Reason::NotDue));
    }
    let open = match before.state.status {
        Status::Pending => true,
        Status::Success => before.control.reprocess.is_some(),
        Status::Failed => false,
    };
    if open && before.control.wanted.is_some() { Ok(()) } else { Err(Refused::NoOp(Reason::NotQueued)) }
}

/// Every verdict is one more attempt, and answers the request that led to it.
fn count_verdict(after: &mut Partition, now: Timestamp) {
    after.state.attempt_count = after.state.attempt_count.saturating_add(1);
    after.state.updated_at = now;
    after.control.active = None;
    after.control.wanted = None;
    after.control.reprocess = None;
    after.control.not_before = None;
    after.control.rate_limit_waited = Duration::ZERO;
}

fn accept(after: &mut Partition, attempt: InFlight, records: u64) {
    after.state.status = Status::Success;
    after.state.current_run_id = Some(attempt.run_id);
    after.state.record_count = Some(records);
    after.state.error_class = None;
    after.state.error_message = None;
    after.control.granted = 0;
}

fn reject(before: &Partition, after: &mut Partition, class: ErrorClass, message: &str, not_before: Option<Timestamp>) {
    match before.state.status {
        // The earlier success stays whole; the run's own history says what went wrong.
        Status::Success => {
            after.control.reprocess = still_asked_for(before.control.reprocess, class);
            after.control.not_before = after.control.reprocess.and(not_before);
            after.control.granted = after.control.reprocess.map_or(0, |_| before.control.granted);
        }
        Status::Pending | Status::Failed => {
            after.state.status = Status::Failed;
            after.state.error_class = Some(class);
            after.state.error_message = Some(clean_message(message));
            after.control.not_before = not_before;
        }
    }
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
    partition.control.rate_limit_waited = Duration::ZERO;
}

fn make_pending(partition: &mut Partition, now: Timestamp) {
    partition.state.status = Status::Pending;
    partition.state.updated_at = now;
}

fn put_mark_on(partition: &mut Partition, mark: Mark) {
    partition.control.terminal = Some(mark);
    partition.state.error_message = Some(with_terminal_mark(partition.state.error_message.as_deref()));
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

fn refuse_terminal(partition: &Partition, policy: &RetryPolicy, now: Timestamp) -> Result<(), Refused> {
    match terminal(partition, policy, now) {
        Some(_) => Err(Refused::Rule(Reason::Terminal)),
        None => Ok(()),
    }
}

fn refuse_stale(partition: &Partition, attempt: InFlight) -> Result<(), Refused> {
    if partition.control.active == Some(attempt) { Ok(()) } else { Err(Refused::Rule(Reason::StaleFence)) }
}
