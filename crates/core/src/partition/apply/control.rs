//! What the control plane may ask of a partition: for each request when it is refused, and what it changes.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{refuse_in_flight, refuse_paused};
use crate::failure::{clean_message, with_terminal_mark, without_terminal_mark};
use crate::lane::Lane;
use crate::partition::event::ControlEvent;
use crate::partition::state::{ControlSnapshot, Mark, Partition, Reprocess, Status, Wanted, terminal};
use crate::refusal::{Reason, Refused};
use crate::retry::{Grant, RetryPolicy};
use crate::time::Timestamp;

pub(super) fn apply(
    before: &Partition,
    event: ControlEvent<'_>,
    now: Timestamp,
    after: &mut Partition,
) -> Result<(), Refused> {
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

fn refuse_terminal(partition: &Partition, policy: &RetryPolicy, now: Timestamp) -> Result<(), Refused> {
    match terminal(partition, policy, now) {
        Some(_) => Err(Refused::Rule(Reason::Terminal)),
        None => Ok(()),
    }
}
