//! How sure an operator must be before many partitions change, and before retries of one are stopped.

use crate::retry::RetryPolicy;

/// What stands between a request and its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confirmation {
    None,
    /// Ask yes or no.
    YesNo,
    /// Have the number typed.
    TypeNumber,
    /// More than the hard limit: only force will do.
    OverLimit,
}

/// The configured numbers above which an operator must be surer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rails {
    pub confirm_above: u64,
    pub hard_limit: u64,
}

/// What the operator agreed to in advance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    pub yes: bool,
    pub force: bool,
}

/// What a change of `count` partitions asks for.
pub fn confirmation(count: u64, rails: Rails, given: Given) -> Confirmation {
    if given.force {
        return Confirmation::None;
    }
    if count > rails.hard_limit {
        return Confirmation::OverLimit;
    }
    if given.yes || count <= 1 {
        return Confirmation::None;
    }
    if count > rails.confirm_above { Confirmation::TypeNumber } else { Confirmation::YesNo }
}

/// From how many attempts on a partition may be marked terminal: the configured number, otherwise the policy's limit, and
/// without either one attempt.
pub fn terminal_threshold(configured: Option<u32>, policy: &RetryPolicy) -> u32 {
    configured.or(policy.attempt_limit()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_more_change_the_surer_one_must_be() {
        let rails = Rails { confirm_above: 20, hard_limit: 10_000 };
        let ask = |count, yes, force| confirmation(count, rails, Given { yes, force });
        assert_eq!(
            [0, 1, 2, 20].map(|n| ask(n, false, false)),
            [Confirmation::None, Confirmation::None, Confirmation::YesNo, Confirmation::YesNo]
        );
        assert_eq!(ask(21, false, false), Confirmation::TypeNumber);
        assert_eq!(ask(10_000, true, false), Confirmation::None);
        assert_eq!(ask(10_001, true, false), Confirmation::OverLimit);
        assert_eq!(ask(1_000_000, false, true), Confirmation::None);
    }

    #[test]
    fn the_threshold_is_configured_or_the_policys_or_one() {
        let limited = RetryPolicy { max_attempts: Some(8), ..RetryPolicy::partitions() };
        let unlimited = RetryPolicy { max_attempts: None, ..RetryPolicy::partitions() };
        assert_eq!(terminal_threshold(Some(3), &limited), 3);
        assert_eq!(Some(terminal_threshold(None, &limited)), limited.attempt_limit());
        assert_eq!(terminal_threshold(None, &unlimited), unlimited.attempt_limit().unwrap_or(1));
    }

    proptest! {
        /// More partitions never ask for less.
        #[test]
        fn confirmation_rises_with_the_count(
            counts in (0u64..100, 0u64..100), confirm_above in 0u64..100, hard_limit in 0u64..100,
            yes: bool, force: bool,
        ) {
            let (rails, given) = (Rails { confirm_above, hard_limit }, Given { yes, force });
            let (fewer, more) = (counts.0.min(counts.1), counts.0.max(counts.1));
            prop_assert!(confirmation(fewer, rails, given) <= confirmation(more, rails, given));
        }

        /// Agreeing in advance never asks for more, and only force passes the hard limit.
        #[test]
        fn only_force_passes_the_hard_limit(
            count in 0u64..100, confirm_above in 0u64..100, hard_limit in 0u64..100, yes: bool,
        ) {
            let rails = Rails { confirm_above, hard_limit };
            let ask = |yes, force| confirmation(count, rails, Given { yes, force });
            prop_assert!(ask(true, false) <= ask(false, false));
            prop_assert_eq!(ask(yes, true), Confirmation::None);
            prop_assert_eq!(ask(yes, false) == Confirmation::OverLimit, count > hard_limit);
        }
    }
}
