//! Files for a connector that nobody else may read, gone when they are dropped.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::error::ScratchError;

const PREFIX: &str = "redrive-connector-";
/// Locked as long as its process lives, whatever happens to it.
const LOCK: &str = "lock";

#[derive(Debug)]
pub(in crate::extract) struct PrivateFiles {
    directory: TempDir,
    _lock: File,
}

impl PrivateFiles {
    pub(in crate::extract) fn new() -> Result<Self, ScratchError> {
        let parent = std::env::temp_dir();
        remove_orphans(&parent);
        Self::make(&parent).map_err(|source| ScratchError { directory: parent, source })
    }

    fn make(parent: &Path) -> io::Result<Self> {
        let private = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(parent)?;
        // Locked before it has its name: one of that name which is free belongs to nobody any more.
        let unnamed = directory.path().join("lock.new");
        let lock = File::create_new(&unnamed)?;
        lock.lock()?;
        std::fs::rename(unnamed, directory.path().join(LOCK))?;
        Ok(Self { directory, _lock: lock })
    }

    pub(in crate::extract) fn write(&self, name: &str, content: &Value) -> Result<PathBuf, ScratchError> {
        let path = self.directory.path().join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(content.to_string().as_bytes()));
        let directory = self.directory.path();
        written.map_err(|source| ScratchError { directory: directory.to_owned(), source }).map(|()| path)
    }
}

/// Removes what a process that was killed left behind, with the secrets in it.
fn remove_orphans(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for directory in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // One that is being made has no lock yet, and is left alone.
        let Ok(lock) = File::open(directory.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() && std::fs::remove_dir_all(directory.path()).is_ok() {
            tracing::info!(directory = %directory.path().display(), "removed what a killed process had left");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let directory = parent.path().join(format!("{PREFIX}{name}"));
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("config.json"), "secret").unwrap();
            directory
        };
        let (dead, alive, begun) = (make("dead"), make("alive"), make("begun"));
        File::create_new(dead.join(LOCK)).unwrap();
        let held = File::create_new(alive.join(LOCK)).unwrap();
        held.lock().unwrap();
        remove_orphans(parent.path());
        assert_eq!((dead.exists(), alive.exists(), begun.exists()), (false, true, true));
    }
}
