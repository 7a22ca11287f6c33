//! What went wrong with a piece of work, of which class, and when to come again.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::retry::{MAX_HINT, bounded_hint};

/// A source, a handler or the way to it failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub class: ErrorClass,
    pub message: String,
    /// The source's own word on when to come again; set by [`Failure::after`].
    pub retry_after: Option<Duration>,
    /// Whom a rate limit, or what is missing here, holds back.
    pub scope: Scope,
    /// What has to be put right before it helps to try again.
    pub blame: Blame,
}

/// Where the cause of a failure lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// In the work itself, in its source, or on the way there.
    Work,
    /// In what is configured or installed here: the program is not there, a secret cannot be read, an address is
    /// forbidden. No other piece of work of the same kind would fare better.
    Setup,
}

/// A span in seconds as sources write it, however long; none when it is no span.
pub(crate) fn span(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Whom a source's "slow down" is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Customer,
    Source,
}

impl Failure {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None, scope: Scope::Customer, blame: Blame::Work }
    }

    pub fn retryable(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Retryable, message)
    }

    pub fn fatal(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Final, message)
    }

    pub fn rate_limited(message: impl Into<String>, retry_after: Option<Duration>) -> Self {
        Self::new(ErrorClass::RateLimited, message).after(retry_after)
    }

    /// With the source's word on when to come again, as far as such a word is followed.
    pub fn after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }.waiting_at_most(MAX_HINT)
    }

    /// Keeps the wait within bounds, and says in the log where it is shortened.
    pub(crate) fn waiting_at_most(self, longest: Duration) -> Self {
        let Some(asked) = self.retry_after else { return self };
        let waits = bounded_hint(asked, longest);
        if waits < asked {
            let (asked_s, waits_s) = (asked.as_secs(), waits.as_secs());
            tracing::warn!(asked_s, waits_s, "a source asks to be left alone for longer than is heeded");
        }
        Self { retry_after: Some(waits), ..self }
    }

    /// The same, where what is configured or installed here is to blame and not the work: nothing of the source can be
    /// asked for.
    pub fn of_setup(self) -> Self {
        Self { blame: Blame::Setup, scope: Scope::Source, ..self }
    }

    /// The same, where other customers of the source are not concerned.
    pub fn of_customer(self) -> Self {
        Self { scope: Scope::Customer, ..self }
    }

    pub fn of_source(self) -> Self {
        Self { scope: Scope::Source, ..self }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::retry::MIN_HINT;

    use super::*;

    #[test]
    fn a_hint_is_bounded_whatever_the_source_says() {
        let waits = |seconds| Failure::rate_limited("slow", span(seconds)).retry_after;
        assert_eq!(waits(1.5), Some(Duration::from_millis(1500)));
        // "Come at once" would be followed for ever: such waits are bounded by their sum.
        assert_eq!(waits(0.0), Some(MIN_HINT));
        for seconds in [1e7, 1e12, 1e300] {
            assert_eq!(waits(seconds), Some(MAX_HINT), "{seconds}");
        }
        let told = Failure::rate_limited("slow", span(1e6)).waiting_at_most(Duration::from_secs(60));
        assert_eq!(told.retry_after, Some(Duration::from_secs(60)));
        for seconds in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(waits(seconds), None, "{seconds}");
        }
    }
}
