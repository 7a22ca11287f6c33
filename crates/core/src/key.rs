//! The identity of a logical partition.
//!
//! A key is built only from checked values, so everything past the edges may rely on it: each value is 1 to 256 bytes
//! of UTF-8 without control characters. Keys are ordered by bytes, which is the order both databases use. Values are shared
//! by their copies, because a million partitions have few sources, customers and queries.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// The longest key value, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// What a key value is made of, as a regular expression: anything but control characters.
pub const KEY_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// Why a text is not a key value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("{field} is empty; give 1 to {MAX_KEY_BYTES} bytes")]
    Empty { field: &'static str },
    #[error("{field} is {bytes} bytes long; the limit is {MAX_KEY_BYTES}")]
    TooLong { field: &'static str, bytes: usize },
    #[error("{field} {value:?} holds the control character {found:?}; remove it")]
    ControlCharacter { field: &'static str, value: String, found: char },
    #[error("logical date {value:?} is not a calendar day; write it as YYYY-MM-DD")]
    Date { value: String },
}

fn check(field: &'static str, value: &str) -> Result<(), KeyError> {
    if value.is_empty() {
        return Err(KeyError::Empty { field });
    }
    if value.len() > MAX_KEY_BYTES {
        return Err(KeyError::TooLong { field, bytes: value.len() });
    }
    match value.chars().find(|c| c.is_control()) {
        Some(found) => Err(KeyError::ControlCharacter { field, value: value.to_owned(), found }),
        None => Ok(()),
    }
}

macro_rules! key_value {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(value: impl AsRef<str>) -> Result<Self, KeyError> {
                check($field, value.as_ref())?;
                Ok(Self(value.as_ref().into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        crate::schema::described!($name, {
            "type": "string", "minLength": 1, "maxLength": MAX_KEY_BYTES, "pattern": KEY_PATTERN
        });

        impl FromStr for $name {
            type Err = KeyError;
            fn from_str(value: &str) -> Result<Self, KeyError> {
                Self::new(value)
            }
        }

        impl TryFrom<String> for $name {
            type Error = KeyError;
            fn try_from(value: String) -> Result<Self, KeyError> {
                check($field, &value)?;
                Ok(Self(value.into()))
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }
    };
}

key_value!(
    /// Where the data comes from: the name of a `[sources.<name>]` section.
    Source, "source"
);
key_value!(
    /// Whose data it is.
    CustomerId, "customer_id"
);
key_value!(
    /// Which query of the source it is.
    QueryName, "query_name"
);

/// The day a partition is about. Written `YYYY-MM-DD`, years 0001 to 9999, so that text order is date order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalDate(Date);

impl LogicalDate {
    /// The first day of the calendar.
    pub const FIRST: Self = Self(jiff::civil::date(1, 1, 1));

    pub fn new(date: Date) -> Result<Self, KeyError> {
        if date.year() < 1 {
            return Err(KeyError::Date { value: date.to_string() });
        }
        Ok(Self(date))
    }

    pub fn date(self) -> Date {
        self.0
    }

    /// The day after, or none past the end of the calendar.
    pub fn tomorrow(self) -> Option<Self> {
        self.0.tomorrow().ok().map(Self)
    }

    /// The day so many days before, or none before the calendar's first.
    pub fn days_before(self, days: i64) -> Option<Self> {
        let span = jiff::Span::new().try_days(days).ok()?;
        self.0.checked_sub(span).ok().and_then(|date| Self::new(date).ok())
    }

    /// How many days lie between this date and a later one; negative when `later` is earlier.
    pub fn days_until(self, later: Self) -> i64 {
        self.0.duration_until(later.0).as_hours() / 24
    }
}

impl fmt::Display for LogicalDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LogicalDate {
    type Err = KeyError;

    fn from_str(value: &str) -> Result<Self, KeyError> {
        let invalid = || KeyError::Date { value: value.to_owned() };
        // Only the ten-character form: the calendar library would also take times and other spellings.
        if value.len() != 10 || !value.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return Err(invalid());
        }
        Self::new(value.parse().map_err(|_| invalid())?).map_err(|_| invalid())
    }
}

crate::schema::described!(LogicalDate, {"type": "string", "format": "date"});

impl Serialize for LogicalDate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LogicalDate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a retry works on: never less than this, never a row of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PartitionKey {
    pub source: Source,
    pub customer_id: CustomerId,
    pub query_name: QueryName,
    pub logical_date: LogicalDate,
}

impl PartitionKey {
    pub fn new(source: &str, customer_id: &str, query_name: &str, logical_date: &str) -> Result<Self, KeyError> {
        Ok(Self {
            source: source.parse()?,
            customer_id: customer_id.parse()?,
            query_name: query_name.parse()?,
            logical_date: logical_date.parse()?,
        })
    }

    /// Feeds every part to `sink` with its length in front, so that no two keys give the same bytes.
    pub fn digest_into(&self, mut sink: impl FnMut(&[u8])) {
        let mut part = |value: &[u8]| {
            sink(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
            sink(value);
        };
        part(self.source.as_str().as_bytes());
        part(self.customer_id.as_str().as_bytes());
        part(self.query_name.as_str().as_bytes());
        part(self.logical_date.to_string().as_bytes());
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.source, self.customer_id, self.query_name, self.logical_date)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_value_is_1_to_256_bytes_without_control_characters() {
        assert_eq!(Source::new(""), Err(KeyError::Empty { field: "source" }));
        assert_eq!(CustomerId::new("é".repeat(129)), Err(KeyError::TooLong { field: "customer_id", bytes: 258 }));
        assert!(CustomerId::new("é".repeat(128)).is_ok());
        for bad in ["a\nb", "\u{0}", "x\u{7f}", "\u{85}"] {
            assert!(matches!(QueryName::new(bad), Err(KeyError::ControlCharacter { .. })), "{bad:?}");
        }
        for odd in ["../../x", "a/b", ".", "%2e", "CON", "ﬀ", "e\u{301}"] {
            assert_eq!(Source::new(odd).unwrap().as_str(), odd);
        }
    }

    #[test]
    fn a_logical_date_is_a_real_day_in_ten_characters() {
        assert_eq!("2026-02-28".parse::<LogicalDate>().unwrap().to_string(), "2026-02-28");
        for bad in
            ["2026-02-30", "2026-2-3", "2026-02-28T00:00", "-001-01-01", "0000-01-01", "20260228", "", "2026-02-2é"]
        {
            assert!(bad.parse::<LogicalDate>().is_err(), "{bad:?}");
        }
        let last: LogicalDate = "9999-12-31".parse().unwrap();
        assert_eq!(last.tomorrow(), None);
        let first: LogicalDate = "0001-01-01".parse().unwrap();
        assert_eq!(first.days_until(last), 3_652_058);
    }

    #[test]
    fn json_refuses_what_parsing_refuses() {
        assert!(serde_json::from_str::<Source>("\"\"").is_err());
        assert!(serde_json::from_str::<LogicalDate>("\"2026-13-01\"").is_err());
    }
}
