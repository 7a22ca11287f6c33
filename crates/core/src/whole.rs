//! Whole numbers in JSON: `7` and `7.0` are the same number there, and callers in other languages write either.

use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// A whole number that fits into 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole(pub u32);

crate::schema::described!(Whole, {"type": "integer", "minimum": 0, "maximum": u32::MAX});

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let whole = number.as_u64().or_else(|| from_fraction(number.as_f64()?));
        let fits = whole.and_then(|whole| u32::try_from(whole).ok()).map(Self);
        fits.ok_or_else(|| serde::de::Error::custom(format!("{number} is no whole number from 0 to {}", u32::MAX)))
    }
}

/// The whole number that a fraction with nothing behind its point is.
fn from_fraction(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    // Written without a point, it is read exactly.
    is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}

impl From<Whole> for u32 {
    fn from(Whole(number): Whole) -> Self {
        number
    }
}

/// Reads a number that may be left out.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Ok(Option::<Whole>::deserialize(deserializer)?.map(u32::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_whole_however_it_is_written() {
        for (text, number) in [("0", 0), ("7", 7), ("7.0", 7), ("7e0", 7), ("4294967295.0", u32::MAX)] {
            assert_eq!(serde_json::from_str::<Whole>(text).unwrap(), Whole(number), "{text}");
        }
        for wrong in ["-1", "7.5", "4294967296", "1e300", "\"7\"", "null", "true"] {
            assert!(serde_json::from_str::<Whole>(wrong).is_err(), "{wrong}");
        }
    }
}
