//! What a run's change adds to the counters of its process, once it is committed: the same for a worker's word, an outside worker's
//! report, a sweep and a person's cancel.

use std::sync::Arc;

use redrive_core::partition::{self, Status};
use redrive_core::retry::{RetryPolicy, StopReason};
use redrive_core::run::{Change, EndedBy, Incident, Run, State, Verdict, Work, Workload};
use redrive_core::time::Timestamp;
use redrive_metrics::{AttemptEnded, Event, Outcome, Queue};

/// What ended a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndOfClaim {
    /// Its worker's word, or a person's.
    Word,
    /// The end of its lease.
    Expiry,
}

/// Names what attempts are counted under. Most of those that end together have the same name, which is then made once.
#[derive(Debug, Default)]
pub(super) struct Sources(Option<Arc<str>>);

impl Sources {
    /// Never a customer, a key or an upload.
    fn of(&mut self, work: &Work) -> Arc<str> {
        let name = match work {
            Work::Extract(key) => key.source.as_str(),
            Work::Ingest { .. } => "",
            Work::Process { category, .. } => category,
        };
        match &self.0 {
            Some(last) if **last == *name => Arc::clone(last),
            Some(_) | None => Arc::clone(self.0.insert(name.into())),
        }
    }
}

/// Gives to `count` what there is to count when a change is committed: nothing where no attempt ends by it.
pub(super) fn of_change(
    change: &Change,
    by: EndOfClaim,
    now: Timestamp,
    sources: &mut Sources,
    mut count: impl FnMut(Event),
) {
    let run = &change.after;
    if change.expect_state != State::Running || run.state == State::Running {
        return;
    }
    match change.incident {
        // Nothing was tried.
        Some(Incident::DeliveryLost) => return count(Event::DeliveryLost),
        Some(Incident::Late) | None => {}
    }
    let workload = run.workload();
    count(Event::AttemptEnded(attempt(change, by, now, sources)));
    if by == EndOfClaim::Expiry {
        count(Event::LeaseLost { workload });
    }
    let Some(failure) = &change.failure else { return };
    if let Some(delay) = failure.delay {
        count(Event::RetryIn { workload, delay });
    }
    match failure.stop {
        Some(StopReason::AttemptsExhausted | StopReason::TooOld) => count(Event::RetriesExhausted { workload }),
        Some(StopReason::FinalError) | None => {}
    }
}

fn attempt(change: &Change, by: EndOfClaim, now: Timestamp, sources: &mut Sources) -> AttemptEnded {
    let (run, outcome) = (&change.after, outcome(change, by));
    let took = match outcome {
        Outcome::Released => None,
        Outcome::Success
        | Outcome::NeedsReview
        | Outcome::Failed
        | Outcome::Abandoned
        | Outcome::RateLimited
        | Outcome::Cancelled => run.started_at.map(|started| now.since(started)),
    };
    let class = change.failure.as_ref().map(|failure| failure.class);
    AttemptEnded { workload: run.workload(), source: sources.of(&run.work), outcome, class, took }
}

fn outcome(change: &Change, by: EndOfClaim) -> Outcome {
    if change.failure.is_some() {
        return match by {
            EndOfClaim::Word => Outcome::Failed,
            EndOfClaim::Expiry => Outcome::Abandoned,
        };
    }
    match (change.after.ended_by, change.after.verdict) {
        (Some(EndedBy::Completed), Some(Verdict::NeedsReview)) => Outcome::NeedsReview,
        (Some(EndedBy::Completed), Some(Verdict::Failed)) => Outcome::Failed,
        (Some(EndedBy::Completed), Some(Verdict::Passed) | None) => Outcome::Success,
        (Some(EndedBy::Failed), _) => Outcome::Failed,
        (Some(EndedBy::Abandoned), _) => Outcome::Abandoned,
        (Some(EndedBy::RateLimited), _) => Outcome::RateLimited,
        (Some(EndedBy::Cancelled), _) => Outcome::Cancelled,
        // A job that was given back is in the queue again and has not ended.
        (Some(EndedBy::Released) | None, _) => Outcome::Released,
    }
}

/// What there is to count when a run is claimed. A retry's place in the queue does not tell since when it has been due.
pub(super) fn of_claim(run: &Run, now: Timestamp) -> Option<Event> {
    let since = run.not_before.map_or(run.submitted_at, |at| at.max(run.submitted_at));
    let taken = Event::Taken { queue: Queue::Runs(run.workload()), waited: now.since(since) };
    (run.attempt == 1).then_some(taken)
}

/// What there is to count when an abandoned attempt fails its partition: whether that was the last which the policy allows.
pub(super) fn of_abandoned(change: &partition::Change, policy: &RetryPolicy) -> Option<Event> {
    let is_last = change.after.state.status == Status::Failed && policy.attempt_limit() == Some(change.after.spent());
    is_last.then_some(Event::RetriesExhausted { workload: Workload::Extract })
}
