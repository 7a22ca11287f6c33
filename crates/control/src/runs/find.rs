//! Finding a run by its id, or by an unambiguous beginning of it.

use std::str::FromStr;

use redrive_core::id::RunId;
use redrive_core::run::Run;

use crate::error::Result;
use crate::insight::Insight;

/// The beginning of a run's id: the first and the last id that it can stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunIdPrefix {
    pub first: RunId,
    pub last: RunId,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no run's id; give one as `redrive runs list` shows it, or its beginning of {MIN_DIGITS} digits or more"
)]
pub struct NoRunId(String);

/// Fewer digits name a span of years.
const MIN_DIGITS: usize = 8;
const ALL_DIGITS: usize = 32;

impl FromStr for RunIdPrefix {
    type Err = NoRunId;

    fn from_str(text: &str) -> Result<Self, NoRunId> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let fits =
            (MIN_DIGITS..=ALL_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let padded = |with: &str| format!("{digits}{}", with.repeat(ALL_DIGITS - digits.len())).parse();
        match fits.then(|| (padded("0"), padded("f"))) {
            Some((Ok(first), Ok(last))) => Ok(Self { first, last }),
            Some((Err(_), _) | (_, Err(_))) | None => Err(NoRunId(text.to_owned())),
        }
    }
}

/// What an id, or the beginning of one, stands for.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "almost every answer is the large one")]
pub enum Found {
    Nothing,
    One(Run),
    /// More than one run begins like that; these are two of them.
    Several(RunId, RunId),
}

impl Insight {
    pub async fn find_run(&self, prefix: RunIdPrefix) -> Result<Found> {
        if prefix.first == prefix.last {
            return Ok(self.view().run(prefix.first).await?.map_or(Found::Nothing, Found::One));
        }
        let ids = self.view().run_ids_between(prefix.first, prefix.last, 2).await?;
        match ids[..] {
            [] => Ok(Found::Nothing),
            [one] => Ok(self.view().run(one).await?.map_or(Found::Nothing, Found::One)),
            [first, second, ..] => Ok(Found::Several(first, second)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_stands_for_all_ids_that_begin_so() {
        let whole: RunIdPrefix = "019a8f00-1111-7222-8333-444455556666".parse().unwrap();
        assert_eq!(whole.first, whole.last);
        let begun: RunIdPrefix = "019a8f00-11".parse().unwrap();
        assert_eq!(begun.first.to_string(), "019a8f00-1100-0000-0000-000000000000");
        assert_eq!(begun.last.to_string(), "019a8f00-11ff-ffff-ffff-ffffffffffff");
        for wrong in ["", "019a8f0", "019a8f0x", "019a8f00-1111-7222-8333-4444555566667"] {
            assert!(wrong.parse::<RunIdPrefix>().is_err(), "{wrong}");
        }
    }
}
