//! A glimpse of what was found, short and fit to be shown.

use crate::failure::cut;

/// The longest excerpt, in bytes.
pub const MAX_EXCERPT_BYTES: usize = 80;

/// The beginning of a text. What would move the reader's cursor, or turn his line round, is replaced.
pub fn excerpt(bytes: &[u8]) -> String {
    // A character that is cut off at the end of this is past the limit in any case.
    let begun = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_EXCERPT_BYTES + 4)]);
    let shown: String = begun.chars().map(|letter| if is_unfit(letter) { '\u{fffd}' } else { letter }).collect();
    cut(&shown, MAX_EXCERPT_BYTES)
}

fn is_unfit(letter: char) -> bool {
    let formats =
        matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    letter.is_control() || formats
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_texts_are_shown_as_they_are_and_odd_ones_made_harmless() {
        assert_eq!(excerpt("\"é\"".as_bytes()), "\"é\"");
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt(b"a\0b\x1b[2J\xff"), "a\u{fffd}b\u{fffd}[2J\u{fffd}");
        assert_eq!(excerpt("a\u{202e}b".as_bytes()), "a\u{fffd}b");
        assert_eq!(excerpt("x".repeat(80).as_bytes()), "x".repeat(80));
        assert_eq!(excerpt("x".repeat(81).as_bytes()), "x".repeat(77) + "…");
    }

    proptest! {
        #[test]
        fn no_excerpt_is_longer_than_promised(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,60}") {
            for shown in [excerpt(&bytes), excerpt(text.as_bytes())] {
                prop_assert!(shown.len() <= MAX_EXCERPT_BYTES);
                prop_assert!(!shown.chars().any(char::is_control));
            }
            prop_assert!(text.len() > MAX_EXCERPT_BYTES || text.chars().any(is_unfit) || excerpt(text.as_bytes()) == text);
        }
    }
}
