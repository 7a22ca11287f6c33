//! What went wrong with an attempt: its class, and the text that may be kept of it.

use crate::text::{cut, plain};
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

/// Makes a message from the data plane fit to be stored: plain text of bounded length, in which a literal `[terminal]` is
/// disarmed, so that a source cannot stop its own retries. An empty text becomes `(no message)`.
pub fn clean_message(text: &str) -> String {
    // The mark is looked for last: removing characters could have put it together.
    let text = plain(text).replace(TERMINAL_MARK, "(terminal)");
    if text.is_empty() { "(no message)".to_owned() } else { cut(&text, MAX_MESSAGE_BYTES) }
}

/// Makes a stack trace or the like fit to be stored.
pub fn clean_trace(text: &str) -> String {
    cut(&plain(text), MAX_TRACE_BYTES)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_cannot_write_the_terminal_mark() {
        for trick in
            ["[terminal] gone", "x [terminal] y", "[term[terminal]inal]", "[terminal][terminal]", "[term\u{202e}inal]"]
        {
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
