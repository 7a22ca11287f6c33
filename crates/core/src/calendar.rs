//! Which days of a source are expected: from its first day to the latest whose data is ready, in the source's own time.

use jiff::civil::Time;
use jiff::tz::TimeZone;

use crate::key::LogicalDate;
use crate::lane::Lane;
use crate::time::Timestamp;

/// Days this far behind the latest ready one are history, and go to the backfill lane.
const FRESH_DAYS: i64 = 7;

#[derive(Debug, Clone)]
pub struct Calendar {
    pub start: LogicalDate,
    pub timezone: TimeZone,
    /// A day's data is ready at this time of the next day.
    pub ready_at: Time,
}

impl Calendar {
    /// The latest day whose data is ready, if any day since the start is. A time that a change of clocks skips or
    /// repeats counts from its first moment.
    pub fn latest_ready(&self, now: Timestamp) -> Option<LogicalDate> {
        let now = jiff::Timestamp::from_microsecond(now.micros()).ok()?;
        let local = now.to_zoned(self.timezone.clone());
        let ready_today = local.date().to_datetime(self.ready_at).to_zoned(self.timezone.clone()).ok()?.timestamp();
        let mut latest = local.date().yesterday().ok()?;
        if now < ready_today {
            latest = latest.yesterday().ok()?;
        }
        LogicalDate::new(latest).ok().filter(|latest| *latest >= self.start)
    }

    /// When a day's data is ready.
    pub fn ready(&self, day: LogicalDate) -> Option<Timestamp> {
        let next = day.tomorrow()?.date().to_datetime(self.ready_at).to_zoned(self.timezone.clone()).ok()?;
        Some(next.timestamp().into())
    }

    /// Why a missing day is wanted.
    pub fn lane(date: LogicalDate, latest: LogicalDate) -> Lane {
        if date.days_until(latest) < FRESH_DAYS { Lane::Fresh } else { Lane::Backfill }
    }
}

/// When a day is over, in UTC.
pub fn end_of(day: LogicalDate) -> Option<Timestamp> {
    Some(day.tomorrow()?.date().to_zoned(TimeZone::UTC).ok()?.timestamp().into())
}

/// Every day from `first` to `last`.
pub fn days(first: LogicalDate, last: LogicalDate) -> impl Iterator<Item = LogicalDate> {
    std::iter::successors((first <= last).then_some(first), move |day| day.tomorrow().filter(|next| *next <= last))
}

/// How many days there are from `first` to `last`.
pub fn count(first: LogicalDate, last: LogicalDate) -> u64 {
    u64::try_from(first.days_until(last) + 1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> LogicalDate {
        text.parse().unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse::<jiff::Timestamp>().unwrap().into()
    }

    fn berlin(ready_at: &str) -> Calendar {
        Calendar {
            start: date("2026-01-01"),
            timezone: TimeZone::get("Europe/Berlin").unwrap(),
            ready_at: ready_at.parse().unwrap(),
        }
    }

    #[test]
    fn a_day_is_ready_at_its_time_of_the_next_day_in_the_sources_zone() {
        let calendar = berlin("04:00");
        assert_eq!(calendar.latest_ready(at("2026-01-10T02:59:59Z")), Some(date("2026-01-08")));
        assert_eq!(calendar.latest_ready(at("2026-01-10T03:00:00Z")), Some(date("2026-01-09")));
        assert_eq!(calendar.latest_ready(at("2026-07-10T02:00:00Z")), Some(date("2026-07-09")), "summer time");
        assert_eq!(calendar.latest_ready(at("2026-01-01T12:00:00Z")), None);
    }

    #[test]
    fn a_time_that_the_clocks_skip_or_repeat_still_comes() {
        // 02:30 does not exist on 2026-03-29 and happens twice on 2026-10-25.
        let calendar = berlin("02:30");
        assert_eq!(calendar.latest_ready(at("2026-03-29T01:30:00Z")), Some(date("2026-03-28")));
        assert_eq!(calendar.latest_ready(at("2026-10-25T00:29:59Z")), Some(date("2026-10-23")));
        assert_eq!(calendar.latest_ready(at("2026-10-25T00:30:00Z")), Some(date("2026-10-24")));
    }

    #[test]
    fn a_day_is_ready_when_it_becomes_the_latest() {
        let calendar = berlin("04:00");
        let ready = calendar.ready(date("2026-01-09")).unwrap();
        assert_eq!(ready, at("2026-01-10T03:00:00Z"));
        assert_eq!(calendar.latest_ready(ready), Some(date("2026-01-09")));
        assert_eq!(end_of(date("2026-01-09")), Some(at("2026-01-10T00:00:00Z")));
        assert_eq!(end_of(date("9999-12-31")), None);
    }

    #[test]
    fn recent_days_are_fresh_and_older_ones_are_history() {
        assert_eq!(Calendar::lane(date("2026-01-09"), date("2026-01-09")), Lane::Fresh);
        assert_eq!(Calendar::lane(date("2026-01-03"), date("2026-01-09")), Lane::Fresh);
        assert_eq!(Calendar::lane(date("2026-01-02"), date("2026-01-09")), Lane::Backfill);
    }

    #[test]
    fn days_go_from_the_first_to_the_last() {
        let all: Vec<_> = days(date("2026-02-27"), date("2026-03-02")).map(|day| day.to_string()).collect();
        assert_eq!(all, ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]);
        assert_eq!(count(date("2026-02-27"), date("2026-03-02")), 4);
        assert_eq!(days(date("2026-03-02"), date("2026-02-27")).count(), 0);
        assert_eq!(count(date("2026-03-02"), date("2026-02-27")), 0);
        assert_eq!(days(date("9999-12-31"), date("9999-12-31")).count(), 1);
    }
}
