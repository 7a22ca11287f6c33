//! What can stop an extraction.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_store::raw;

use super::redact::redact;

/// The source, or the way to it, failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub class: ErrorClass,
    pub message: String,
    /// The source's own word on when to come again.
    pub retry_after: Option<Duration>,
    /// Whom a rate limit holds back.
    pub scope: Scope,
}

/// Whom a source's "slow down" is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Customer,
    Source,
}

impl Failure {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None, scope: Scope::Customer }
    }

    pub fn retryable(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Retryable, message)
    }

    pub fn fatal(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Final, message)
    }

    pub fn rate_limited(message: impl Into<String>, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..Self::new(ErrorClass::RateLimited, message) }
    }

    pub fn of_source(self) -> Self {
        Self { scope: Scope::Source, ..self }
    }
}

/// Why an extraction did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Source(#[from] Failure),
    /// The raw sink failed: no fault of the source, and no attempt of the partition.
    #[error(transparent)]
    Sink(#[from] raw::Error),
}

impl Error {
    /// The same with every secret in the source's words blacked out.
    pub(super) fn redacted(self, secrets: &[String]) -> Self {
        match self {
            Self::Source(failure) => Self::Source(Failure { message: redact(&failure.message, secrets), ..failure }),
            Self::Sink(error) => Self::Sink(error),
        }
    }
}
