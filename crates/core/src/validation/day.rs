//! Days and moments as sources write them.

use jiff::civil::DateTime;

use crate::key::LogicalDate;

/// How long a day is in a text.
const DAY: usize = 10;

/// The day of a date (`2026-01-31`) or of a timestamp, as it is written: an offset moves it to no other day.
pub fn written_day(text: &str) -> Option<LogicalDate> {
    if text.len() == DAY || is_timestamp(text) { text.get(..DAY)?.parse().ok() } else { None }
}

/// A day, then `T` or a space, then a time of day; an offset or `Z` may follow.
pub fn is_timestamp(text: &str) -> bool {
    let Some((day, [b'T' | b't' | b' ', b'0'..=b'9', ..])) = text.as_bytes().split_at_checked(DAY) else {
        return false;
    };
    let plain = day.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
    plain && (text.parse::<DateTime>().is_ok() || text.parse::<jiff::Timestamp>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_from_dates_and_timestamps_as_it_is_written() {
        for text in [
            "2026-01-31",
            "2026-01-31T00:00:00Z",
            "2026-01-31t23:59:59.999999+14:00",
            "2026-01-31 23:59:59-12:00",
            "2026-01-31 12:30:00",
            "2026-01-31T12:30",
        ] {
            assert_eq!(written_day(text).map(|day| day.to_string()).as_deref(), Some("2026-01-31"), "{text:?}");
        }
    }

    #[test]
    fn other_texts_have_no_day() {
        for text in [
            "",
            "2026-02-30",
            "20260131",
            "2026-1-31",
            "31.01.2026",
            "2026-01-31T",
            "2026-01-31 noon",
            "2026-01-31T25:00:00",
            "2026-01-31x",
            "2026-01-3é",
            "2026-01-31Té",
            " 2026-01-31",
            "2026-01-31\n",
            "+002026-01-31T00:00:00Z",
        ] {
            assert_eq!(written_day(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_date_alone_is_no_timestamp() {
        assert!(!is_timestamp("2026-01-31"));
        assert!(is_timestamp("2026-01-31 00:00:00"));
    }
}
