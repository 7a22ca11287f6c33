//! Which keys have come before: exact for any number of them, in bounded memory.
//!
//! Keys are hashes, so they are spread evenly. When as many as may be in memory are there, they are sorted and spilled
//! into a file that has no name; a look-up there guesses the place from the key. Files of one size are merged, so that
//! there are never more than a few to look into.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;

/// Keys in memory: about 40 MB.
const LIMIT: usize = 1 << 20;
/// The bytes of a key, and the keys that are read at once.
const KEY: usize = 16;
const WINDOW: u64 = 256;
/// Guesses before the search halves instead: keys that are not spread evenly cost no more than that.
const GUESSES: u32 = 8;

#[derive(Debug)]
pub(super) struct Seen {
    limit: usize,
    recent: HashSet<u128>,
    /// Larger ones first.
    spilled: Vec<Spilled>,
}

/// Keys in ascending order in a file.
#[derive(Debug)]
struct Spilled {
    file: File,
    keys: u64,
    merges: u32,
}

impl Default for Seen {
    fn default() -> Self {
        Self::with_limit(LIMIT)
    }
}

impl Seen {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self { limit: limit.max(1), recent: HashSet::new(), spilled: Vec::new() }
    }

    /// Whether the key is new.
    pub(super) fn insert(&mut self, key: u128) -> io::Result<bool> {
        if self.recent.contains(&key) {
            return Ok(false);
        }
        for spilled in &self.spilled {
            if spilled.contains(key)? {
                return Ok(false);
            }
        }
        self.recent.insert(key);
        if self.recent.len() >= self.limit {
            self.spill()?;
        }
        Ok(true)
    }

    fn spill(&mut self) -> io::Result<()> {
        let mut keys: Vec<u128> = self.recent.drain().collect();
        keys.sort_unstable();
        let mut last = Spilled::write(keys.into_iter().map(Ok), 0)?;
        while let Some(other) = self.spilled.pop_if(|other| other.merges == last.merges) {
            last = Spilled::merge(other, last)?;
        }
        self.spilled.push(last);
        Ok(())
    }
}

impl Spilled {
    fn write(sorted: impl Iterator<Item = io::Result<u128>>, merges: u32) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 16, tempfile::tempfile()?);
        let mut keys = 0;
        for key in sorted {
            file.write_all(&key?.to_be_bytes())?;
            keys += 1;
        }
        Ok(Self { file: file.into_inner().map_err(io::IntoInnerError::into_error)?, keys, merges })
    }

    fn merge(one: Self, other: Self) -> io::Result<Self> {
        let merges = one.merges.max(other.merges) + 1;
        let (mut one, mut other) = (one.ascending()?.peekable(), other.ascending()?.peekable());
        let both = std::iter::from_fn(|| match (one.peek(), other.peek()) {
            (Some(Ok(left)), Some(Ok(right))) if left > right => other.next(),
            (Some(_), _) => one.next(),
            (None, _) => other.next(),
        });
        Self::write(both, merges)
    }

    fn ascending(mut self) -> io::Result<impl Iterator<Item = io::Result<u128>>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut file = BufReader::with_capacity(1 << 16, self.file);
        Ok((0..self.keys).map(move |_| {
            let mut key = [0; KEY];
            file.read_exact(&mut key).map(|()| u128::from_be_bytes(key))
        }))
    }

    fn contains(&self, key: u128) -> io::Result<bool> {
        // The key can only be in places low..high, and those hold only keys of floor..=ceiling.
        let (mut low, mut high) = (0, self.keys);
        let (mut floor, mut ceiling) = (0, u128::MAX);
        let mut tries = 0;
        while low < high {
            let middle = if tries < GUESSES { guess(key, floor, ceiling, low, high) } else { low.midpoint(high) };
            let start = middle.saturating_sub(WINDOW / 2).max(low);
            let window = self.read(start, (start + WINDOW).min(high))?;
            let (Some(&first), Some(&last)) = (window.first(), window.last()) else { return Ok(false) };
            if key < first {
                (high, ceiling) = (start, first);
            } else if key > last {
                (low, floor) = ((start + WINDOW).min(high), last);
            } else {
                return Ok(window.binary_search(&key).is_ok());
            }
            tries += 1;
        }
        Ok(false)
    }

    fn read(&self, start: u64, end: u64) -> io::Result<Vec<u128>> {
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0) * KEY];
        self.file.read_exact_at(&mut bytes, start * KEY as u64)?;
        let (keys, _) = bytes.as_chunks::<KEY>();
        Ok(keys.iter().map(|key| u128::from_be_bytes(*key)).collect())
    }
}

/// Where a key would be if all keys between floor and ceiling were spread evenly.
fn guess(key: u128, floor: u128, ceiling: u128, low: u64, high: u64) -> u64 {
    // The upper halves are exact enough for a guess, and their products cannot overflow.
    let (key, floor, ceiling) = (key >> 64, floor >> 64, ceiling >> 64);
    let (before, all) = (key.saturating_sub(floor), (ceiling - floor).max(1));
    let offset = before.min(all) * u128::from(high - low) / all;
    (low + u64::try_from(offset).unwrap_or(0)).min(high - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_set_in_memory(
            limit in 1_usize..40,
            keys in proptest::collection::vec(prop_oneof![any::<u128>(), (0..50_u128), (0..50_u128).prop_map(|k| u128::MAX - k)], 0..600),
        ) {
            let mut seen = Seen::with_limit(limit);
            let mut set = HashSet::new();
            for key in keys {
                prop_assert_eq!(seen.insert(key).unwrap(), set.insert(key), "{}", key);
                prop_assert!(seen.recent.len() < limit);
            }
        }
    }

    #[test]
    fn many_keys_are_found_again_in_few_files() {
        let mut seen = Seen::with_limit(200);
        let spread = |n: u128| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let skewed = |n: u128| n * n * n;
        for n in 0..10_000 {
            assert!(seen.insert(spread(n)).unwrap(), "{n}");
            assert!(seen.insert(skewed(n) | 1 << 100).unwrap(), "{n}");
        }
        for n in 0..10_000 {
            assert!(!seen.insert(spread(n)).unwrap(), "{n}");
            assert!(!seen.insert(skewed(n) | 1 << 100).unwrap(), "{n}");
        }
        assert!(seen.spilled.len() <= 7, "{} files", seen.spilled.len());
        assert!(seen.recent.len() < 200);
    }
}
