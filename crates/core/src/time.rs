//! Moments in UTC microseconds, as the database keeps them. Arithmetic saturates: no date can overflow a rule.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment, in microseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const MIN: Self = Self(i64::MIN);
    pub const MAX: Self = Self(i64::MAX);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    pub fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(whole_micros(span)))
    }

    pub fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(whole_micros(span)))
    }

    /// How long ago `earlier` was; nothing when it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(i128::from(self.0) - i128::from(earlier.0)).unwrap_or(0))
    }
}

/// A span in microseconds, as large as the type allows.
pub fn whole_micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(moment: jiff::Timestamp) -> Self {
        Self(moment.as_microsecond())
    }
}

/// RFC 3339 in UTC; a moment outside the calendar is shown as its nearest end.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        jiff::Timestamp::from_microsecond(self.0).unwrap_or(end).fmt(f)
    }
}

crate::schema::described!(Timestamp, {"type": "string", "format": "date-time"});

/// Always with six decimals, so that times in JSON have one length and sort as text.
impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:.6}"))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        jiff::Timestamp::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_and_extremes_can_be_shown() {
        assert_eq!(Timestamp::MAX.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_sub(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
        assert!(Timestamp::MAX.since(Timestamp::MIN) > Duration::from_secs(1 << 40));
        assert_eq!(Timestamp::from_micros(1_500_000).to_string(), "1970-01-01T00:00:01.5Z");
        assert_eq!(
            serde_json::to_string(&Timestamp::from_micros(1_500_000)).unwrap(),
            "\"1970-01-01T00:00:01.500000Z\""
        );
        assert!(Timestamp::MAX.to_string().starts_with("9999-"));
        assert!(Timestamp::MIN.to_string().starts_with("-009999-"));
    }
}
