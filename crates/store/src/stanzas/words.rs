//! The words of a value: runs of letters, digits and underscores, as they are written. Both databases index the same
//! words, because they are found here and not by them.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

/// Lists the words of a text.
pub fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_of_word(letter)).filter(|word| !word.is_empty())
}

pub(super) fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || (!letter.is_ascii() && letter.is_alphanumeric())
}

/// What stands for a word in the index. Two words may share it: what is found is compared with the word itself.
pub(super) fn hash(word: &str) -> u32 {
    let mut hasher = SipHasher13::new();
    hasher.write(word.as_bytes());
    u32::try_from(hasher.finish() >> 32).unwrap_or_default()
}

/// Tells whether a text holds `phrase` with no letter, digit or underscore right before or after it, where the phrase
/// itself begins or ends with one.
pub(super) fn holds(text: &str, phrase: &str) -> bool {
    let begins = phrase.starts_with(is_of_word);
    let ends = phrase.ends_with(is_of_word);
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back().filter(|_| begins);
        let after = text[at + phrase.len()..].chars().next().filter(|_| ends);
        !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_letters_digits_and_underscores() {
        let words: Vec<_> = words_of("`my_macro(2)` index=main | eval größe=\"a.b\"").collect();
        assert_eq!(words, ["my_macro", "2", "index", "main", "eval", "größe", "a", "b"]);
        assert_eq!(words_of("=*()").count(), 0);
    }

    #[test]
    fn a_phrase_is_held_whole() {
        assert!(holds("| `my_macro(2)` |", "my_macro") && holds("a my_macro", "my_macro"));
        assert!(!holds("not_my_macro", "my_macro") && !holds("my_macro2", "my_macro"));
        assert!(holds("xmy_macro my_macro", "my_macro") && holds("a=b", "=b") && holds("xa=b", "=b"));
    }
}
