//! Makes text from outside fit to be kept and shown. Blacking out secrets is the caller's, and comes before folding lines.

use std::borrow::Cow;

/// What stands where a text was cut. Redaction looks for pieces of secrets beside it.
pub const ELLIPSIS: char = '…';

/// Removes terminal escapes, control characters, and characters that reorder or hide other text. Line breaks and tabs
/// stay.
pub fn plain(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\u{1b}' => rest = after_escape(rest),
            '\u{9b}' => rest = after_control_sequence(rest),
            '\n' | '\t' => kept.push(letter),
            letter if letter.is_control() || is_deceptive(letter) => {}
            letter => kept.push(letter),
        }
    }
    if kept.contains(JOINERS) { with_joiners_where_they_join(&kept) } else { kept }
}

/// Zero-width joiners and non-joiners: scripts and emoji need them between two letters. Anywhere else they only hide a
/// difference, as in a word of ASCII letters.
const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

/// Keeps one joiner between two characters that are not ASCII, and no other.
fn with_joiners_where_they_join(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut pending = None;
    for letter in text.chars() {
        if JOINERS.contains(&letter) {
            pending = pending.or(Some(letter));
            continue;
        }
        let joins = !letter.is_ascii() && kept.chars().next_back().is_some_and(|before| !before.is_ascii());
        kept.extend(pending.take().filter(|_| joins));
        kept.push(letter);
    }
    kept
}

/// Writes the characters that [`plain`] removes from JSON as escapes: the value stays, and nothing of it steers a terminal or
/// turns the text beside it. JSON has such characters only inside strings.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let odd = |letter: char| letter.is_control() && letter != '\n' || is_deceptive(letter) || JOINERS.contains(&letter);
    if !json.contains(odd) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if odd(letter) {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

/// Makes a text [`plain`] and folds it into one line: white space that holds a line break or a tab becomes one space.
/// Other spaces stay as they are, except at the ends.
pub fn one_line(text: &str) -> String {
    let plain = plain(text);
    let mut line = String::with_capacity(plain.len());
    for piece in plain.split(['\n', '\t']).map(str::trim).filter(|piece| !piece.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(piece);
    }
    line
}

/// Keeps the beginning of a text, as much as fits into so many bytes. [`ELLIPSIS`] stands where it was cut.
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub(ELLIPSIS.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

/// Characters that turn the direction of writing, break lines unseen, or show nothing. Joiners are dealt with apart, and
/// variation selectors choose between two looks of an emoji.
fn is_deceptive(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The text behind an escape sequence whose `ESC` is already gone. `[` opens a control sequence (colours, the cursor);
/// `]`, `P`, `X`, `^` and `_` open a string (titles, links); other sequences are one character, after intermediates.
fn after_escape(rest: &str) -> &str {
    match rest.chars().next() {
        Some('[') => after_control_sequence(&rest[1..]),
        Some(']' | 'P' | 'X' | '^' | '_') => after_string(&rest[1..]),
        Some(' '..='~') => {
            let rest = rest.trim_start_matches(|c| (' '..='/').contains(&c));
            rest.strip_prefix(|c| ('0'..='~').contains(&c)).unwrap_or(rest)
        }
        Some(_) | None => rest,
    }
}

/// Parameters, intermediates, and one final character.
fn after_control_sequence(rest: &str) -> &str {
    let rest = rest.trim_start_matches(|c| (' '..='?').contains(&c));
    rest.strip_prefix(|c| ('@'..='~').contains(&c)).unwrap_or(rest)
}

/// A string ends with `BEL` or `ESC \`. One that does not end in its line is no string, and its text stays.
fn after_string(rest: &str) -> &str {
    match rest.find(['\u{7}', '\u{1b}', '\n']) {
        Some(end) if rest[end..].starts_with('\u{7}') => &rest[end + 1..],
        Some(end) if rest[end..].starts_with("\u{1b}\\") => &rest[end + 2..],
        Some(_) | None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn colours_titles_and_control_characters_go() {
        let text = "\u{1b}[1;31merror\u{1b}[0m:\tno \u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}\r\u{1b}(Bend\u{1b}";
        assert_eq!(plain(text), "error:\tno linkend");
        assert_eq!(one_line(text), "error: no linkend");
        assert_eq!(plain("a\0b\u{9b}31mc\u{7f}\u{85}d"), "abcd");
    }

    #[test]
    fn characters_that_turn_or_hide_text_go_and_joiners_stay() {
        for odd in ['\u{202e}', '\u{2066}', '\u{2069}', '\u{200f}', '\u{61c}', '\u{200b}', '\u{feff}', '\u{2028}'] {
            assert_eq!(plain(&format!("a{odd}b")), "ab", "{odd:?}");
        }
        for hidden in ["ad\u{200d}min", "\u{200c}é", "é\u{200d}", "é\u{200d}a", "a\u{200c}é", "\u{ad}\u{e0041}\u{3164}"]
        {
            assert!(!plain(hidden).contains(|c| JOINERS.contains(&c) || is_deceptive(c)), "{hidden:?}");
        }
        assert_eq!(plain("é\u{200d}\u{202e}\u{200c}é"), "é\u{200d}é", "one is enough");
        for fine in ["👩\u{200d}🚀", "می\u{200c}خواهم", "e\u{301}", "a  b\n\tc"] {
            assert_eq!(plain(fine), fine);
        }
    }

    #[test]
    fn json_keeps_its_values_and_shows_none_of_those_characters() {
        let value = serde_json::json!({"a\u{202e}b": ["x\u{200b}\u{9b}y\u{2028}", "\u{e0041}é👩\u{200d}🚀"]});
        let shown = escape_json(&value.to_string()).into_owned();
        assert!(!shown.contains(|c: char| c.is_control() || is_deceptive(c) || JOINERS.contains(&c)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert!(matches!(escape_json("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_escape_that_does_not_end_hides_no_text() {
        assert_eq!(plain("a\u{1b}]0;title\nsecond line"), "a0;title\nsecond line");
        assert_eq!(plain("a\u{1b}[31\nsecond line"), "a\nsecond line");
        assert_eq!(plain("a\u{1b}é"), "aé");
    }

    #[test]
    fn lines_are_folded_and_spaces_within_them_stay() {
        assert_eq!(one_line("  <p>\r\n\t two  words \r\n\n</p>\n"), "<p> two  words </p>");
        assert_eq!(one_line("\n \t"), "");
    }

    proptest! {
        #[test]
        fn no_text_keeps_anything_that_steers_a_terminal(text in any::<String>(), noise in "[\u{1b}\u{9b}\u{7}\u{202e}\\[\\]0-9;m\\\\ \n\ta-c]{0,40}") {
            for text in [text, noise] {
                let once = plain(&text);
                prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t' || is_deceptive(c)));
                prop_assert_eq!(plain(&once), once);
                let line = one_line(&text);
                prop_assert!(!line.chars().any(|c| c.is_control() || is_deceptive(c)));
                prop_assert_eq!(one_line(&line), line);
            }
        }

        #[test]
        fn a_cut_text_fits_and_says_that_it_was_cut(text in any::<String>(), limit in 3_usize..40) {
            let shown = cut(&text, limit);
            prop_assert!(shown.len() <= limit);
            prop_assert!(shown == text || shown.strip_suffix(ELLIPSIS).is_some_and(|begun| text.starts_with(begun)));
        }
    }
}
