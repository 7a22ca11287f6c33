//! Secrets: named in the configuration, read from the environment or a file, and never shown.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;

/// The environment as it was when the program started.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How the configuration names a secret: `{ env = "NAME" }` or `{ file = "PATH" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

impl SecretRef {
    /// Finds the variable now; a file is read each time the secret is used, so that it can be changed.
    pub fn resolve(&self, variable: Variables<'_>) -> Result<Secret, String> {
        match self {
            Self::Env(name) => match variable(name) {
                Some(value) if !value.is_empty() => Ok(Secret::new(Kept::Text(value))),
                Some(_) | None => Err(format!("the environment has no {name}; set it, or name a file")),
            },
            Self::File(path) => Ok(Secret::new(Kept::File(path.clone()))),
        }
    }
}

#[derive(Clone)]
pub struct Secret {
    kept: Kept,
    /// A file may change between its use and the moment when its text must be blacked out.
    used: Arc<UsedSecrets>,
}

#[derive(Clone)]
enum Kept {
    Text(String),
    File(PathBuf),
}

impl Secret {
    fn new(kept: Kept) -> Self {
        Self { kept, used: Arc::default() }
    }

    pub fn read(&self) -> Result<String, Failure> {
        let text = match &self.kept {
            Kept::Text(text) => text.clone(),
            Kept::File(path) => {
                let cannot = |error| format!("cannot read the secret in {}: {error}", path.display());
                let text =
                    std::fs::read_to_string(path).map_err(|error| Failure::retryable(cannot(error)).of_setup())?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
        };
        self.used.remember(&text);
        Ok(text)
    }

    /// What it is, and what it was whenever it was read lately.
    pub fn known(&self) -> Vec<String> {
        let _ = self.read();
        self.used.all()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Secrets change now and then; those of long ago are let go.
const MAX_KEPT: usize = 64;

/// The secrets that were sent lately, so that they can be blacked out of whatever comes back.
#[derive(Default)]
pub(crate) struct UsedSecrets(Mutex<VecDeque<String>>);

impl UsedSecrets {
    pub(crate) fn remember(&self, secret: &str) {
        let mut known = self.lock();
        if known.iter().any(|one| one == secret) {
            return;
        }
        if known.len() == MAX_KEPT {
            known.pop_front();
        }
        known.push_back(secret.to_owned());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        // The list is whole whenever the lock is free, even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UsedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsedSecrets(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new(Kept::Text("abcd".to_owned()))), "Secret(…)");
    }

    #[test]
    fn a_file_that_was_changed_is_still_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let secret = Secret::new(Kept::File(file.path().to_owned()));
        std::fs::write(file.path(), "first-one\n").unwrap();
        assert_eq!(secret.read().unwrap(), "first-one");
        std::fs::write(file.path(), "second-one\n").unwrap();
        assert_eq!(secret.known(), ["first-one", "second-one"]);
    }
}
