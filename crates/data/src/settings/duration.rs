//! Spans of time as people write them: `90s`, `5m`, `1h30m`, `30d`.

use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use serde::{Deserialize, Deserializer};

/// Reads a span of whole or broken units, from ms to w.
pub fn parse(text: &str) -> Result<Duration, String> {
    let parse = || {
        let span = SpanParser::new().parse_span(text.trim()).ok()?;
        Duration::try_from(span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?).ok()
    };
    parse().ok_or_else(|| format!("{text:?} is not a duration; write it like \"90s\", \"5m\", \"1h30m\" or \"30d\""))
}

/// For `#[serde(deserialize_with)]`.
pub fn de<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// The same for a key that may be left out.
pub fn option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    de(deserializer).map(Some)
}

/// The same for a list.
pub fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Duration>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parse(text)).collect::<Result<_, _>>().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5400),
            ("30d", 2_592_000),
            ("1w", 604_800),
            ("0s", 0),
            ("1.5h", 5400),
            (" 2 min ", 120),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        assert_eq!(parse("250ms").unwrap(), Duration::from_millis(250));
        for no_span in [
            "",
            "5",
            "m",
            "5 fortnights",
            "-5m",
            "5m ago",
            "1 month",
            "PT5M",
            "99999999999999999999s",
            "99999999999999999w",
        ] {
            assert!(parse(no_span).is_err(), "{no_span}");
        }
    }
}
