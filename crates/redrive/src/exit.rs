//! What the program ends with. The one place that turns an error into an exit code.

use std::process::ExitCode;

use crate::config::ConfigError;
use crate::output::Unwritten;

/// The exit codes that scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    SomeFailed = 1,
    Usage = 2,
    NothingFound = 3,
    Refused = 4,
    NotConfirmed = 5,
    Unavailable = 6,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Something was asked for that cannot be done as asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Nobody said yes, or it is too much to be said yes to.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotConfirmed(pub String);

/// Somebody pressed Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// There is nothing of that name.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NothingFound(pub String);

/// What should be there to be read is not.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// A rule stands against it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

pub fn code(error: &anyhow::Error) -> Exit {
    if error.is::<Usage>() || error.is::<ConfigError>() {
        return Exit::Usage;
    }
    if error.is::<Refusal>() {
        return Exit::Refused;
    }
    if error.is::<NotConfirmed>() {
        return Exit::NotConfirmed;
    }
    if error.is::<Unreadable>() || error.is::<Unwritten>() {
        return Exit::Unavailable;
    }
    if error.is::<NothingFound>() {
        return Exit::NothingFound;
    }
    if let Some(error) = error.downcast_ref::<redrive_control::Error>() {
        return control(error);
    }
    if let Some(error) = error.downcast_ref::<redrive_store::Error>() {
        return store(error);
    }
    if let Some(redrive_data::Error::Store(error)) = error.downcast_ref::<redrive_data::Error>() {
        return store(error);
    }
    if let Some(error) = error.downcast_ref::<redrive_bench::Error>() {
        return bench(error);
    }
    if error.is::<Interrupted>() {
        return Exit::Interrupted;
    }
    let out_of_reach = error.chain().any(|cause| {
        cause.is::<redrive_store::raw::Error>() || cause.is::<redrive_data::Error>() || cause.is::<std::io::Error>()
    });
    if out_of_reach { Exit::Unavailable } else { Exit::SomeFailed }
}

pub fn control(error: &redrive_control::Error) -> Exit {
    use redrive_control::Error;
    match error {
        Error::Filter(_) | Error::Usage(_) => Exit::Usage,
        Error::NoOperation(_) => Exit::NothingFound,
        Error::Store(error) => store(error),
        Error::Raw(_) => Exit::Unavailable,
    }
}

fn bench(error: &redrive_bench::Error) -> Exit {
    use redrive_bench::Error;
    match error {
        Error::Store(error) => store(error),
        Error::Control(error) => control(error),
        Error::Raw(_) | Error::Io { .. } | Error::Sqlite(_) | Error::Postgres { .. } => Exit::Unavailable,
        Error::Refused(_) => Exit::Refused,
        Error::Interrupted => Exit::Interrupted,
        Error::Extract(_) | Error::Failed(_) => Exit::SomeFailed,
    }
}

fn store(error: &redrive_store::Error) -> Exit {
    if error.is_unavailable() { Exit::Unavailable } else { Exit::Refused }
}
