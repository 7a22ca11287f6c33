//! Where in a record a field is: names joined by dots, from the outermost object inwards.
//!
//! Only objects are walked into. A path says nothing about the elements of an array.

use std::fmt;
use std::str::FromStr;

/// A dot that belongs to a name is written `\.`, a backslash `\\`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<String>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("field {path:?} has an empty name in it; join names with single dots")]
    EmptyName { path: String },
    #[error("field {path:?} has a backslash before neither a dot nor a backslash; write it twice")]
    Escape { path: String },
}

impl FieldPath {
    /// Never empty.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, PathError> {
        let mut names = Vec::new();
        let mut name = String::new();
        let mut rest = path.chars();
        loop {
            let letter = rest.next();
            match letter {
                Some('.') | None if name.is_empty() => return Err(PathError::EmptyName { path: path.to_owned() }),
                Some('.') | None => names.push(std::mem::take(&mut name)),
                Some('\\') => match rest.next() {
                    Some(escaped @ ('.' | '\\')) => name.push(escaped),
                    Some(_) | None => return Err(PathError::Escape { path: path.to_owned() }),
                },
                Some(letter) => name.push(letter),
            }
            if letter.is_none() {
                return Ok(Self(names));
            }
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, name) in self.0.iter().enumerate() {
            let dot = if depth == 0 { "" } else { "." };
            write!(f, "{dot}{}", name.replace('\\', "\\\\").replace('.', "\\."))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dots_part_names_unless_they_are_escaped() {
        let names = |path: &str| path.parse::<FieldPath>().unwrap().names().to_vec();
        assert_eq!(names("campaign.id"), ["campaign", "id"]);
        assert_eq!(names(r"a\.b.c\\"), ["a.b", r"c\"]);
        assert_eq!(names("é 1"), ["é 1"]);
    }

    #[test]
    fn slips_are_named() {
        for bad in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(bad.parse::<FieldPath>(), Err(PathError::EmptyName { path: bad.to_owned() }));
        }
        for bad in [r"a\b", r"a\"] {
            assert_eq!(bad.parse::<FieldPath>(), Err(PathError::Escape { path: bad.to_owned() }));
        }
    }

    proptest! {
        #[test]
        fn any_names_can_be_written(names in prop::collection::vec(r"[a.\\é]{1,4}", 1..4)) {
            let path = FieldPath(names);
            prop_assert_eq!(path.to_string().parse::<FieldPath>().unwrap(), path);
        }
    }
}
