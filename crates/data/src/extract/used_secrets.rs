//! The secrets that an extractor has sent, so that they can be blacked out of whatever comes back.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Secrets change now and then; those of long ago are let go.
const MAX_KEPT: usize = 64;

#[derive(Default)]
pub(in crate::extract) struct UsedSecrets(Mutex<VecDeque<String>>);

impl UsedSecrets {
    pub(in crate::extract) fn remember(&self, secret: &str) {
        let mut known = self.lock();
        if known.iter().any(|one| one == secret) {
            return;
        }
        if known.len() == MAX_KEPT {
            known.pop_front();
        }
        known.push_back(secret.to_owned());
    }

    pub(in crate::extract) fn all(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        // The list is whole whenever the lock is free, whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UsedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsedSecrets(…)")
    }
}
