//! What can go wrong with what lasts. Every text names what was tried and says what to do.

use redrive_core::refusal::Refused;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("store url {url:?} is not understood: {why}; write sqlite:FILE or postgres://user@host/database")]
    Url { url: String, why: String },
    #[error("cannot open {place}: {why}")]
    Unavailable { place: String, why: String },
    /// Nothing was made at that place yet.
    #[error("cannot open {place}: {why}; migrating makes it")]
    NoDatabase { place: String, why: &'static str },
    #[error(
        "{place} has the schema of version {found}, and this program knows versions up to {supported}; upgrade redrive"
    )]
    NewerSchema { place: String, found: i64, supported: i64 },
    #[error("{place} has the schema of version {found}, and this program needs {needed}; migrate it")]
    OlderSchema { place: String, found: i64, needed: i64 },
    #[error("{place} holds another program's tables; choose an empty database")]
    Foreign { place: String },
    #[error("{place} is busy: another process has held its lock for {seconds} s; find it, or try again")]
    Busy { place: String, seconds: u64 },
    /// What this program has open is not the file at that place.
    #[error(
        "the database {place} was deleted or replaced while this program had it open; \
         put the right file there and start the program again"
    )]
    Replaced { place: String },
    #[error("{place} cannot be written: {why}; nothing was changed")]
    ReadOnly { place: String, why: String },
    #[error("no space left for {place}; nothing was changed: free some and run it again")]
    Full { place: String },
    #[error("lost the database at {place} in {name:?}: {why}")]
    Lost { place: String, name: &'static str, why: String },
    /// The answer to a commit never came.
    #[error(
        "it is not known whether {name:?} was committed at {place}: {why}; look at what is there before you run it again"
    )]
    Unknown { place: String, name: &'static str, why: String },
    /// The program was told to stop before the commit.
    #[error(
        "this program was told to stop, and gave up {name:?} before {place} had answered; nothing of it was changed"
    )]
    Stopped { place: String, name: &'static str },
    /// The server ended a statement, because it took too long or because an administrator wanted it.
    #[error("the database at {place} gave up {name:?}: {why}; nothing was changed")]
    Cancelled { place: String, name: &'static str, why: String },
    #[error("the database refused {name:?}: {why}")]
    Statement { name: &'static str, why: String },
    #[error("a row of {table} cannot be read: {why}")]
    Row { table: &'static str, why: String },
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("{what} cannot be stored: {why}")]
    Input { what: &'static str, why: &'static str },
    #[error("there is no {what} {id}")]
    Absent { what: &'static str, id: String },
    /// Another request has taken over the idempotency key under which this one works.
    #[error("another request with the same idempotency key has taken over; nothing was changed by this one")]
    KeyTaken,
}

impl Error {
    /// Whether the database itself is out of reach, as opposed to what was asked of it.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Url { .. }
            | Self::Unavailable { .. }
            | Self::NoDatabase { .. }
            | Self::NewerSchema { .. }
            | Self::OlderSchema { .. }
            | Self::Foreign { .. }
            | Self::Busy { .. }
            | Self::Replaced { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::Lost { .. }
            | Self::Unknown { .. }
            | Self::Stopped { .. }
            | Self::Cancelled { .. }
            | Self::Statement { .. }
            | Self::Row { .. } => true,
            Self::Refused(_) | Self::Input { .. } | Self::Absent { .. } | Self::KeyTaken => false,
        }
    }

    /// Whether the same call may well succeed in a moment.
    pub fn is_transient(&self) -> bool {
        match self {
            // A server that has become read-only may have handed over to another.
            Self::Unavailable { .. }
            | Self::NoDatabase { .. }
            | Self::Busy { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::Lost { .. }
            | Self::Unknown { .. }
            | Self::Cancelled { .. } => true,
            Self::Stopped { .. }
            | Self::Replaced { .. }
            | Self::Url { .. }
            | Self::NewerSchema { .. }
            | Self::OlderSchema { .. }
            | Self::Foreign { .. }
            | Self::Statement { .. }
            | Self::Row { .. }
            | Self::Refused(_)
            | Self::Input { .. }
            | Self::Absent { .. }
            | Self::KeyTaken => false,
        }
    }

    /// Whether no call of this store can succeed any more: a service that goes on would do so for nothing.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Replaced { .. } | Self::Stopped { .. })
    }

    pub(crate) fn row(table: &'static str, why: impl std::fmt::Display) -> Self {
        Self::Row { table, why: why.to_string() }
    }
}
