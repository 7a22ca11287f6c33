//! The fourth part of a key, as one integer column holds it.

use jiff::civil::Date;
use redrive_core::key::LogicalDate;

use crate::db::Param;
use crate::error::{Error, Result};

/// A partition's period: a day, counted from 1970-01-01. Nothing outside this file knows that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Period(i64);

const FIRST: Date = jiff::civil::date(1970, 1, 1);
const HOURS: i64 = 24;

impl Period {
    pub(crate) fn of(date: LogicalDate) -> Self {
        Self(FIRST.duration_until(date.date()).as_hours() / HOURS)
    }

    pub(crate) fn from_row(value: i64) -> Self {
        Self(value)
    }

    pub(crate) fn number(self) -> i64 {
        self.0
    }

    pub(crate) fn date(self) -> Result<LogicalDate> {
        let bad = || Error::row("partitions", format!("period {} is no day of the calendar", self.0));
        let hours = self.0.checked_mul(HOURS).ok_or_else(bad)?;
        let date = FIRST.checked_add(jiff::SignedDuration::from_hours(hours)).map_err(|_| bad())?;
        LogicalDate::new(date).map_err(|_| bad())
    }
}

impl From<Period> for Param<'_> {
    fn from(period: Period) -> Self {
        Self::Int(period.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_the_calendar_comes_back() {
        for (text, number) in [
            ("0001-01-01", -719_162),
            ("1969-12-31", -1),
            ("1970-01-01", 0),
            ("2026-01-01", 20_454),
            ("9999-12-31", 2_932_896),
        ] {
            let date: LogicalDate = text.parse().unwrap();
            assert_eq!(Period::of(date).number(), number, "{text}");
            assert_eq!(Period::from_row(number).date().unwrap(), date);
        }
        for beyond in [-719_163, 2_932_897, i64::MAX, i64::MIN] {
            assert!(Period::from_row(beyond).date().is_err(), "{beyond}");
        }
    }
}
