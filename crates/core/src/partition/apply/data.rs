//! What the data plane reports of a partition: claims, verdicts, and what was given back.

use std::time::Duration;

use super::{refuse_in_flight, refuse_paused};
use crate::failure::{ErrorClass, clean_message};
use crate::partition::event::{DataEvent, Judgement};
use crate::partition::state::{InFlight, Partition, Reprocess, Status};
use crate::refusal::{Reason, Refused};
use crate::time::Timestamp;

pub(super) fn apply(
    before: &Partition,
    event: DataEvent,
    now: Timestamp,
    after: &mut Partition,
) -> Result<(), Refused> {
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

fn refuse_stale(partition: &Partition, attempt: InFlight) -> Result<(), Refused> {
    if partition.control.active == Some(attempt) { Ok(()) } else { Err(Refused::Rule(Reason::StaleFence)) }
}
