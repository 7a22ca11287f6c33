//! What went wrong with an attempt: its class, and the text that may be kept of it.

use crate::word::words;

words!(
    /// Who can do something about an error, and so whether trying again helps.
    ErrorClass, "error class" {
        /// Trying again gives the same answer.
        Final = "final",
        /// Trying again may help. An unknown error counts as this: the reverse would lose data silently.
        Retryable = "retryable",
        /// The source asked us to slow down.
        RateLimited = "rate_limited",
    }
);

/// What a terminal partition's error message begins with.
pub const TERMINAL_MARK: &str = "[terminal]";

/// The longest error message and trace that are kept, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024;
pub const MAX_TRACE_BYTES: usize = 64 * 1024;

/// What stands where a text was cut. Whoever blacks out secrets looks for pieces of them beside it.
pub const ELLIPSIS: char = '…';

/// A message from the data plane as it may be stored: a literal `[terminal]` in it is disarmed, so that a source cannot
/// stop its own retries, NUL (which PostgreSQL text cannot hold) is replaced, its length is bounded, and silence is said.
pub fn clean_message(text: &str) -> String {
    if text.is_empty() {
        return "(no message)".to_owned();
    }
    cut(&text.replace(TERMINAL_MARK, "(terminal)").replace('\0', "\u{fffd}"), MAX_MESSAGE_BYTES)
}

/// A stack trace or the like, as it may be stored.
pub fn clean_trace(text: &str) -> String {
    cut(&text.replace('\0', "\u{fffd}"), MAX_TRACE_BYTES)
}

/// Puts the terminal mark in front of a message, once.
pub fn with_terminal_mark(message: Option<&str>) -> String {
    match message {
        None | Some("") => TERMINAL_MARK.to_owned(),
        Some(text) if text.starts_with(TERMINAL_MARK) => text.to_owned(),
        Some(text) => format!("{TERMINAL_MARK} {text}"),
    }
}

/// Takes the terminal mark off again.
pub fn without_terminal_mark(message: &str) -> Option<String> {
    let bare = message.strip_prefix(TERMINAL_MARK).map_or(message, |rest| rest.strip_prefix(' ').unwrap_or(rest));
    (!bare.is_empty()).then(|| bare.to_owned())
}

/// The beginning of a text, as much as fits into so many bytes; [`ELLIPSIS`] stands where it was cut.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_cannot_write_the_terminal_mark() {
        for trick in ["[terminal] gone", "x [terminal] y", "[term[terminal]inal]", "[terminal][terminal]"] {
            assert!(!clean_message(trick).contains(TERMINAL_MARK), "{trick:?} → {:?}", clean_message(trick));
        }
        assert!(!clean_message("a\0b").contains('\0'));
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let cut = clean_message(&"é".repeat(MAX_MESSAGE_BYTES));
        assert!(cut.len() <= MAX_MESSAGE_BYTES && cut.ends_with('…'));
    }

    #[test]
    fn the_mark_goes_on_once_and_comes_off_again() {
        for message in [None, Some("boom"), Some(" boom ")] {
            let marked = with_terminal_mark(message);
            assert!(marked.starts_with(TERMINAL_MARK));
            assert_eq!(with_terminal_mark(Some(&marked)), marked);
            assert_eq!(without_terminal_mark(&marked).as_deref(), message);
        }
    }

    #[test]
    fn an_unknown_class_is_an_error() {
        let wrong = "fatal".parse::<ErrorClass>().unwrap_err();
        assert_eq!(wrong.to_string(), "error class \"fatal\" is unknown; it is one of final, retryable, rate_limited");
    }
}
