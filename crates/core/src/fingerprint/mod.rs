//! Failure groups: which failures have one cause.
//!
//! [`fingerprint`] is a pure function of a failure's class, code and message. What differs from one try to the next
//! (numbers, ids, quoted parts, times, addresses, the values of the work's own key) is folded into holes such as `<id>`;
//! what remains is the template that people are shown, and its hash is the group. The time it takes grows with the message's
//! length and no faster.

mod atom;
mod failed;
mod finding;
mod fold;
mod group;
mod stack;
mod template;
mod words;

pub use failed::{of_partition, of_run, of_try};
pub use group::{GroupId, GroupPrefix, NoGroupId};

use crate::failure::{ErrorClass, MAX_MESSAGE_BYTES, TERMINAL_MARK};
use crate::text::ELLIPSIS;

/// What a failure is grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    pub group: GroupId,
    /// The message with its holes, on one line, fit to be shown.
    pub template: String,
}

/// Finds the group of a failure. `code` is a rule's or an error's own name where one is known beside the message.
/// `own` holds the values of the failed work's own key: they are folded where they stand as words.
///
/// The message has been redacted by its writer; a terminal mark in front of it does not count.
pub fn fingerprint(class: ErrorClass, code: Option<&str>, message: &str, own: &[&str]) -> Fingerprint {
    let message = seen(message);
    let template = finding::template(message).unwrap_or_else(|| fold::template(message, own));
    Fingerprint { group: GroupId::of(class, code, &template), template }
}

/// The part of a message that counts: without the terminal mark, and without the word that a cut left half.
fn seen(message: &str) -> &str {
    let message =
        message.trim_start_matches(|letter: char| letter.is_whitespace()).trim_start_matches(TERMINAL_MARK).trim();
    let end = (0..=MAX_MESSAGE_BYTES.min(message.len())).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    let shown = &message[..end];
    match shown.strip_suffix(ELLIPSIS) {
        Some(begun) => begun.rfind(char::is_whitespace).map_or(begun, |space| &begun[..space]),
        None => shown,
    }
}

#[cfg(test)]
mod tests;
