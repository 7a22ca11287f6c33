//! A group's identity: a hash that is written out here, so that no library's next version moves failures between groups.

use std::fmt;
use std::str::FromStr;

use super::template::{CLOSE, OPEN};
use crate::failure::ErrorClass;

/// A failure group: 48 bits, written as twelve hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u64);

/// A text that is no group's identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failure group {0:?} is not twelve hexadecimal digits, nor the first few of them")]
pub struct NoGroupId(pub String);

const DIGITS: usize = 12;
const BITS: u32 = 48;

impl GroupId {
    /// The group of a class, a code and a template. Only words count, in small letters, and that there is a hole: its
    /// kind does not, because an id of digits alone looks like a number.
    pub(super) fn of(class: ErrorClass, code: Option<&str>, template: &str) -> Self {
        let mut hash = Fnv::new();
        hash.words(class.as_str());
        hash.byte(FIELD);
        hash.words(code.unwrap_or_default());
        hash.byte(FIELD);
        hash.words(template);
        Self(hash.finish() >> (u64::BITS - BITS))
    }

    /// As the database keeps it.
    pub fn number(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// From the database's number; none when it was never a group's.
    pub fn from_number(number: i64) -> Option<Self> {
        u64::try_from(number).ok().filter(|bits| bits >> BITS == 0).map(Self)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$x}", self.0, width = DIGITS)
    }
}

impl FromStr for GroupId {
    type Err = NoGroupId;

    fn from_str(text: &str) -> Result<Self, NoGroupId> {
        let hex = text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bits = hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or_else(|| NoGroupId(text.to_owned()))
    }
}

/// The beginning of a group's identity: the first and the last that it can stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPrefix {
    pub first: GroupId,
    pub last: GroupId,
}

impl FromStr for GroupPrefix {
    type Err = NoGroupId;

    fn from_str(text: &str) -> Result<Self, NoGroupId> {
        let wrong = || NoGroupId(text.to_owned());
        if text.is_empty() || text.len() > DIGITS || !text.is_ascii() {
            return Err(wrong());
        }
        let padded = |with: &str| format!("{text}{}", with.repeat(DIGITS - text.len())).parse().map_err(|_| wrong());
        Ok(Self { first: padded("0")?, last: padded("f")? })
    }
}

crate::schema::described!(GroupId, {"type": "string", "pattern": "^[0-9a-f]+$"});

impl serde::Serialize for GroupId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for GroupId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

const FIELD: u8 = 0x1f;
const HOLE: u8 = 0x1a;
const GAP: u8 = 0x20;

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// FNV-1a, with its bits mixed once more at the end because only the upper ones are kept.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn words(&mut self, text: &str) {
        let mut bytes = text.bytes().peekable();
        let mut last = GAP;
        let mut letters = 0;
        while let Some(byte) = bytes.next() {
            let next = match byte {
                OPEN => {
                    bytes.by_ref().take_while(|byte| *byte != CLOSE).for_each(drop);
                    HOLE
                }
                byte if is_part(byte) => byte.to_ascii_lowercase(),
                _ => GAP,
            };
            // One record and two records are the same.
            let plural = byte == b's' && letters > 2 && !bytes.peek().copied().is_some_and(is_part);
            let repeated = next == last && matches!(next, GAP | HOLE);
            if !repeated && !plural {
                self.byte(next);
            }
            letters = if byte.is_ascii_lowercase() { letters + 1 } else { 0 };
            last = next;
        }
    }

    fn finish(self) -> u64 {
        let mut bits = self.0;
        bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        bits ^ (bits >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_and_read_back() {
        let id = GroupId::of(ErrorClass::Final, None, "boom");
        assert_eq!(id.to_string().parse::<GroupId>(), Ok(id));
        assert_eq!(GroupId::from_number(id.number()), Some(id));
        assert_eq!((GroupId::from_number(-1), GroupId::from_number(1 << 48)), (None, None));
        for wrong in ["", "12", "+23456789abc", "123456789abcd", "123456789abg", "é23456789ab"] {
            assert!(wrong.parse::<GroupId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_beginning_stands_for_all_ids_that_begin_so() {
        let begun: GroupPrefix = "1eA".parse().unwrap();
        assert_eq!((begun.first.to_string(), begun.last.to_string()), ("1ea000000000".into(), "1eafffffffff".into()));
        let whole: GroupPrefix = "1eac255fa26d".parse().unwrap();
        assert_eq!(whole.first, whole.last);
        for wrong in ["", "g", "+1", "1eac255fa26d0", "é"] {
            assert!(wrong.parse::<GroupPrefix>().is_err(), "{wrong}");
        }
    }

    /// Groups are kept in databases: this number must never change.
    #[test]
    fn the_hash_is_the_one_it_always_was() {
        let id = GroupId::of(ErrorClass::Retryable, Some("code"), "HTTP 503: upstream request <id> timed out");
        assert_eq!(id.to_string(), "1eac255fa26d");
    }
}
