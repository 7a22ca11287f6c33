//! What the program ends with. The one place that turns an error into an exit code.

use std::process::ExitCode;

use crate::error::Error;

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

impl Exit {
    /// The worse of two ends: the one with the higher code.
    pub fn worse(self, other: Self) -> Self {
        if other as u8 > self as u8 { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

pub fn code(error: &Error) -> Exit {
    match error {
        Error::Usage(_) | Error::Config(_) => Exit::Usage,
        Error::NothingFound(_) => Exit::NothingFound,
        Error::Refused(_) => Exit::Refused,
        Error::NotConfirmed(_) => Exit::NotConfirmed,
        Error::Unreadable(_) | Error::Stdout(_) | Error::Io { .. } | Error::Raw(_) => Exit::Unavailable,
        Error::Store(error) => store(error),
        Error::Control(error) => control(error),
        Error::Data(error) => data(error),
        Error::NotUploaded(error) => not_uploaded(error),
        Error::Bench(error) => bench(error),
        Error::Json(_) | Error::Stopped(_) => Exit::SomeFailed,
        Error::Interrupted => Exit::Interrupted,
    }
}

fn store(error: &redrive_store::Error) -> Exit {
    if let redrive_store::Error::Stopped { .. } = error {
        return Exit::Interrupted;
    }
    if error.is_unavailable() { Exit::Unavailable } else { Exit::Refused }
}

pub fn control(error: &redrive_control::Error) -> Exit {
    use redrive_control::Error;
    match error {
        Error::Filter(_) | Error::Plan(_) => Exit::Usage,
        Error::NeedsRuns | Error::NotThroughRuns => Exit::Usage,
        Error::NeedsDates | Error::NeedsSource | Error::NoneConfigured { .. } => Exit::Usage,
        Error::NoGroupId(_) | Error::SeveralGroups { .. } | Error::NotByGroup => Exit::Usage,
        Error::NoOperation(_) | Error::NoPlan(_) | Error::NoGroup(_) => Exit::NothingFound,
        Error::StillRunning(_) | Error::Applied { .. } => Exit::Refused,
        Error::Store(error) => store(error),
        Error::Raw(_) => Exit::Unavailable,
    }
}

fn data(error: &redrive_data::Error) -> Exit {
    use redrive_data::Error;
    match error {
        Error::Store(error) => store(error),
        Error::Unusable { .. } => Exit::SomeFailed,
        Error::Raw(_)
        | Error::Scratch(_)
        | Error::Missing(_)
        | Error::Thread(_)
        | Error::KeeperGone
        | Error::CompleterGone => Exit::Unavailable,
    }
}

fn not_uploaded(error: &redrive_data::ingest::NotUploaded) -> Exit {
    use redrive_data::ingest::NotUploaded;
    match error {
        NotUploaded::Store(error) => store(error),
        NotUploaded::Sink { .. } | NotUploaded::Body { .. } => Exit::Unavailable,
        NotUploaded::TooLarge { .. } => Exit::Refused,
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
