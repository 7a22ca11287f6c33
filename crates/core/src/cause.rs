//! Errors and what caused them.

use std::error::Error;
use std::iter::successors;

/// An error and its causes, the nearest first.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// What these errors say, one after another. A text that stands in those before it is left out: libraries repeat their
/// causes.
pub fn in_words<'a>(errors: impl Iterator<Item = &'a (dyn Error + 'static)>) -> String {
    let mut text = String::new();
    for more in errors.map(ToString::to_string) {
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{says}")]
    struct Caused {
        says: &'static str,
        source: Option<Box<Caused>>,
    }

    #[test]
    fn what_was_said_before_is_not_said_again() {
        let deepest = Caused { says: "no route", source: None };
        let middle = Caused { says: "cannot connect: no route", source: Some(Box::new(deepest)) };
        let top = Caused { says: "request failed", source: Some(Box::new(middle)) };
        assert_eq!(in_words(chain(&top)), "request failed: cannot connect: no route");
        assert_eq!(in_words(chain(&top).skip(1)), "cannot connect: no route");
        assert_eq!(in_words(chain(&top).skip(3)), "");
    }
}
