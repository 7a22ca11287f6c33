//! Spans of time as people write them: `90s`, `5m`, `1h30m`, `30d`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Reads a span; units are ms, s, m, h, d and w.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write it like \"90s\", \"5m\", \"1h30m\" or \"30d\"");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        let millis: u64 = match rest[digits..unit_end].trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(wrong()),
        };
        let part = number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &rest[unit_end..];
    }
    Ok(total)
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
        for (text, seconds) in
            [("90s", 90), ("5m", 300), ("1h30m", 5400), ("30d", 2_592_000), ("1w", 604_800), ("0s", 0)]
        {
            assert_eq!(parse(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        assert_eq!(parse("250ms").unwrap(), Duration::from_millis(250));
        for wrong in ["", "5", "m", "5 fortnights", "-5m", "1.5h", "99999999999999999999s", "99999999999999999w"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
