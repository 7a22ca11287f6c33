//! When to try again, or why not: one pure function of the failure and the policy.

mod grant;
mod policy;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::failure::ErrorClass;
use crate::key::PartitionKey;
use crate::time::Timestamp;
use crate::word::words;
pub use grant::{Grant, NotAGrant};
pub use policy::{Backoff, HintRule, MAX_HINT, MIN_HINT, RetryPolicy, bounded_hint};

words!(
    /// Why there is no further attempt.
    StopReason, "stop reason" {
        FinalError = "final_error",
        AttemptsExhausted = "attempts_exhausted",
        TooOld = "too_old",
    }
);

/// A failed attempt, as the policy looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub at: Timestamp,
    pub class: ErrorClass,
    /// When the source said to come back.
    pub retry_after: Option<Duration>,
    /// Attempts that counted so far, this one included.
    pub attempt: u32,
    /// How long it has waited by sources' hints already.
    pub rate_limit_waited: Duration,
    /// How long the work has been wanted.
    pub age: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    At { when: Timestamp, counts: bool },
    Stop(StopReason),
}

/// When to try again after `failure`, or why not.
pub fn next(failure: &Failure, policy: &RetryPolicy) -> Decision {
    match failure.class {
        ErrorClass::Final => return Decision::Stop(StopReason::FinalError),
        ErrorClass::Retryable | ErrorClass::RateLimited => {}
    }
    if policy.max_age.is_some_and(|limit| failure.age >= limit) {
        return Decision::Stop(StopReason::TooOld);
    }
    let hint = match failure.class {
        ErrorClass::RateLimited => failure.retry_after.map(|hint| policy.bounded_hint(hint)),
        ErrorClass::Final | ErrorClass::Retryable => None,
    };
    if let (Some(hint), HintRule::ExactAndFree) = (hint, policy.hint)
        && is_within(policy.rate_limit_budget, failure.rate_limit_waited.saturating_add(hint))
    {
        return Decision::At { when: failure.at.saturating_add(hint), counts: false };
    }
    if policy.is_spent(failure.attempt) {
        return Decision::Stop(StopReason::AttemptsExhausted);
    }
    let delay = policy.jittered_delay(failure.attempt, failure.seed).max(hint.unwrap_or(Duration::ZERO));
    Decision::At { when: failure.at.saturating_add(delay), counts: true }
}

/// Whether a source's hint may be followed without counting an attempt: what the work has waited so already and the hint
/// are together within the budget.
pub fn is_within(budget: Option<Duration>, waited: Duration) -> bool {
    budget.is_none_or(|budget| waited <= budget)
}

/// What fixes a partition's jitter. FNV-1a, so that it never changes with a library.
pub fn seed(key: &PartitionKey) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    key.digest_into(|bytes| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    });
    hash
}
