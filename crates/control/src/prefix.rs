//! Ids by their beginnings, as people type them.

use std::str::FromStr;

/// The beginning of an id: the first and the last id that it can stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdPrefix<Id> {
    pub first: Id,
    pub last: Id,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id; give one as the list shows it, or its beginning of {MIN_DIGITS} digits or more")]
pub struct NoId(String);

/// Fewer digits name a span of years.
const MIN_DIGITS: usize = 8;
const ALL_DIGITS: usize = 32;

impl<Id: FromStr> FromStr for IdPrefix<Id> {
    type Err = NoId;

    fn from_str(text: &str) -> Result<Self, NoId> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let fits =
            (MIN_DIGITS..=ALL_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let padded = |with: &str| format!("{digits}{}", with.repeat(ALL_DIGITS - digits.len())).parse();
        match fits.then(|| (padded("0"), padded("f"))) {
            Some((Ok(first), Ok(last))) => Ok(Self { first, last }),
            Some((Err(_), _) | (_, Err(_))) | None => Err(NoId(text.to_owned())),
        }
    }
}

/// What an id, or the beginning of one, stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Found<T, Id> {
    Nothing,
    One(T),
    /// More than one begins like that; these are two of them.
    Several(Id, Id),
}

impl<Id: Copy> Found<Id, Id> {
    /// Of the first ids that begin so.
    pub(crate) fn of(ids: &[Id]) -> Self {
        match *ids {
            [] => Self::Nothing,
            [one] => Self::One(one),
            [first, second, ..] => Self::Several(first, second),
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::id::RunId;

    use super::*;

    #[test]
    fn a_beginning_stands_for_all_ids_that_begin_so() {
        let whole: IdPrefix<RunId> = "019a8f00-1111-7222-8333-444455556666".parse().unwrap();
        assert_eq!(whole.first, whole.last);
        let begun: IdPrefix<RunId> = "019a8f00-11".parse().unwrap();
        assert_eq!(begun.first.to_string(), "019a8f00-1100-0000-0000-000000000000");
        assert_eq!(begun.last.to_string(), "019a8f00-11ff-ffff-ffff-ffffffffffff");
        for wrong in ["", "019a8f0", "019a8f0x", "019a8f00-1111-7222-8333-4444555566667"] {
            assert!(wrong.parse::<IdPrefix<RunId>>().is_err(), "{wrong}");
        }
    }
}
