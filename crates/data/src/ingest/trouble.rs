//! Why an archive was not parsed: for good, or until storage, network or database are well again.

use std::error::Error as StdError;
use std::fmt::Write as _;

use redrive_core::cause::chain;
use redrive_core::failure::ErrorClass;
use redrive_core::run::Fault;

use super::archive::{Reason, Refusal};

/// What went wrong, as `metrics.error_type` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    MalformedArchive,
    NoFiles,
    InvalidFormat,
    UnsafeEntry,
    LimitExceeded,
    /// The sink did not give the bytes.
    Storage,
    /// The database did not take the stanzas.
    Database,
    /// The program itself failed.
    Internal,
}

impl std::fmt::Display for ErrorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ErrorType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MalformedArchive => "malformed_archive",
            Self::NoFiles => "no_files",
            Self::InvalidFormat => "invalid_format",
            Self::UnsafeEntry => "unsafe_entry",
            Self::LimitExceeded => "limit_exceeded",
            Self::Storage => "storage_error",
            Self::Database => "database_error",
            Self::Internal => "internal_error",
        }
    }

    /// Whether trying again can help.
    pub fn class(self) -> ErrorClass {
        match self {
            Self::MalformedArchive | Self::NoFiles | Self::InvalidFormat | Self::UnsafeEntry | Self::LimitExceeded => {
                ErrorClass::Final
            }
            Self::Storage | Self::Database | Self::Internal => ErrorClass::Retryable,
        }
    }
}

/// What stops an attempt.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) error_type: ErrorType,
    message: String,
    trace: String,
}

impl Trouble {
    pub(super) fn of_archive(refusal: &Refusal, upload: &str) -> Self {
        let error_type = match refusal.reason {
            Reason::MalformedArchive => ErrorType::MalformedArchive,
            Reason::NoFiles => ErrorType::NoFiles,
            Reason::InvalidFormat => ErrorType::InvalidFormat,
            Reason::UnsafeEntry => ErrorType::UnsafeEntry,
            Reason::LimitExceeded => ErrorType::LimitExceeded,
        };
        let member = refusal.member.as_ref().map(|member| format!(", member {}", member.escape_debug()));
        Self::of(error_type, refusal, &format!("reading upload {upload}{}", member.unwrap_or_default()))
    }

    pub(super) fn of(error_type: ErrorType, error: &(dyn StdError + 'static), doing: &str) -> Self {
        let mut trace = format!("{error_type}: {error}\n  while {doing}");
        for cause in chain(error).skip(1) {
            let _ = write!(trace, "\n  caused by: {cause}");
        }
        Self { error_type, message: error.to_string(), trace }
    }

    pub(super) fn fault(self) -> Fault {
        Fault { class: self.error_type.class(), message: self.message, trace: Some(self.trace), retry_after: None }
    }
}
