//! Attempts that a person gives beyond the policy's.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::RetryPolicy;

/// How many further attempts a person gives to what has used up its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Grant {
    Attempts(NonZeroU32),
    /// As many as the policy gives from the start.
    Full,
}

/// A grant is a number of attempts, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number of attempts from 1 on, nor `full`")]
pub struct NotAGrant(String);

impl FromStr for Grant {
    type Err = NotAGrant;

    fn from_str(text: &str) -> Result<Self, NotAGrant> {
        match text {
            "full" => Ok(Self::Full),
            number => number.parse().map(Self::Attempts).map_err(|_| NotAGrant(number.to_owned())),
        }
    }
}

crate::schema::described!(Grant, {"type": "string", "pattern": "^([1-9][0-9]{0,8}|full)$"});

impl TryFrom<String> for Grant {
    type Error = NotAGrant;

    fn try_from(text: String) -> Result<Self, NotAGrant> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempts(number) => write!(f, "{number}"),
            Self::Full => f.write_str("full"),
        }
    }
}

impl RetryPolicy {
    /// What has been granted in all once `grant` is given to what was tried `tried` times and had `before` granted. Attempts
    /// past the limit that nobody granted are forgiven first, so that there are as many further attempts as are given now. A
    /// policy without a limit has nothing to grant.
    pub fn granted(&self, grant: Grant, tried: u32, before: u32) -> u32 {
        let Some(limit) = self.attempt_limit() else { return before };
        let further = match grant {
            Grant::Attempts(number) => number.get(),
            Grant::Full => limit,
        };
        before.max(tried.saturating_sub(limit)).saturating_add(further)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_grant_is_a_number_or_full() {
        for text in ["1", "8", "full"] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
        for wrong in ["0", "-1", "", "all", "1.5"] {
            let error = wrong.parse::<Grant>().unwrap_err().to_string();
            assert!(error.contains("number of attempts from 1 on"), "{error}");
        }
    }

    proptest! {
        /// However often it was tried, and whatever was granted before, a grant gives exactly what it says to what has none left.
        #[test]
        fn a_grant_gives_exactly_so_many_further_attempts(
            limit in 0u32..9, tried in 1u32..40, before in 0u32..20, further in 1u32..9, full: bool,
        ) {
            let policy = RetryPolicy { max_attempts: Some(limit), ..RetryPolicy::partitions() };
            let grant = if full { Grant::Full } else { Grant::Attempts(NonZeroU32::new(further).unwrap()) };
            let left = |tried: u32, granted: u32| (0..).take_while(|more| !policy.is_spent((tried + more).saturating_sub(granted))).count();
            let given = if full { limit.max(1) } else { further };
            let granted = policy.granted(grant, tried, before);
            prop_assert_eq!(left(tried, granted), left(tried, before) + usize::try_from(given).unwrap());
        }
    }
}
