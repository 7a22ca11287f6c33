//! What stops a command. `exit` alone turns it into an exit code.

use std::io;

use crate::config::ConfigError;
use crate::output::StdoutError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command asks for something that cannot be done as it is written.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0}")]
    NothingFound(String),
    /// A rule forbids it.
    #[error("{0}")]
    Refused(String),
    /// The operator did not agree, or no flag allows as much.
    #[error("{0}")]
    NotConfirmed(String),
    /// A partition's current run is not as it was written.
    #[error("{0}")]
    Unreadable(String),
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
    #[error(transparent)]
    Raw(#[from] redrive_store::raw::Error),
    #[error(transparent)]
    Control(#[from] redrive_control::Error),
    #[error(transparent)]
    Data(#[from] redrive_data::Error),
    #[error(transparent)]
    NotUploaded(Box<redrive_data::ingest::NotUploaded>),
    #[error(transparent)]
    Bench(#[from] redrive_bench::Error),
    #[error("cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A task of this program ended before its work was done.
    #[error("{0}")]
    Stopped(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Says what was tried when the operating system refused it.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether the reader of stdout has gone away, as `head` does. That ends the program, and is no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(StdoutError(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<redrive_store::NotReadable> for Error {
    fn from(error: redrive_store::NotReadable) -> Self {
        use redrive_store::NotReadable;
        match error {
            NotReadable::Store(error) => Self::Store(error),
            NotReadable::Raw(error) => Self::Raw(error),
            NotReadable::Damaged(why) => Self::Unreadable(format!("{why}; run `redrive doctor`")),
        }
    }
}

impl From<redrive_data::ingest::NotUploaded> for Error {
    fn from(error: redrive_data::ingest::NotUploaded) -> Self {
        Self::NotUploaded(Box::new(error))
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Stopped(error.to_string())
    }
}
