//! Files for a connector that nobody else may read, gone when they are dropped.

use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::extract::Failure;

#[derive(Debug)]
pub(in crate::extract) struct PrivateFiles(TempDir);

impl PrivateFiles {
    pub(in crate::extract) fn new() -> Result<Self, Failure> {
        let made = tempfile::Builder::new().prefix("redrive-").permissions(Permissions::from_mode(0o700)).tempdir();
        made.map(Self).map_err(|error| Failure::retryable(format!("cannot make a temporary directory: {error}")))
    }

    pub(in crate::extract) fn write(&self, name: &str, content: &Value) -> Result<PathBuf, Failure> {
        let path = self.0.path().join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(content.to_string().as_bytes()));
        let cannot = |error| Failure::retryable(format!("cannot write {}: {error}", path.display()));
        written.map_err(cannot).map(|()| path)
    }
}
