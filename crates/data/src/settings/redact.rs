//! Secrets blacked out of what is shown, however they are written and wherever a text was cut.
//!
//! Whoever cuts a text marks the place with `…`. A piece of a secret that a cut has left beside such a mark is known by
//! its beginning or its end, so it does not matter whether a text is cut before or after it comes here.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::utf8_percent_encode;
use redrive_core::text::ELLIPSIS;

use super::template::URL;

/// Shorter secrets, and shorter pieces of one, would black out half of any text.
const SHORTEST: usize = 4;

/// Shorter lines of a secret that has several are words like any other.
const SHORTEST_LINE: usize = 8;

const BLACK: &str = "***";

/// The text with every secret in it blacked out: as it is, line by line, as programs quote it, and what a cut has left
/// of it.
pub fn redact(text: &str, secrets: &[String]) -> String {
    let forms: BTreeSet<String> = secrets.iter().flat_map(|secret| parts(secret)).flat_map(forms).collect();
    // What is found is first gathered and only then taken out, so that nothing hides what it overlaps.
    let mut black = vec![false; text.len()];
    for form in &forms {
        mark_whole(text, form, &mut black);
        mark_pieces(text, form, &mut black);
    }
    let mut shown = String::with_capacity(text.len());
    let mut was_black = false;
    for (at, letter) in text.char_indices() {
        match (black[at], was_black) {
            (true, false) => shown.push_str(BLACK),
            (true, true) => {}
            (false, _) => shown.push(letter),
        }
        was_black = black[at];
    }
    shown
}

/// A secret, and its lines: a text of several lines is seldom shown as one.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let whole = Some(secret).filter(|secret| secret.len() >= SHORTEST);
    let lines = secret.split(char::is_control).map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
    whole.into_iter().chain(lines)
}

/// A secret as it may be written: plain, inside quotes with its backslashes and quotes escaped, in a URL, and in base64.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::Value::from(secret).to_string();
    let json = &json[1..json.len() - 1];
    let slashes = secret.replace('\\', r"\\");
    let url = utf8_percent_encode(secret, URL).to_string();
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let mut forms = vec![
        secret.to_owned(),
        json.to_owned(),
        json.replace('/', r"\/"),
        in_ascii(json, |unit| format!("\\u{unit:04x}")),
        in_ascii(json, |unit| format!("\\u{unit:04X}")),
        slashes.replace('\'', r"\'"),
        slashes,
        small_escapes(&url),
        small_escapes(&form),
        url,
        form,
    ];
    forms.extend([STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].map(|base64| base64.encode(secret)));
    forms
}

/// JSON as many programs write it, with nothing in it but ASCII.
fn in_ascii(json: &str, escape: impl Fn(u16) -> String) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if c.is_ascii() => text.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&escape(*unit))),
        }
    }
    text
}

/// `%2F` as `%2f`. A percent sign of the secret's own is escaped itself, so each one begins an escape.
fn small_escapes(escaped: &str) -> String {
    let mut since_percent = usize::MAX;
    let small = |c: char| {
        since_percent = if c == '%' { 0 } else { since_percent.saturating_add(1) };
        if since_percent <= 2 { c.to_ascii_lowercase() } else { c }
    };
    escaped.chars().map(small).collect()
}

/// Marks every place where it stands whole.
fn mark_whole(text: &str, form: &str, black: &mut [bool]) {
    let step = form.chars().next().map_or(1, char::len_utf8);
    let (mut from, mut marked) = (0, 0);
    while let Some(found) = text[from..].find(form) {
        let (start, end) = (from + found, from + found + form.len());
        black[start.max(marked)..end].fill(true);
        (from, marked) = (start + step, end);
    }
}

/// Marks what a cut has left of it: its beginning before a cut, its end after one, its middle between two.
fn mark_pieces(text: &str, form: &str, black: &mut [bool]) {
    let mut start = 0;
    let last = text.rfind(ELLIPSIS);
    for piece in text.split(ELLIPSIS) {
        let end = start + piece.len();
        let (after_cut, before_cut) = (start > 0, last.is_some_and(|last| end <= last));
        if after_cut && before_cut && piece.len() >= SHORTEST && form.contains(piece) {
            black[start..end].fill(true);
        }
        let mut lengths = (SHORTEST..=form.len().min(piece.len())).rev();
        if before_cut && let Some(length) = lengths.clone().find(|&length| ends_with_beginning(piece, form, length)) {
            black[end - length..end].fill(true);
        }
        if after_cut && let Some(length) = lengths.find(|&length| begins_with_end(piece, form, length)) {
            black[start..start + length].fill(true);
        }
        start = end + ELLIPSIS.len_utf8();
    }
}

fn ends_with_beginning(piece: &str, form: &str, length: usize) -> bool {
    form.get(..length).is_some_and(|beginning| piece.ends_with(beginning))
}

fn begins_with_end(piece: &str, form: &str, length: usize) -> bool {
    form.get(form.len() - length..).is_some_and(|end| piece.starts_with(end))
}

#[cfg(test)]
mod tests;
