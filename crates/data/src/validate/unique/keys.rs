//! Gathering fingerprints, and looking at them sorted.

use std::collections::BinaryHeap;
use std::io;
use std::path::PathBuf;

use redrive_store::MemoryShare;

use super::entry::{ENTRY_BYTES, Entry, Fingerprint, Print};
use super::merge::Merge;
use super::run::Run;
use crate::validate::scratch::Scratch;

/// How many runs are merged at once; it bounds the open files and their buffers.
const FAN_IN: usize = 16;

/// The first allocation; it doubles up to what may be taken.
const FIRST_ENTRIES: usize = 256;

#[derive(Debug)]
pub(in crate::validate) struct Keys {
    fingerprint: Fingerprint,
    entries: Vec<Entry>,
    memory: usize,
    share: MemoryShare,
    /// Runs on disk. Those of one level were merged equally often, so each entry is written once for each level.
    levels: Vec<Vec<Run>>,
    dir: PathBuf,
}

impl Keys {
    pub(in crate::validate) fn new(scratch: &Scratch) -> Self {
        Self {
            fingerprint: Fingerprint::random(),
            entries: Vec::new(),
            memory: scratch.memory,
            share: scratch.all.share(),
            levels: Vec::new(),
            dir: scratch.dir.clone(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_fingerprint(self, fingerprint: Fingerprint) -> Self {
        Self { fingerprint, ..self }
    }

    pub(in crate::validate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(in crate::validate) fn add(&mut self, key: &[u8], record: u64) -> io::Result<()> {
        // Looked at each time: others may have come since.
        let most = self.most();
        if self.entries.len() >= most {
            self.spill()?;
            self.entries.shrink_to(most);
        }
        if self.entries.len() == self.entries.capacity() {
            let wanted = (2 * self.entries.len()).max(FIRST_ENTRIES).min(most);
            self.entries.reserve_exact(wanted - self.entries.len());
        }
        self.entries.push(Entry { print: self.fingerprint.of(key), record });
        Ok(())
    }

    /// How many entries may be held now.
    fn most(&self) -> usize {
        (self.memory.min(self.share.bytes()) / ENTRY_BYTES).max(2)
    }

    pub(super) fn sort(mut self) -> io::Result<Sorted> {
        if self.levels.is_empty() {
            self.entries.sort_unstable();
            return Ok(Sorted::Memory { entries: self.entries, _share: self.share });
        }
        if !self.entries.is_empty() {
            self.spill()?;
        }
        Ok(Sorted::Disk(self.levels.into_iter().flatten().collect()))
    }

    fn spill(&mut self) -> io::Result<()> {
        self.entries.sort_unstable();
        let mut run = Run::write(&self.dir, self.entries.drain(..).map(Ok))?;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let runs = &mut self.levels[level];
            runs.push(run);
            if runs.len() < FAN_IN {
                break;
            }
            run = Run::write(&self.dir, Merge::new(runs)?)?;
            runs.clear();
        }
        Ok(())
    }
}

/// All entries, in order; they can be gone through again and again.
#[derive(Debug)]
pub(super) enum Sorted {
    Memory { entries: Vec<Entry>, _share: MemoryShare },
    Disk(Vec<Run>),
}

/// Records that share a fingerprint with an earlier one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suspects {
    pub total: u64,
    /// The first, by record.
    pub first: Vec<Suspect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Suspect {
    pub record: u64,
    pub print: Print,
}

impl Sorted {
    /// Counts all suspects and names the first `most` among the records past `after`.
    pub(super) fn suspects(&mut self, after: u64, most: usize) -> io::Result<Suspects> {
        match self {
            Self::Memory { entries, .. } => suspects(entries.iter().copied().map(Ok), after, most),
            Self::Disk(runs) => suspects(Merge::new(runs)?, after, most),
        }
    }
}

fn suspects(entries: impl Iterator<Item = io::Result<Entry>>, after: u64, most: usize) -> io::Result<Suspects> {
    let mut total = 0;
    let mut first = BinaryHeap::with_capacity(most + 1);
    let mut before = None;
    for entry in entries {
        let Entry { print, record } = entry?;
        if before == Some(print) {
            total += 1;
            if record > after && (first.len() < most || first.peek().is_some_and(|last: &Suspect| record < last.record))
            {
                first.push(Suspect { record, print });
                if first.len() > most {
                    first.pop();
                }
            }
        }
        before = Some(print);
    }
    Ok(Suspects { total, first: first.into_sorted_vec() })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;
    use redrive_store::MemoryBudget;

    fn keys(memory: usize) -> Keys {
        Keys::new(&Scratch { memory, ..Scratch::default() })
    }

    /// The total and the first records that repeat an earlier key.
    fn naive(keys: &[u16], after: u64, most: usize) -> (u64, Vec<u64>) {
        let mut seen = HashMap::new();
        let mut repeats = Vec::new();
        for (record, key) in (1..).zip(keys) {
            if seen.insert(key, record).is_some() {
                repeats.push(record);
            }
        }
        let first = repeats.iter().copied().filter(|record| *record > after).take(most).collect();
        (u64::try_from(repeats.len()).unwrap(), first)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sorting_on_disk_finds_what_a_map_finds(
            list in prop::collection::vec(0_u16..300, 0..700),
            entries in 1_usize..40,
            after in 0_u64..400,
            most in 1_usize..5,
        ) {
            let mut keys = keys(entries * ENTRY_BYTES);
            for (record, key) in (1..).zip(&list) {
                keys.add(&key.to_le_bytes(), record).unwrap();
            }
            let mut sorted = keys.sort().unwrap();
            let expected = naive(&list, after, most);
            for _again in 0..2 {
                let found = sorted.suspects(after, most).unwrap();
                let first: Vec<u64> = found.first.iter().map(|suspect| suspect.record).collect();
                prop_assert_eq!((found.total, first), expected.clone());
            }
        }
    }

    #[test]
    fn memory_and_open_files_stay_bounded() {
        const ENTRIES: usize = 10;
        let mut keys = keys(ENTRIES * ENTRY_BYTES + 5);
        let mut deepest = 0;
        for record in 1..=10_000_u64 {
            keys.add(&record.to_le_bytes(), record).unwrap();
            assert!(keys.entries.capacity() <= ENTRIES, "{}", keys.entries.capacity());
            assert!(keys.levels.iter().all(|level| level.len() < FAN_IN));
            deepest = deepest.max(keys.levels.len());
        }
        assert_eq!(deepest, 3);
        let mut sorted = keys.sort().unwrap();
        assert!(matches!(&sorted, Sorted::Disk(runs) if runs.len() < 3 * FAN_IN));
        assert_eq!(sorted.suspects(0, 3).unwrap(), Suspects { total: 0, first: Vec::new() });
    }

    #[test]
    fn keys_of_many_judgements_share_what_there_is() {
        let all = MemoryBudget::new(1000 * ENTRY_BYTES);
        let scratch = Scratch { all: all.clone(), ..Scratch::default() };
        let mut keys = Keys::new(&scratch);
        let mut add = |range: std::ops::Range<u64>, most: usize| {
            for record in range {
                keys.add(&record.to_le_bytes(), record).unwrap();
            }
            assert!(keys.entries.capacity() <= most, "{} entries are held", keys.entries.capacity());
        };
        add(0..900, 1000);
        let others: Vec<MemoryShare> = (0..9).map(|_| all.share()).collect();
        add(900..901, 100);
        add(901..5000, 100);
        drop(others);
        add(5000..5900, 1000);
        assert_eq!(keys.sort().unwrap().suspects(0, 1).unwrap().total, 0);
    }

    #[test]
    fn a_few_keys_take_little_and_touch_no_disk() {
        let mut keys = Keys::new(&Scratch { dir: "/nowhere/at/all".into(), ..Scratch::default() });
        for record in 1..=1000_u64 {
            keys.add(&(record / 2).to_le_bytes(), record).unwrap();
        }
        assert!(keys.entries.capacity() <= 1024, "{}", keys.entries.capacity());
        assert_eq!(keys.sort().unwrap().suspects(0, 1).unwrap().total, 499);
    }

    #[test]
    fn what_lies_on_disk_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut keys = Keys::new(&Scratch { memory: 1, dir: dir.path().to_owned(), ..Scratch::default() });
        for record in 1..100_u64 {
            keys.add(&record.to_le_bytes(), record).unwrap();
        }
        assert!(!keys.levels.is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
