//! What a judgement may take of memory and of the disk, and what it says when there is not enough.

#![expect(clippy::wildcard_enum_match_arm, reason = "the kinds of errors are the library's own and may grow")]

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use redrive_store::raw::{Error, Problem};

/// Memory for the keys of `unique`; past it they are sorted on disk.
const MEMORY: usize = 32 << 20;

#[derive(Debug, Clone)]
pub struct Scratch {
    /// Bytes of memory for the keys of one judgement. Taken only as far as they are needed.
    pub memory: usize,
    /// Where the rest goes, to files without a name that are gone with the process.
    pub dir: PathBuf,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { memory: MEMORY, dir: std::env::temp_dir() }
    }
}

impl Scratch {
    /// Trouble with the disk is ours and not the data's, so it is told as the sink's own trouble is.
    pub(super) fn trouble(&self, error: io::Error) -> Error {
        let problem = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Problem::Full,
            ErrorKind::PermissionDenied => Problem::Denied,
            ErrorKind::ReadOnlyFilesystem => Problem::ReadOnly,
            ErrorKind::NotADirectory => Problem::NotADirectory,
            _ => Problem::Other(format!("{error}; make it usable or name another directory in TMPDIR")),
        };
        Error::Storage { doing: "sort keys in", object: self.dir.display().to_string(), problem, cause: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_names_the_directory_and_what_to_do() {
        let scratch = Scratch { dir: "/scratch".into(), ..Scratch::default() };
        let told = |kind: ErrorKind| scratch.trouble(kind.into()).to_string();
        for full in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            assert!(
                told(full).starts_with("cannot sort keys in /scratch: the disk is full; make room"),
                "{}",
                told(full)
            );
        }
        assert!(told(ErrorKind::NotFound).ends_with("name another directory in TMPDIR"));
    }
}
