//! `Retry-After`: seconds, or a moment.

use std::time::Duration;

use jiff::fmt::{rfc2822, strtime};
use redrive_core::time::Timestamp;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// How long the source wants to be left alone. A moment is counted from the answer's own date, so that clocks which
/// differ do not matter; an answer without one is taken to be from `now`.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let wait = text(RETRY_AFTER)?;
    if !wait.is_empty() && wait.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds mean "never", as near as can be said.
        return Some(Duration::from_secs(wait.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let until = http_date(wait)?;
    let from = text(DATE).and_then(http_date).unwrap_or(now);
    Some(until.since(from))
}

/// The form that is sent today, and the two that must still be understood.
fn http_date(text: &str) -> Option<Timestamp> {
    if let Ok(moment) = rfc2822::parse(text) {
        return Some(moment.timestamp().into());
    }
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"].iter().find_map(|format| {
        let civil = strtime::parse(format, text).ok()?.to_datetime().ok()?;
        Some(civil.in_tz("UTC").ok()?.timestamp().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "1994-11-06T08:49:00Z";

    fn wait_of(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        retry_after(&map, NOW.parse::<jiff::Timestamp>().unwrap().into())
    }

    #[test]
    fn seconds_and_moments_are_understood() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (text, expected) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            (" 7 ", seconds(7)),
            ("99999999999999999999999", seconds(u64::from(u32::MAX))),
            ("Sun, 06 Nov 1994 08:49:37 GMT", seconds(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", seconds(37)),
            ("Sun Nov  6 08:49:37 1994", seconds(37)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", seconds(0)),
            ("", None),
            ("soon", None),
            ("-5", None),
            ("1.5", None),
        ] {
            assert_eq!(wait_of(&[("retry-after", text)]), expected, "{text:?}");
        }
        assert_eq!(wait_of(&[]), None);
    }

    #[test]
    fn a_moment_is_counted_from_the_answers_own_date() {
        let until = ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(wait_of(&[until, ("date", "Sun, 06 Nov 1994 08:39:37 GMT")]), Some(Duration::from_secs(600)));
        assert_eq!(wait_of(&[until, ("date", "yesterday")]), Some(Duration::from_secs(37)));
    }
}
