//! A key's fingerprint, and what is kept of each record.

use std::hash::{BuildHasher as _, RandomState};

use siphasher::sip128::SipHasher13;

/// Bytes of an entry, in memory and on disk.
pub(super) const ENTRY_BYTES: usize = 24;

/// Sorted by fingerprint first, then by record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub print: Print,
    pub record: u64,
}

/// In two halves, which take 16 bytes wherever they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Print(u64, u64);

impl Entry {
    pub(super) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        for (at, word) in [self.print.0, self.print.1, self.record].into_iter().enumerate() {
            bytes[at * 8..(at + 1) * 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at * 8..(at + 1) * 8]);
            u64::from_le_bytes(word)
        };
        Self { print: Print(word(0), word(1)), record: word(2) }
    }
}

/// How fingerprints are taken: anew for every judgement, so that no source can prepare keys that collide.
#[derive(Debug, Clone, Copy)]
pub(in crate::validate) struct Fingerprint {
    hasher: SipHasher13,
    /// Tests leave only a few bits, so that fingerprints do collide.
    mask: u64,
}

impl Fingerprint {
    pub(super) fn random() -> Self {
        let random = || RandomState::new().hash_one(0_u8);
        Self { hasher: SipHasher13::new_with_keys(random(), random()), mask: u64::MAX }
    }

    #[cfg(test)]
    pub(super) fn narrow(mask: u64) -> Self {
        Self { mask, ..Self::random() }
    }

    pub(super) fn of(&self, key: &[u8]) -> Print {
        let (high, low) = self.hasher.hash(key).as_u64();
        if self.mask == u64::MAX { Print(high, low) } else { Print(0, low & self.mask) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_written_and_read_back() {
        let entry = Entry { print: Print(1, u64::MAX - 1), record: 7 << 40 };
        assert_eq!(Entry::from_bytes(&entry.to_bytes()), entry);
        assert_eq!(size_of::<Entry>(), ENTRY_BYTES);
    }

    #[test]
    fn every_judgement_takes_its_fingerprints_anew() {
        assert_ne!(Fingerprint::random().of(b"x"), Fingerprint::random().of(b"x"));
        let one = Fingerprint::random();
        assert_eq!(one.of(b"x"), one.of(b"x"));
        assert_ne!(one.of(b"x"), one.of(b"y"));
    }
}
