//! Says how the reading of an upload ended when it was not read to its end.

use std::fmt;
use std::io;

/// Says why an upload is refused for good. The word of a reason is `error_type` in a run's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The archive is damaged, cut off, or says of itself what is not so.
    MalformedArchive,
    /// The archive is whole but holds no configuration file.
    NoFiles,
    /// The upload is no archive and no configuration file, or it is encrypted or packed in a way that is not supported.
    InvalidFormat,
    /// A member has a path or a link that leaves the archive, or is a device.
    UnsafeEntry,
    /// The upload goes beyond one of the limits.
    LimitExceeded,
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MalformedArchive => "malformed_archive",
            Self::NoFiles => "no_files",
            Self::InvalidFormat => "invalid_format",
            Self::UnsafeEntry => "unsafe_entry",
            Self::LimitExceeded => "limit_exceeded",
        }
    }
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A refusal: trying the same bytes again is of no use.
#[derive(Debug)]
pub struct Refusal {
    pub reason: Reason,
    /// The member that the refusal is about, with the archives around it.
    pub member: Option<String>,
    message: String,
    cause: Option<Cause>,
}

impl Refusal {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, member: None, message: message.into(), cause: None }
    }

    pub(super) fn caused_by(mut self, cause: impl Into<Cause>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Names the member; the innermost member that was named first stays.
    pub(super) fn at(mut self, member: &str) -> Self {
        self.member.get_or_insert_with(|| member.to_owned());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.member {
            Some(member) => write!(f, "`{}`: {}", member.escape_debug(), self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| -> &(dyn std::error::Error + 'static) { cause.as_ref() })
    }
}

/// Says why an upload was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The upload itself is at fault.
    #[error(transparent)]
    Refused(Refusal),
    /// The storage that holds the upload failed; reading it again may help.
    #[error("cannot read the stored upload")]
    Storage(#[source] io::Error),
    /// The caller set the flag of cancellation.
    #[error("reading the upload was cancelled")]
    Cancelled,
    /// The visitor asked to end.
    #[error("the reader of the files asked to stop")]
    Stopped,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Error {
    pub(super) fn at(self, member: &str) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.at(member)),
            Self::Storage(_) | Self::Cancelled | Self::Stopped => self,
        }
    }
}
