//! What happens next to a partition, and when: the one answer that the daemon acts on and that `explain` shows.

use std::time::Duration;

use crate::failure::ErrorClass;
use crate::hold::{Cause, Hold, Probing, Trip};
use crate::id::RunId;
use crate::lane::Lane;
use crate::partition::{Mark, Partition, Status, Terminal, Wanted, terminal};
use crate::retry::{self, Decision, Failure, RetryPolicy, StopReason};
use crate::time::Timestamp;

/// Why a partition is not running now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// Its data is there, and no operator asked for it again.
    Done,
    InFlight {
        run_id: RunId,
    },
    /// A worker will take it when it has room.
    Queued {
        lane: Lane,
        since: Timestamp,
    },
    /// Its source, its customer or its query is held for longer than it would wait otherwise.
    Held(Hold),
    Paused(Mark),
    Marked(Mark),
    /// The policy allows no further attempt.
    Exhausted(StopReason),
    /// Trying again gives the same answer; a person decides.
    FinalError,
    /// Backoff, or the source's own hint, holds it until then.
    Waiting {
        until: Timestamp,
        delay: Duration,
        hinted: bool,
    },
    /// Its wait would end at `until`, and the policy stops before that, at `limit`.
    TooOldByThen {
        until: Timestamp,
        limit: Timestamp,
    },
    /// The next tick of the daemon makes it wanted.
    Due {
        since: Timestamp,
        delay: Duration,
    },
    /// Pending, but in no queue: withdrawn by an undo.
    NotQueued,
}

impl Outlook {
    /// The word for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::InFlight { .. } => "in_flight",
            Self::Queued { .. } => "queued",
            Self::Held(hold) => match hold.cause {
                Cause::Cooldown => "cooling_down",
                Cause::Operator => "held",
                Cause::Breaker(Probing { trip: Trip::Unusable, .. }) => "source_unusable",
                Cause::Breaker(Probing { trip: Trip::Finals | Trip::Group(_), .. }) => "breaker_open",
            },
            Self::Paused(_) => "paused",
            Self::Marked(_) | Self::Exhausted(_) => "terminal",
            Self::FinalError => "final_error",
            Self::TooOldByThen { .. } => "too_old",
            Self::Waiting { .. } => "waiting",
            Self::Due { .. } => "due",
            Self::NotQueued => "not_queued",
        }
    }

    /// The run that is under way.
    pub fn run_id(&self) -> Option<RunId> {
        if let Self::InFlight { run_id } = self { Some(*run_id) } else { None }
    }

    /// When automation will try it again, if it will and the moment is known.
    pub fn next_retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::Waiting { until, .. } => Some(*until),
            Self::Held(hold) => hold.until,
            Self::Due { since, .. } => Some(*since),
            Self::Done
            | Self::InFlight { .. }
            | Self::Queued { .. }
            | Self::Paused(_)
            | Self::Marked(_)
            | Self::Exhausted(_)
            | Self::FinalError
            | Self::TooOldByThen { .. }
            | Self::NotQueued => None,
        }
    }
}

/// Looks ahead for one partition. Of the holds that cover it, `hold` is the one to show.
pub fn of(partition: &Partition, policy: &RetryPolicy, hold: Option<&Hold>, now: Timestamp) -> Outlook {
    let (state, control) = (&partition.state, &partition.control);
    if let Some(active) = control.active {
        return Outlook::InFlight { run_id: active.run_id };
    }
    if let Some(mark) = &control.paused {
        return Outlook::Paused(mark.clone());
    }
    let hold = hold.filter(|hold| hold.is_in_force(now));
    match (state.status, control.wanted) {
        (Status::Failed, _) => failed(partition, policy, hold, now),
        (Status::Pending | Status::Success, Some(wanted)) => queued(wanted, control.not_before, hold, now),
        (Status::Pending, None) => Outlook::NotQueued,
        (Status::Success, None) => match control.reprocess {
            Some(_) => reprocess(partition, policy, hold, now),
            None => Outlook::Done,
        },
    }
}

/// A rate limit may have sent it back to the queue until a later moment.
fn queued(wanted: Wanted, not_before: Option<Timestamp>, hold: Option<&Hold>, now: Timestamp) -> Outlook {
    let until = not_before.filter(|&until| until > now);
    match hold.filter(|hold| hold.is_in_force(until.unwrap_or(now))) {
        Some(hold) => Outlook::Held(hold.clone()),
        None => match until {
            Some(until) => Outlook::Waiting { until, delay: until.since(now), hinted: true },
            None => Outlook::Queued { lane: wanted.lane, since: wanted.queued_at },
        },
    }
}

fn failed(partition: &Partition, policy: &RetryPolicy, hold: Option<&Hold>, now: Timestamp) -> Outlook {
    match terminal(partition, policy, now) {
        Some(Terminal::Marked(mark)) => return Outlook::Marked(mark.clone()),
        Some(Terminal::ByPolicy(stop)) => return Outlook::Exhausted(stop),
        None => {}
    }
    let state = &partition.state;
    let class = state.error_class.unwrap_or(ErrorClass::Retryable);
    let rejection = Rejection { class, attempt: partition.spent(), age: now.since(state.created_at) };
    let next = match after(partition, rejection, policy, hold, now) {
        Ok(outlook) => outlook,
        Err(StopReason::FinalError) => return Outlook::FinalError,
        Err(stop @ (StopReason::AttemptsExhausted | StopReason::TooOld)) => return Outlook::Exhausted(stop),
    };
    match (next.next_retry_at(), policy.max_age.map(|age| state.created_at.saturating_add(age))) {
        (Some(until), Some(limit)) if until >= limit => Outlook::TooOldByThen { until, limit },
        _ => next,
    }
}

/// A rejected reprocess is tried again as a failure is, with its own count of attempts; the success may be of any age.
/// When they are used up, the success is what there is.
fn reprocess(partition: &Partition, policy: &RetryPolicy, hold: Option<&Hold>, now: Timestamp) -> Outlook {
    let rejection = Rejection { class: ErrorClass::Retryable, attempt: partition.spent(), age: Duration::ZERO };
    after(partition, rejection, policy, hold, now).unwrap_or(Outlook::Done)
}

struct Rejection {
    class: ErrorClass,
    attempt: u32,
    age: Duration,
}

fn after(
    partition: &Partition,
    Rejection { class, attempt, age }: Rejection,
    policy: &RetryPolicy,
    hold: Option<&Hold>,
    now: Timestamp,
) -> Result<Outlook, StopReason> {
    let state = &partition.state;
    let hint = partition.control.not_before;
    let retry_after = hint.map(|until| until.since(state.updated_at));
    let (rate_limit_waited, seed) = (Duration::ZERO, retry::seed(&state.key));
    let failure = Failure { at: state.updated_at, class, retry_after, attempt, rate_limit_waited, age, seed };
    let when = match retry::next(&failure, policy) {
        Decision::Stop(stop) => return Err(stop),
        Decision::At { when, .. } => when,
    };
    // A hint binds whatever the class of the error that came with it.
    let until = hint.map_or(when, |hint| hint.max(when));
    let delay = until.since(state.updated_at);
    Ok(match hold.filter(|hold| hold.is_in_force(until)) {
        Some(hold) => Outlook::Held(hold.clone()),
        None if until > now => Outlook::Waiting { until, delay, hinted: hint == Some(until) },
        None => Outlook::Due { since: until, delay },
    })
}

/// The latest moment at which a failure that has spent this many attempts can have been decided and be due now. Everything later
/// need not be looked at; what is earlier is looked at one by one.
pub fn reach(attempt: u32, policy: &RetryPolicy, now: Timestamp) -> Timestamp {
    now.saturating_sub(policy.delay(attempt).saturating_sub(policy.jitter))
}

/// The latest moment at which a failure that has spent this many attempts can have been decided and be due now whatever its
/// jitter.
pub fn surely_due(attempt: u32, policy: &RetryPolicy, now: Timestamp) -> Timestamp {
    now.saturating_sub(policy.delay(attempt).saturating_add(policy.jitter))
}

/// The moment before which a partition was created too long ago to be retried.
pub fn age_limit(policy: &RetryPolicy, now: Timestamp) -> Timestamp {
    policy.max_age.map_or(Timestamp::MIN, |limit| now.saturating_sub(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::HoldScope;
    use crate::id::{HoldId, TaskId};
    use crate::key::PartitionKey;
    use crate::partition::{ControlEvent, DataEvent, Event, InFlight, Judgement, apply};
    use proptest::prelude::*;
    use uuid::Uuid;

    const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    fn wanted() -> Partition {
        Partition::new(PartitionKey::new("ads", "1", "q", "2026-01-01").unwrap(), Lane::Fresh, START)
    }

    fn failed_with(class: ErrorClass, not_before: Option<Timestamp>) -> Partition {
        let attempt = InFlight { run_id: RunId::from_uuid(Uuid::nil()), task_id: TaskId::from_uuid(Uuid::nil()) };
        let claimed = apply(&wanted(), Event::Data(DataEvent::Claimed(attempt)), START).unwrap().after;
        let judgement = Judgement::Rejected { class, message: "boom".to_owned(), not_before };
        apply(&claimed, Event::Data(DataEvent::Judged(attempt, judgement)), START).unwrap().after
    }

    fn held(until: Option<Timestamp>, cause: Cause) -> Hold {
        let scope = HoldScope::Source("ads".parse().unwrap());
        let id = HoldId::from_uuid(Uuid::nil());
        Hold { id, scope, cause, since: START, until, by: "ads".to_owned(), why: None }
    }

    fn cooling(until: Timestamp) -> Hold {
        held(Some(until), Cause::Cooldown)
    }

    fn in_minutes(minutes: u64) -> Timestamp {
        START.saturating_add(Duration::from_secs(60 * minutes))
    }

    #[test]
    fn a_failure_waits_for_its_backoff_and_is_then_due() {
        let (policy, failed) = (RetryPolicy::partitions(), failed_with(ErrorClass::Retryable, None));
        assert!(matches!(of(&failed, &policy, None, in_minutes(4)), Outlook::Waiting { hinted: false, .. }));
        assert!(matches!(of(&failed, &policy, None, in_minutes(6)), Outlook::Due { .. }));
        assert_eq!(of(&failed, &policy, Some(&cooling(in_minutes(9))), in_minutes(6)).code(), "cooling_down");
        assert_eq!(of(&failed, &policy, Some(&cooling(in_minutes(5))), in_minutes(6)).code(), "due");
    }

    #[test]
    fn a_hint_holds_longer_than_backoff_and_a_final_error_for_ever() {
        let policy = RetryPolicy::partitions();
        let hinted = failed_with(ErrorClass::RateLimited, Some(in_minutes(60)));
        let outlook = of(&hinted, &policy, None, in_minutes(59));
        assert_eq!(outlook.next_retry_at(), Some(in_minutes(60)));
        assert!(matches!(outlook, Outlook::Waiting { hinted: true, .. }));
        assert_eq!(of(&hinted, &policy, None, in_minutes(60)).code(), "due");
        let hopeless = failed_with(ErrorClass::Final, None);
        assert_eq!(of(&hopeless, &policy, None, in_minutes(1_000)), Outlook::FinalError);
    }

    #[test]
    fn what_ends_last_is_what_is_waited_for() {
        let (policy, failed) = (RetryPolicy::partitions(), failed_with(ErrorClass::Retryable, None));
        let outlook = of(&failed, &policy, Some(&cooling(in_minutes(60))), in_minutes(1));
        assert_eq!(outlook, Outlook::Held(cooling(in_minutes(60))), "longer than backoff");
        assert_eq!(outlook.next_retry_at(), Some(in_minutes(60)));
        assert_eq!(
            of(&failed, &policy, Some(&cooling(in_minutes(2))), in_minutes(1)).code(),
            "waiting",
            "shorter than backoff"
        );
        let queued = of(&wanted(), &policy, Some(&cooling(in_minutes(60))), in_minutes(1));
        assert_eq!(queued.next_retry_at(), Some(in_minutes(60)));
    }

    #[test]
    fn an_open_hold_says_who_withholds_and_promises_nothing() {
        let (policy, failed) = (RetryPolicy::partitions(), failed_with(ErrorClass::Retryable, None));
        let open = |cause| held(None, cause);
        let breaker =
            |trip| Cause::Breaker(Probing { trip, at: in_minutes(5), every: Duration::from_secs(300), canary: None });
        for (hold, code) in [
            (open(Cause::Operator), "held"),
            (open(breaker(Trip::Finals)), "breaker_open"),
            (open(breaker(Trip::Unusable)), "source_unusable"),
        ] {
            for partition in [&wanted(), &failed] {
                let outlook = of(partition, &policy, Some(&hold), in_minutes(6));
                assert_eq!((outlook.code(), outlook.next_retry_at()), (code, None));
            }
        }
    }

    #[test]
    fn nothing_is_promised_that_the_policy_will_not_allow() {
        let policy = RetryPolicy { max_age: Some(Duration::from_secs(120)), ..RetryPolicy::partitions() };
        let failed = failed_with(ErrorClass::Retryable, None);
        let outlook = of(&failed, &policy, None, in_minutes(1));
        assert!(matches!(outlook, Outlook::TooOldByThen { limit, .. } if limit == in_minutes(2)), "{outlook:?}");
        assert_eq!(outlook.next_retry_at(), None);
        assert_eq!(of(&failed, &policy, None, in_minutes(2)), Outlook::Exhausted(StopReason::TooOld));
        let cooling = of(&failed, &RetryPolicy::partitions(), Some(&cooling(Timestamp::MAX)), in_minutes(1));
        assert_eq!(cooling.code(), "too_old", "a cooldown beyond the policy's thirty days");
    }

    #[test]
    fn a_partition_that_is_withheld_says_so_first() {
        let policy = RetryPolicy::partitions();
        let now = in_minutes(10);
        let paused = |partition: &Partition| {
            apply(partition, Event::Control(ControlEvent::Pause { by: "ada", why: None }), now).unwrap().after
        };
        assert_eq!(of(&paused(&wanted()), &policy, Some(&cooling(in_minutes(99))), now).code(), "paused");
        assert_eq!(of(&wanted(), &policy, Some(&cooling(in_minutes(99))), now).code(), "cooling_down");
        assert_eq!(of(&wanted(), &policy, None, now).code(), "queued");
        let once = RetryPolicy { max_attempts: Some(1), ..RetryPolicy::partitions() };
        let failed = failed_with(ErrorClass::Retryable, None);
        assert_eq!(of(&failed, &once, None, now), Outlook::Exhausted(StopReason::AttemptsExhausted));
        let mark = ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 };
        let marked = apply(&failed, Event::Control(mark), now).unwrap().after;
        assert_eq!(of(&marked, &policy, None, now).code(), "terminal");
        assert_eq!(of(&paused(&failed), &policy, None, now).code(), "paused");
    }

    proptest! {
        #[test]
        fn nothing_that_is_due_lies_beyond_the_reach(
            attempt in 1u32..40, minutes in 0u64..2_000, jitter in 0u64..400, age in 0u64..100_000,
        ) {
            let policy = RetryPolicy { jitter: Duration::from_secs(jitter), max_attempts: None, ..RetryPolicy::partitions() };
            let mut partition = failed_with(ErrorClass::Retryable, None);
            partition.state.attempt_count = attempt;
            partition.state.created_at = START.saturating_sub(Duration::from_secs(60 * age));
            let now = in_minutes(minutes);
            if matches!(of(&partition, &policy, None, now), Outlook::Due { .. }) {
                prop_assert!(partition.state.updated_at <= reach(attempt, &policy, now));
                prop_assert!(partition.state.created_at > age_limit(&policy, now));
            }
        }
    }
}
