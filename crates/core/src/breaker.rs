//! The breaker: when failure follows failure alike, the scope is held, and one attempt at a time finds out whether it is
//! well again. So an expired token costs a few partitions, and not a backlog.
//!
//! [`Streak`] is all that the rule needs of the verdicts before: how many in a row were final, and how many in a row had one
//! cause.

use std::time::Duration;

use crate::failure::ErrorClass;
use crate::fingerprint::GroupId;
use crate::hold::{Probing, Trip};
use crate::time::Timestamp;

/// The longest wait for the next canary.
const LONGEST: Duration = Duration::from_secs(3600);
/// How often a source that cannot be used is looked at again.
const UNUSABLE: Duration = Duration::from_secs(60);

/// `[sources.<name>.breaker]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// So many verdicts alike, one after another, trip it; 0 turns it off.
    pub after: u32,
    /// How long the wait for the first canary is.
    pub probe: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { after: 20, probe: Duration::from_secs(300) }
    }
}

impl BreakerPolicy {
    pub const OFF: Self = Self { after: 0, probe: Duration::from_secs(300) };

    /// From how many failures in a row on attempts are started only as far as the streak could still do without them.
    pub fn careful_from(&self) -> Option<u32> {
        (self.after > 0).then(|| (self.after / 4).max(1))
    }

    /// How many attempts of a scope may be under way after this streak. No limit while failures are few; then no more than
    /// could still complete the streak, so that none fails beyond it; and always one.
    pub fn at_most(&self, streak: &Streak) -> Option<u32> {
        let careful = self.careful_from().is_some_and(|from| streak.length() >= from);
        careful.then(|| self.after.saturating_sub(streak.length()).max(1))
    }
}

/// A verdict, as the breaker looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreakVerdict {
    Accepted,
    Rejected {
        class: ErrorClass,
        group: GroupId,
    },
    /// The worker fell silent. Many attempts end so when one machine fails, which tells nothing of their sources.
    Abandoned,
}

/// What the last verdicts of a scope have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streak {
    /// So many in a row were final.
    pub finals: u32,
    /// So many in a row had this cause.
    pub alike: Option<(GroupId, u32)>,
}

impl Streak {
    /// The streak after one more verdict.
    pub fn after(self, answer: StreakVerdict) -> Self {
        let (class, group) = match answer {
            StreakVerdict::Accepted => return Self::default(),
            StreakVerdict::Abandoned => return self,
            StreakVerdict::Rejected { class, group } => (class, group),
        };
        let finals = match class {
            ErrorClass::Final => self.finals.saturating_add(1),
            ErrorClass::Retryable | ErrorClass::RateLimited => 0,
        };
        let before = self.alike.filter(|(last, _)| *last == group).map_or(0, |(_, count)| count);
        Self { finals, alike: Some((group, before.saturating_add(1))) }
    }

    pub fn length(&self) -> u32 {
        self.finals.max(self.alike.map_or(0, |(_, count)| count))
    }

    /// Whether it trips the breaker, and by what. One cause says more than finality.
    pub fn trips(&self, policy: &BreakerPolicy) -> Option<Trip> {
        if policy.after == 0 {
            return None;
        }
        match self.alike {
            Some((group, count)) if count >= policy.after => Some(Trip::Group(group)),
            _ if self.finals >= policy.after => Some(Trip::Finals),
            _ => None,
        }
    }
}

impl Probing {
    /// A breaker that trips now.
    pub fn tripped(trip: Trip, policy: &BreakerPolicy, now: Timestamp) -> Self {
        Self { trip, at: now.saturating_add(policy.probe), every: policy.probe, canary: None }
    }

    /// A source that cannot be used was asked in vain now.
    pub fn unusable(now: Timestamp) -> Self {
        Self { trip: Trip::Unusable, at: now.saturating_add(UNUSABLE), every: UNUSABLE, canary: None }
    }

    /// What becomes of a hold whose canary has a verdict: none where it is lifted. Any answer shows that a source can be
    /// used; a breaker that failures tripped is lifted by a success, and waits twice as long after another failure. A canary whose worker
    /// fell silent may have killed it, so that the next one waits, too.
    pub fn after_canary(&self, answer: StreakVerdict, now: Timestamp) -> Option<Self> {
        let twice = self.every.saturating_mul(2).min(LONGEST.max(self.every));
        let every = match (self.trip, answer) {
            (Trip::Unusable, StreakVerdict::Accepted | StreakVerdict::Rejected { .. })
            | (Trip::Finals | Trip::Group(_), StreakVerdict::Accepted) => return None,
            (Trip::Unusable, StreakVerdict::Abandoned) => self.every,
            (Trip::Finals | Trip::Group(_), StreakVerdict::Rejected { .. } | StreakVerdict::Abandoned) => twice,
        };
        Some(Self { at: now.saturating_add(every), every, canary: None, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use uuid::Uuid;

    use super::*;
    use crate::fingerprint::fingerprint;
    use crate::id::RunId;

    fn answer() -> impl Strategy<Value = StreakVerdict> {
        let class = prop::sample::select(vec![ErrorClass::Final, ErrorClass::Retryable]);
        let rejected = (class, prop::sample::select(vec!["token expired", "no such table", "teapot"]));
        prop_oneof![
            1 => Just(StreakVerdict::Accepted),
            1 => Just(StreakVerdict::Abandoned),
            6 => rejected.prop_map(|(class, message)| {
                StreakVerdict::Rejected { class, group: fingerprint(class, None, message, &[]).group }
            }),
        ]
    }

    /// The rule as users read it: the last `after` answers are all final, or all of one group, and none of them a success.
    fn expected(answers: &[StreakVerdict], after: usize) -> bool {
        let answers: Vec<_> = answers.iter().copied().filter(|answer| *answer != StreakVerdict::Abandoned).collect();
        let Some(from) = answers.len().checked_sub(after).filter(|_| after > 0) else { return false };
        let last = &answers[from..];
        let all_final =
            last.iter().all(|answer| matches!(answer, StreakVerdict::Rejected { class: ErrorClass::Final, .. }));
        let group = |answer: &StreakVerdict| match answer {
            StreakVerdict::Accepted | StreakVerdict::Abandoned => None,
            StreakVerdict::Rejected { group, .. } => Some(*group),
        };
        all_final || last.iter().all(|answer| group(answer).is_some() && group(answer) == group(&last[0]))
    }

    proptest! {
        #[test]
        fn a_streak_trips_exactly_where_the_last_verdicts_do(
            answers in prop::collection::vec(answer(), 0..40), after in 0u32..6,
        ) {
            let policy = BreakerPolicy { after, ..BreakerPolicy::default() };
            let mut streak = Streak::default();
            for until in 0..answers.len() {
                streak = streak.after(answers[until]);
                let expected = expected(&answers[..=until], after as usize);
                prop_assert_eq!(streak.trips(&policy).is_some(), expected, "{:?}", &answers[..=until]);
            }
        }

        /// However the verdicts of those under way come in, no more than `after` fail alike, unless so many were under way
        /// before the first failed.
        #[test]
        fn no_more_fail_than_the_streak_needs(after in 1u32..40, room in 1u32..64, order in prop::collection::vec(1u32..9, 1..80)) {
            let policy = BreakerPolicy { after, ..BreakerPolicy::default() };
            let failure = StreakVerdict::Rejected { class: ErrorClass::Final, group: fingerprint(ErrorClass::Final, None, "x", &[]).group };
            let (mut streak, mut under_way, mut failed) = (Streak::default(), 0u32, 0u32);
            for ends in order {
                if streak.trips(&policy).is_some() {
                    break;
                }
                under_way = under_way.max(policy.at_most(&streak).map_or(room, |limit| limit.min(room)));
                for _ in 0..ends.min(under_way) {
                    (under_way, failed, streak) = (under_way - 1, failed + 1, streak.after(failure));
                }
            }
            failed += under_way;
            prop_assert!(failed <= after.max(room + after / 4), "{failed} of {after} with room for {room}");
        }
    }

    fn rejected() -> StreakVerdict {
        StreakVerdict::Rejected { class: ErrorClass::Final, group: GroupId::from_number(7).unwrap() }
    }

    #[test]
    fn a_canary_lifts_it_or_doubles_the_wait_up_to_an_hour() {
        let now = Timestamp::from_micros(0);
        let mut probing = Probing::tripped(Trip::Finals, &BreakerPolicy::default(), now);
        assert_eq!(probing.at, now.saturating_add(Duration::from_secs(300)));
        let mut waits = Vec::new();
        for _ in 0..5 {
            probing = probing.after_canary(rejected(), now).unwrap();
            waits.push(probing.every.as_secs() / 60);
        }
        assert_eq!(waits, [10, 20, 40, 60, 60]);
        assert_eq!(probing.after_canary(StreakVerdict::Accepted, now), None);
        let unusable = Probing::unusable(now);
        assert_eq!(unusable.after_canary(rejected(), now), None, "it can be used again, whatever it answers");
    }

    /// It may be what kills its workers: the next one does not go ahead at once.
    #[test]
    fn a_canary_that_was_abandoned_has_the_next_one_wait() {
        let now = Timestamp::from_micros(0);
        let tripped = Probing {
            canary: Some(RunId::from_uuid(Uuid::from_u128(1))),
            ..Probing::tripped(Trip::Finals, &BreakerPolicy::default(), now)
        };
        let next = tripped.after_canary(StreakVerdict::Abandoned, now).unwrap();
        assert_eq!((next.at, next.canary), (now.saturating_add(Duration::from_secs(600)), None));
        let next = Probing::unusable(now).after_canary(StreakVerdict::Abandoned, now).unwrap();
        assert_eq!((next.at, next.every), (now.saturating_add(UNUSABLE), UNUSABLE), "nothing was learned of it");
    }
}
