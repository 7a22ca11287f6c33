//! Notices that the file which was opened is no longer the one at its path: it was deleted, or another was put there. What
//! is written then goes into a file that nobody can find again.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::time::Instant;

use crate::error::{Error, Result};

use super::sqlite_file::unavailable;

/// How often the path is looked at while all goes well.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct FileWatch {
    path: PathBuf,
    opened: FileId,
    looked: Mutex<Instant>,
}

/// A file's device and inode. No other file can have them while this one is open.
#[derive(Debug, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileWatch {
    /// Watches a file that has just been opened.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let file = fs::metadata(path).map_err(|error| unavailable(path, &error))?;
        let (opened, looked) = (FileId(file.dev(), file.ino()), Mutex::new(Instant::now()));
        Ok(Self { path: path.to_owned(), opened, looked })
    }

    /// Looks, unless that was a moment ago.
    pub(super) fn look_now_and_then(&self) -> Result<()> {
        let now = Instant::now();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(*looked) < EVERY {
            return Ok(());
        }
        self.look()?;
        *looked = now;
        Ok(())
    }

    pub(super) fn look(&self) -> Result<()> {
        match fs::metadata(&self.path) {
            Ok(file) if FileId(file.dev(), file.ino()) == self.opened => Ok(()),
            Ok(_) => Err(self.replaced()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.replaced()),
            // It may not be looked at now, which says nothing about the file.
            Err(_) => Ok(()),
        }
    }

    pub(super) fn replaced(&self) -> Error {
        Error::Replaced { place: self.path.display().to_string() }
    }

    /// Closes a connection. SQLite would remove the write-ahead log by its name, which now belongs to the other file.
    pub(super) fn close(&self, connection: Connection) {
        if self.look().is_err() {
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        drop(connection);
    }
}
