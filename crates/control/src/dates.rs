//! Dates as people give them, resolved once against the clock: `2026-01-05`, `7d`, `yesterday`, `today`.

use jiff::tz::TimeZone;
use redrive_core::filter::DateBounds;
use redrive_core::key::LogicalDate;
use redrive_core::time::Timestamp;

/// The day it is at a moment, in UTC.
pub fn utc_day(now: Timestamp) -> Option<LogicalDate> {
    let moment = jiff::Timestamp::from_microsecond(now.micros()).ok()?;
    LogicalDate::new(moment.to_zoned(TimeZone::UTC).date()).ok()
}

/// The dates that commands may speak of: nothing before the configured first day, nothing after today. A day begins first
/// in the zone that is furthest east.
pub fn bounds(earliest: LogicalDate, now: Timestamp) -> DateBounds {
    let furthest_east = std::time::Duration::from_secs(14 * 3600);
    DateBounds { earliest, latest: utc_day(now.saturating_add(furthest_east)).unwrap_or(earliest) }
}

/// The most digits of a number of days or weeks.
const MOST_DIGITS: usize = 4;

/// Reads a date; a relative one counts back from `now`'s day in UTC.
pub fn parse(text: &str, now: Timestamp) -> Result<LogicalDate, String> {
    if let Ok(date) = text.parse() {
        return Ok(date);
    }
    let invalid =
        || format!("{text:?} is not a date; write YYYY-MM-DD, `today`, `yesterday`, or days or weeks ago like `7d`");
    let back = match text {
        "today" => 0,
        "yesterday" => 1,
        _ => {
            let (number, per) = match (text.strip_suffix('d'), text.strip_suffix('w')) {
                (Some(days), _) => (days, 1),
                (None, Some(weeks)) => (weeks, 7),
                (None, None) => return Err(invalid()),
            };
            let is_short = number.len() <= MOST_DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
            let number: i64 = number.parse::<u32>().ok().filter(|_| is_short).ok_or_else(invalid)?.into();
            number.checked_mul(per).ok_or_else(invalid)?
        }
    };
    let today = utc_day(now).ok_or_else(invalid)?;
    let date = today.date().checked_sub(jiff::Span::new().try_days(back).map_err(|_| invalid())?);
    date.ok().and_then(|date| LogicalDate::new(date).ok()).ok_or_else(invalid)
}

/// Reads a moment as people give it: RFC 3339, or a day, of which the beginning counts.
pub fn first_moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    moment_of_day(text, now, Some)
}

/// Reads the moment before which something is: RFC 3339, or a day, which counts whole.
pub fn last_moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    moment_of_day(text, now, |day| day.tomorrow())
}

fn moment_of_day(
    text: &str,
    now: Timestamp,
    which: impl Fn(LogicalDate) -> Option<LogicalDate>,
) -> Result<Timestamp, String> {
    if let Some(moment) = rfc3339(text) {
        return Ok(moment);
    }
    let invalid = || {
        let todo = "write a day like 2026-01-31, `today`, `yesterday`, days ago like `7d`, or a time like 2026-01-31T04:00:00Z";
        format!("{text:?} is no time; {todo}")
    };
    let day = parse(text, now).map_err(|_| invalid())?;
    which(day).and_then(midnight).ok_or_else(invalid)
}

fn midnight(day: LogicalDate) -> Option<Timestamp> {
    day.date().to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp().into())
}

/// Reads a moment as machines write it.
pub fn rfc3339(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(Timestamp::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_people_give_them() {
        let now = "2026-03-01T00:30:00Z".parse::<jiff::Timestamp>().unwrap().into();
        for (text, date) in [
            ("2026-01-05", "2026-01-05"),
            ("today", "2026-03-01"),
            ("yesterday", "2026-02-28"),
            ("7d", "2026-02-22"),
            ("2w", "2026-02-15"),
        ] {
            assert_eq!(parse(text, now).unwrap().to_string(), date, "{text}");
        }
        for wrong in
            ["", "1900", "d", "-7d", "7", "7x", "2026-02-30", "99999999999d", "4000000d", "+7d", "00007d", "tomorrow"]
        {
            assert!(parse(wrong, now).is_err(), "{wrong}");
        }
    }
}
