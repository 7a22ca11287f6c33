//! Whose time leases are measured in: a clock that nobody sets, and an offset that makes it show the database's time.
//!
//! A steady clock counts microseconds from a beginning that means nothing. What is here decides which offset it gets, and
//! when the offset may move. [`follow`] is for a database server with a clock of its own; [`settle`] is for a file whose
//! processes all run on one host.

use std::time::Duration;

use crate::time::{Timestamp, whole_micros};

/// A reading of a clock that nobody sets, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Steady(i64);

impl Steady {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// What the clock shows when its offset is added.
    pub fn at(self, ahead: i64) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_add(ahead))
    }

    /// The offset with which the clock would show `wall` now.
    pub fn behind(self, wall: Timestamp) -> i64 {
        wall.micros().saturating_sub(self.0)
    }

    fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }

    /// How long ago another reading was taken.
    pub fn elapsed_since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.since(earlier)).unwrap_or(0))
    }

    /// The reading so long before this one.
    #[must_use]
    pub fn earlier_by(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(whole_micros(span)))
    }
}

/// How far two clocks drift apart, in millionths: each may be slewed by 500 while its own time is corrected.
const DRIFT: i64 = 1_000;

/// A server's answer to the question what time it is, between two readings of this host's steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub asked: Steady,
    pub server: Timestamp,
    pub answered: Steady,
}

/// How far a server's clock is ahead of this host's steady one, and how wrong that can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    ahead: i64,
    error: i64,
    at: Steady,
}

/// What a sample did to the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// It agrees with what was known, and made it no less exact.
    Agreed,
    /// The server's clock was set: no error of measurement explains the difference, in microseconds.
    Jumped { by: i64 },
}

impl Offset {
    /// What one sample says. The server read its clock somewhere between the two readings here.
    pub fn of(sample: Sample) -> Self {
        let Sample { asked, server, answered } = sample;
        let (spread, middle) = (answered.since(asked), asked.0.midpoint(answered.0));
        // One more for what was rounded away.
        Self { ahead: Steady(middle).behind(server), error: spread / 2 + 1, at: answered }
    }

    pub fn ahead(self) -> i64 {
        self.ahead
    }

    /// How wrong the offset can be at most, as of the last sample that was taken into it.
    pub fn error(self) -> Duration {
        Duration::from_micros(u64::try_from(self.error).unwrap_or(0))
    }

    /// The same offset later: the clocks may have drifted.
    fn aged(self, now: Steady) -> Self {
        let drift = self.at.max(now).since(self.at) / (1_000_000 / DRIFT);
        Self { error: self.error.saturating_add(drift), at: self.at.max(now), ..self }
    }

    /// What both say, where they can both be right.
    fn and(self, other: Self) -> Option<Self> {
        let first = self.ahead.saturating_sub(self.error).max(other.ahead.saturating_sub(other.error));
        let last = self.ahead.saturating_add(self.error).min(other.ahead.saturating_add(other.error));
        let error = last.saturating_sub(first) / 2 + 1;
        (first <= last).then(|| Self { ahead: first.midpoint(last), error, at: self.at.max(other.at) })
    }
}

/// Takes a sample into what is known of a server's clock. Both are ranges in which the true offset lies: where they
/// overlap, it lies in both. Where they do not, the server's clock was set, and only the sample counts. What this host's
/// own wall clock shows does not matter.
pub fn follow(known: Offset, sample: Sample) -> (Offset, Followed) {
    let (known, seen) = (known.aged(sample.answered), Offset::of(sample));
    match known.and(seen) {
        Some(both) => (both, Followed::Agreed),
        None => (seen, Followed::Jumped { by: seen.ahead.saturating_sub(known.ahead) }),
    }
}

/// For how long after a server's clock was set some process may still go by the old time: it samples every 15 s.
pub const UNNOTICED: Duration = Duration::from_secs(30);

/// How long a lease may be that is ended now; none where any may. After a server's clock was set, the holders of leases notice
/// it one after another, and until each has beaten, the end of its lease is told by the old time. A holder that lives has
/// beaten once the length of its lease has passed since all could know.
pub fn longest_endable(since_set: Option<Duration>) -> Option<Duration> {
    since_set.map(|since| since.saturating_sub(UNNOTICED))
}

/// From when a lease counts that is given or prolonged now. As long as some process may go by the time from before the server's
/// clock was set, from the later of both times: to that process it must not seem to have passed.
pub fn lease_from(now: Timestamp, before: Timestamp, since_set: Duration) -> Timestamp {
    if since_set < UNNOTICED { now.max(before) } else { now }
}

/// Whether the end of a lease of that length may be told by the time from before the server's clock was set.
pub fn may_be_of_before(since_set: Option<Duration>, lease: Duration) -> bool {
    longest_endable(since_set).is_some_and(|endable| endable < lease)
}

/// How far the time of a file's processes may be from their host's wall clock, in microseconds.
pub const WALL_TOLERANCE: i64 = 1_000_000;

/// What a file keeps of its host's clock: its time is the host's steady clock plus `ahead`, as long as the host runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOffset {
    /// Which run of the host's system it holds for.
    pub boot: String,
    pub ahead: i64,
}

/// What a process sees of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSeen {
    pub boot: String,
    pub steady: Steady,
    pub wall: Timestamp,
}

impl HostSeen {
    /// The offset with which the steady clock shows the wall clock's time.
    pub fn offset(&self) -> HostOffset {
        HostOffset { boot: self.boot.clone(), ahead: self.steady.behind(self.wall) }
    }
}

/// What becomes of the offset that a file keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Kept,
    /// There is none yet, and nothing was ever measured by it.
    First,
    /// The host has started again. No process that held a lease is left, so that one lasts no longer than its own length
    /// from now, whatever the wall clock shows.
    Restarted,
    /// The wall clock was set. The file's time follows it, and the end of every lease moves by as much, in microseconds:
    /// what was left of a lease is left of it still.
    Jumped {
        by: i64,
    },
}

/// Decides whether a file's time is still what its host's wall clock shows. The two clocks run at one rate, so that a
/// difference means that the wall clock was set. Small steps add up until they count.
pub fn settle(kept: Option<&HostOffset>, seen: &HostSeen) -> Settled {
    let Some(kept) = kept else { return Settled::First };
    if kept.boot != seen.boot {
        return Settled::Restarted;
    }
    let by = seen.offset().ahead.saturating_sub(kept.ahead);
    if by.saturating_abs() > WALL_TOLERANCE { Settled::Jumped { by } } else { Settled::Kept }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn sample(asked: i64, server: i64, answered: i64) -> Sample {
        let (asked, answered) = (Steady(asked), Steady(answered));
        Sample { asked, server: Timestamp::from_micros(server), answered }
    }

    fn seen(boot: &str, steady: i64, wall: i64) -> HostSeen {
        HostSeen { boot: boot.to_owned(), steady: Steady(steady), wall: Timestamp::from_micros(wall) }
    }

    #[test]
    fn a_slow_answer_does_not_move_what_quick_ones_have_found() {
        let known = Offset::of(sample(0, 1_000_050, 100));
        assert_eq!((known.ahead(), known.error()), (1_000_000, Duration::from_micros(51)));
        // Thirty seconds on the way, all of them before the server looked.
        let (after, followed) = follow(known, sample(1_000, 31_001_000, 30_001_000));
        assert_eq!(followed, Followed::Agreed);
        assert!((after.ahead() - 1_000_000).abs() < 40_000, "{after:?}");
    }

    #[test]
    fn a_server_whose_clock_was_set_is_followed() {
        let known = Offset::of(sample(0, 50, 100));
        for by in [HOUR, -HOUR] {
            let (after, followed) = follow(known, sample(60_000_000, 60_000_050 + by, 60_000_100));
            assert_eq!((after.ahead(), followed), (by, Followed::Jumped { by }));
        }
    }

    #[test]
    fn a_lease_is_not_ended_before_its_holder_can_know_of_the_new_time() {
        let (lease, second) = (Duration::from_secs(120), Duration::from_secs(1));
        assert_eq!(longest_endable(None), None, "nobody has set the clock");
        assert!(!may_be_of_before(None, lease));
        assert_eq!(longest_endable(Some(second)), Some(Duration::ZERO));
        for (since, may) in
            [(Duration::ZERO, true), (lease, true), (lease + UNNOTICED - second, true), (lease + UNNOTICED, false)]
        {
            assert_eq!(may_be_of_before(Some(since), lease), may, "{since:?}");
            assert_eq!(longest_endable(Some(since)).is_some_and(|longest| longest >= lease), !may, "{since:?}");
        }
    }

    #[test]
    fn a_lease_counts_from_the_later_time_as_long_as_some_may_not_know_of_the_new_one() {
        let (earlier, later) = (Timestamp::from_micros(5), Timestamp::from_micros(HOUR));
        for (now, before) in [(earlier, later), (later, earlier)] {
            assert_eq!(lease_from(now, before, Duration::from_secs(1)), later);
            assert_eq!(lease_from(now, before, UNNOTICED), now);
        }
    }

    #[test]
    fn a_wall_clock_that_is_set_moves_the_time_of_a_file() {
        let kept = seen("a", 500, 9_000).offset();
        assert_eq!(settle(None, &seen("a", 500, 9_000)), Settled::First);
        assert_eq!(settle(Some(&kept), &seen("a", 1_500, 10_000)), Settled::Kept);
        assert_eq!(settle(Some(&kept), &seen("a", 1_500, 10_000 + WALL_TOLERANCE)), Settled::Kept);
        assert_eq!(settle(Some(&kept), &seen("a", 1_500, 10_000 + HOUR)), Settled::Jumped { by: HOUR });
        assert_eq!(settle(Some(&kept), &seen("a", 1_500, 10_000 - HOUR)), Settled::Jumped { by: -HOUR });
        assert_eq!(settle(Some(&kept), &seen("b", 7, 10_000)), Settled::Restarted);
    }

    /// How long a question was on its way, and its answer; how long after the question before it was asked.
    fn trips() -> impl Strategy<Value = Vec<(i64, i64, i64)>> {
        prop::collection::vec((0_i64..5_000_000, 0_i64..5_000_000, 1_i64..120_000_000), 1..20)
    }

    proptest! {
        /// Whatever the ways take and however the server drifts, the offset that is believed is as right as it says.
        #[test]
        fn the_true_offset_lies_within_the_error(truth in -HOUR..HOUR, drift in -900_i64..900, trips in trips()) {
            let ahead = |at: i64| truth + at / 1_000_000 * drift;
            let (mut now, mut known) = (0_i64, None::<Offset>);
            for (there, back, pause) in trips {
                now += pause;
                let looked = now + there;
                let sample = sample(now, looked + ahead(looked), looked + back);
                now = looked + back;
                let (offset, followed) = known.map_or((Offset::of(sample), Followed::Agreed), |known| follow(known, sample));
                prop_assert_eq!(followed, Followed::Agreed, "nobody set the server's clock");
                // The drift on the way, and what each sample rounds away, come on top.
                let slack = 20 + (there + back) / 1_000;
                prop_assert!((offset.ahead - ahead(now)).abs() <= offset.error + slack, "{:?} at {}", offset, ahead(now));
                prop_assert!(offset.error <= Offset::of(sample).error + 1, "a sample makes it no less exact");
                known = Some(offset);
            }
        }

        /// What was left of a lease before the wall clock was set is left of it afterwards, and the file's time is the wall clock's.
        #[test]
        fn a_jump_leaves_every_lease_its_rest(steady in 0..HOUR, wall in 0..HOUR, later in 0..HOUR, by in -HOUR..HOUR, lease in 0..HOUR) {
            let kept = seen("a", steady, wall).offset();
            let now = seen("a", steady + later, wall + later + by);
            let before = now.steady.at(kept.ahead);
            let until = before.micros() + lease;
            let (offset, until) = match settle(Some(&kept), &now) {
                Settled::Jumped { by } => (now.offset(), until + by),
                Settled::Kept | Settled::First | Settled::Restarted => (kept, until),
            };
            let after = now.steady.at(offset.ahead);
            prop_assert_eq!(until - after.micros(), lease);
            prop_assert!((after.micros() - now.wall.micros()).abs() <= WALL_TOLERANCE);
            prop_assert_eq!(settle(Some(&offset), &now), Settled::Kept, "once is enough");
        }
    }
}
