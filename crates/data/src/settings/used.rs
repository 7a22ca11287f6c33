//! The secrets that were read lately, so that they can be blacked out of whatever comes back.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Secrets change now and then; those of long ago are let go.
const MAX_KEPT: usize = 64;

/// How many customers' secrets are known at once; far more than a worker asks at the same time.
const MAX_NAMES: usize = 4096;

/// Secrets of one source, whoever they were read for.
#[derive(Default)]
pub(crate) struct UsedSecrets(Mutex<VecDeque<String>>);

impl UsedSecrets {
    pub(crate) fn remember(&self, secret: &str) {
        remember(&mut lock(&self.0), secret);
    }

    pub(crate) fn all(&self) -> Vec<String> {
        lock(&self.0).iter().cloned().collect()
    }
}

impl fmt::Debug for UsedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsedSecrets(…)")
    }
}

/// Secrets by the names that they were read under: a customer's own never mix with another's.
#[derive(Default)]
pub(super) struct UsedByName(Mutex<BTreeMap<String, VecDeque<String>>>);

impl UsedByName {
    pub(super) fn remember(&self, name: &str, secret: &str) {
        let mut known = lock(&self.0);
        if known.len() >= MAX_NAMES && !known.contains_key(name) {
            known.pop_first();
        }
        remember(known.entry(name.to_owned()).or_default(), secret);
    }

    pub(super) fn of(&self, name: &str) -> Vec<String> {
        lock(&self.0).get(name).map(|known| known.iter().cloned().collect()).unwrap_or_default()
    }
}

fn remember(known: &mut VecDeque<String>, secret: &str) {
    if known.iter().any(|one| one == secret) {
        return;
    }
    if known.len() == MAX_KEPT {
        known.pop_front();
    }
    known.push_back(secret.to_owned());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole whenever the lock is free, even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
