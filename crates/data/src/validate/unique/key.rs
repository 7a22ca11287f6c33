//! What makes a record unique, as bytes.

use redrive_core::validation::{FieldValues, Take, append_same};
use sha2::{Digest as _, Sha256};

/// A key longer than this is kept as its hash: a list of a few megabytes, number by number, would take ten times as many.
const LONGEST: usize = 16 << 10;
/// With what no value begins.
const HASHED: u8 = b'~';

/// The same bytes for the same values, and no other: short keys as they are, long ones as their SHA-256. The memory is used
/// again for the next record.
#[derive(Debug, Default)]
pub(in crate::validate) struct Key {
    bytes: Vec<u8>,
    hasher: Option<Sha256>,
}

impl Key {
    /// The key of a record with these values.
    pub(in crate::validate) fn of(&mut self, slots: &[usize], values: &FieldValues<'_>) -> &[u8] {
        self.bytes.clear();
        for slot in slots {
            append_same(values[*slot].unwrap_or("null"), self);
        }
        if let Some(hasher) = self.hasher.take() {
            self.bytes.push(HASHED);
            self.bytes.extend_from_slice(&hasher.finalize());
        }
        &self.bytes
    }
}

impl Take for Key {
    fn take(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        } else if self.bytes.len() + bytes.len() <= LONGEST {
            self.bytes.extend_from_slice(bytes);
        } else {
            let hasher = Sha256::new_with_prefix(&self.bytes).chain_update(bytes);
            self.hasher = Some(hasher);
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &[&str]) -> Vec<u8> {
        let slots: Vec<usize> = (0..json.len()).collect();
        let values: FieldValues<'_> = json.iter().copied().map(Some).collect();
        let mut key = Key::default();
        key.of(&slots, &values);
        assert!(key.bytes.capacity() <= 2 * LONGEST, "{} bytes for a key", key.bytes.capacity());
        key.bytes
    }

    #[test]
    fn long_keys_are_told_apart_and_take_little() {
        let numbers = |last: &str| format!("[{}{last}]", "1,".repeat(1_000_000));
        let (one, two) = (numbers("2"), numbers("3"));
        assert_ne!(of(&[&one]), of(&[&two]));
        assert_eq!(of(&[&one]), of(&[&numbers("2.0")]), "by value");
        let text = format!("\"{}\"", "x".repeat(4 << 20));
        assert_ne!(of(&[&text, "1"]), of(&[&text, "2"]), "what comes after a long value counts");
        assert_ne!(of(&["1", &text]), of(&["2", &text]), "and what comes before it");
    }

    #[test]
    fn a_key_leaves_nothing_to_the_next() {
        let mut key = Key::default();
        let long = format!("\"{}\"", "x".repeat(LONGEST));
        key.of(&[0], &vec![Some(long.as_str())]);
        assert_eq!(key.of(&[0], &vec![Some("7")]), of(&["7"]));
    }
}
