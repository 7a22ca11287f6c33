//! What stops a worker. What stops an attempt is in `extract`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How long to wait before a database that failed is asked again.
pub(crate) const TRY_AGAIN: Duration = Duration::from_millis(500);

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
    #[error(transparent)]
    Raw(#[from] redrive_store::raw::Error),
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// What handles a section's jobs cannot be used: no fault of the jobs, which are given back untried.
    #[error("[process.{section}] cannot be used: {why}")]
    Unusable { section: String, why: String },
    /// A file or a program that a source's rules name cannot be used: no fault of the partition, which is given back untried.
    #[error("{0}")]
    Missing(String),
    #[error("cannot start the thread that keeps leases: {0}")]
    Thread(io::Error),
    #[error("the thread that keeps leases has ended; start the worker again")]
    KeeperGone,
    #[error("the task that records results has ended; start the worker again")]
    CompleterGone,
}

impl Error {
    pub(crate) fn no_schema(why: String) -> Self {
        Self::Missing(format!("the JSON Schema cannot be read: {why}"))
    }
}

/// The worker's own temporary files cannot be used: no fault of the partition, which is given back untried.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the temporary directory {}: {source}; make it usable, or name another one in TMPDIR", directory.display())]
pub struct ScratchError {
    pub directory: PathBuf,
    pub source: io::Error,
}
