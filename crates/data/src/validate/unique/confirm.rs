//! Comparing suspects with the records themselves.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use redrive_core::text::cut;
use redrive_core::validation::{FieldValues, excerpt};
use redrive_store::raw::Sha256;

use super::entry::{Fingerprint, Print};
use super::key::Key;
use super::keys::Suspect;
use crate::error::Result;
use crate::validate::feed::Look;
use crate::validate::lines::Block;
use crate::validate::rules::{Rules, Wanted};

/// How much of a key's value is looked at to show it: more than is shown.
const SHOWN: usize = 1 << 10;

/// Goes through the records up to the last suspect, and keeps a hash of each key with a suspect's fingerprint. Keys may be as
/// long as records; that two of them have one SHA-256 is proof enough.
pub(super) struct Confirm {
    wanted: Arc<Wanted>,
    fingerprint: Fingerprint,
    prints: HashSet<Print>,
    last: u64,
    /// The first record with each key.
    keys: HashMap<Sha256, u64>,
    key: Key,
    /// Those who are guilty, in words.
    pub repeats: Vec<String>,
}

impl Confirm {
    pub(super) fn new(rules: &Rules, fingerprint: Fingerprint, suspects: &[Suspect]) -> Self {
        Self {
            wanted: rules.wanted().clone(),
            fingerprint,
            prints: suspects.iter().map(|suspect| suspect.print).collect(),
            last: suspects.iter().map(|suspect| suspect.record).max().unwrap_or(0),
            keys: HashMap::new(),
            key: Key::default(),
            repeats: Vec::new(),
        }
    }

    fn record(&mut self, number: u64, values: &FieldValues<'_>) {
        let key = self.key.of(&self.wanted.unique, values);
        if !self.prints.contains(&self.fingerprint.of(key)) {
            return;
        }
        let key = Sha256::of(key);
        match self.keys.get(&key) {
            Some(first) => {
                let shown = self.wanted.unique.iter().map(|slot| cut(values[*slot].unwrap_or("null"), SHOWN));
                let shown: Vec<String> = shown.collect();
                let shown = excerpt(shown.join(", ").as_bytes());
                self.repeats.push(format!("record {number} repeats record {first}: {shown}"));
            }
            None => {
                self.keys.insert(key, number);
            }
        }
    }
}

impl Look for Confirm {
    fn look(&mut self, block: Block<'_>) -> Result<ControlFlow<()>> {
        let Block::Lines { first, bytes } = block else { return Ok(ControlFlow::Continue(())) };
        let wanted = self.wanted.clone();
        let mut values = wanted.fields.none();
        for (number, line) in Block::split(first, bytes) {
            // What could not be read has no key; the check of records reports it.
            if let Ok(text) = std::str::from_utf8(line)
                && wanted.fields.take(text, &mut values).is_ok()
            {
                self.record(number, &values);
            }
            if number == self.last {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
