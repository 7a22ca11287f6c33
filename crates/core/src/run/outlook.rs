//! Why a run is not running now: one word from a closed list.

use std::time::Duration;

use super::apply::seed;
use super::state::{EndedBy, Run, State};
use super::work::Workload;
use crate::failure::ErrorClass;
use crate::retry::{RetryPolicy, StopReason};
use crate::time::Timestamp;
use crate::word::words;

words!(
    RunReason, "reason" {
        /// Its input is still being stored.
        Storing = "storing",
        /// It waits for a worker that has room.
        Queued = "queued",
        /// As many runs of its section are under way as may be.
        AtLimit = "at_limit",
        /// No section of the configuration serves its category.
        UnknownCategory = "unknown_category",
        /// No living worker asks for its like.
        NoWorker = "no_worker",
        InFlight = "in_flight",
        /// Its worker fell silent; the next sweep of any worker ends the try.
        LeaseExpired = "lease_expired",
        /// For a moment that is to come.
        Waiting = "waiting",
        /// That moment has come; the next claim takes it.
        Due = "due",
        Done = "done",
        FinalError = "final_error",
        AttemptsExhausted = "attempts_exhausted",
        TooOld = "too_old",
        Cancelled = "cancelled",
        /// An attempt at a partition, which is over. What becomes of the partition is another question.
        Ended = "ended",
    }
);

/// What has to be known beside a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunContext {
    /// Why its last failed try was the last.
    pub stop: Option<StopReason>,
    /// How long its last failed try has it wait.
    pub delay: Option<Duration>,
    /// Whether a section serves it, as far as the configuration says.
    pub served: bool,
    /// Whether a living worker asks for its like.
    pub has_worker: bool,
    /// How many runs of its section are under way.
    pub in_flight: u64,
    /// How many there may be.
    pub limit: Option<u32>,
}

/// Says whether a run waits because its source asked for it, and not for the policy's backoff: after a rate limit, for another time than
/// the policy's.
pub fn is_hinted(run: &Run, delay: Option<Duration>, policy: &RetryPolicy) -> bool {
    run.error_class == Some(ErrorClass::RateLimited) && (run.retry_count == 0 || delay != Some(backoff(run, policy)))
}

/// The delay that the policy chose after the last try that counted.
pub fn backoff(run: &Run, policy: &RetryPolicy) -> Duration {
    policy.jittered_delay(run.retry_count, seed(run))
}

/// Says why a run is not running now, or that it is.
pub fn reason(run: &Run, around: &RunContext, now: Timestamp) -> RunReason {
    match run.state {
        State::Storing => RunReason::Storing,
        State::Queued => queued(run, around),
        State::Running if run.lease_until.is_some_and(|until| until <= now) => RunReason::LeaseExpired,
        State::Running => RunReason::InFlight,
        State::Waiting if !is_served(run, around) => RunReason::UnknownCategory,
        State::Waiting if run.due_at().is_some_and(|at| at > now) => RunReason::Waiting,
        State::Waiting if !around.has_worker => RunReason::NoWorker,
        State::Waiting => RunReason::Due,
        State::Done => RunReason::Done,
        State::Dead => dead(run, around),
    }
}

fn is_served(run: &Run, around: &RunContext) -> bool {
    match run.workload() {
        Workload::Process => around.served,
        // Every worker can; only jobs have categories.
        Workload::Extract | Workload::Ingest => true,
    }
}

fn queued(run: &Run, around: &RunContext) -> RunReason {
    if !is_served(run, around) {
        RunReason::UnknownCategory
    } else if around.limit.is_some_and(|limit| around.in_flight >= u64::from(limit)) {
        RunReason::AtLimit
    } else if !around.has_worker {
        RunReason::NoWorker
    } else {
        RunReason::Queued
    }
}

fn dead(run: &Run, around: &RunContext) -> RunReason {
    match (run.ended_by, around.stop) {
        (Some(EndedBy::Cancelled), _) => RunReason::Cancelled,
        (_, Some(StopReason::FinalError)) => RunReason::FinalError,
        (_, Some(StopReason::AttemptsExhausted)) => RunReason::AttemptsExhausted,
        (_, Some(StopReason::TooOld)) => RunReason::TooOld,
        (
            Some(EndedBy::Completed | EndedBy::Failed | EndedBy::Abandoned | EndedBy::Released | EndedBy::RateLimited)
            | None,
            None,
        ) => RunReason::Ended,
    }
}
