//! A glimpse of what was found, short and fit to be shown.

use crate::text::{ELLIPSIS, cut, one_line};

/// The longest excerpt, in bytes.
pub const MAX_EXCERPT_BYTES: usize = 80;

/// How much of a text is looked at, so that a long one is not cleaned for nothing.
const LOOKED_AT_BYTES: usize = 4 * MAX_EXCERPT_BYTES;

/// Shows the beginning of a text in one line.
pub fn excerpt(bytes: &[u8]) -> String {
    let begun = &bytes[..bytes.len().min(LOOKED_AT_BYTES)];
    let mut text = String::from_utf8_lossy(begun).into_owned();
    if begun.len() < bytes.len() {
        // Half a character would hide from redaction the beginning of a secret in front of it.
        text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        text.push(ELLIPSIS);
    }
    cut(&one_line(&text), MAX_EXCERPT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_texts_are_shown_as_they_are_and_odd_ones_made_harmless() {
        assert_eq!(excerpt("\"é\"".as_bytes()), "\"é\"");
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt(b"a\0b\x1b[2J\xff"), "ab\u{fffd}");
        assert_eq!(excerpt("a\u{202e}b".as_bytes()), "ab");
        assert_eq!(excerpt("x".repeat(80).as_bytes()), "x".repeat(80));
        assert_eq!(excerpt("x".repeat(81).as_bytes()), "x".repeat(77) + "…");
        assert_eq!(excerpt("\u{202e}".repeat(200).as_bytes()), "…", "text follows, and none of it was looked at");
    }

    proptest! {
        #[test]
        fn no_excerpt_is_longer_than_promised(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,60}") {
            for shown in [excerpt(&bytes), excerpt(text.as_bytes())] {
                prop_assert!(shown.len() <= MAX_EXCERPT_BYTES);
                prop_assert!(!shown.chars().any(char::is_control));
            }
            prop_assert!(text.len() > MAX_EXCERPT_BYTES || excerpt(text.as_bytes()) == one_line(&text));
        }
    }
}
