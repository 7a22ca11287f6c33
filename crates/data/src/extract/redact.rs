//! Secrets blacked out of what is shown, however they are written and wherever a text was cut.
//!
//! Whoever cuts a text marks the place with `…`. A piece of a secret that a cut has left beside such a mark is known by
//! its beginning or its end, so it does not matter whether a text is cut before or after it comes here.

use std::collections::BTreeSet;

use percent_encoding::utf8_percent_encode;
use redrive_core::failure::ELLIPSIS;

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
    let mut forms: Vec<String> = forms.into_iter().collect();
    // A secret that holds another one must go first.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.iter().fold(text.to_owned(), |text, form| black_out(&text, form))
}

/// A secret, and its lines: a text of several lines is seldom shown as one.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let whole = Some(secret).filter(|secret| secret.len() >= SHORTEST);
    let lines = secret.split(char::is_control).map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
    whole.into_iter().chain(lines)
}

/// A secret as it may be written: plain, inside quotes with its backslashes and quotes escaped, and in a URL.
fn forms(secret: &str) -> [String; 8] {
    let json = serde_json::Value::from(secret).to_string();
    let json = &json[1..json.len() - 1];
    let slashes = secret.replace('\\', r"\\");
    [
        secret.to_owned(),
        json.to_owned(),
        json.replace('/', r"\/"),
        in_ascii(json),
        slashes.replace('\'', r"\'"),
        slashes,
        utf8_percent_encode(secret, URL).to_string(),
        url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
    ]
}

/// JSON as many programs write it, with nothing in it but ASCII.
fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if c.is_ascii() => text.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    text
}

fn black_out(text: &str, form: &str) -> String {
    let text = text.replace(form, BLACK);
    if !text.contains(ELLIPSIS) {
        return text;
    }
    let last = text.split(ELLIPSIS).count() - 1;
    let pieces = text.split(ELLIPSIS).enumerate().map(|(i, piece)| {
        let (after_cut, before_cut) = (i > 0, i < last);
        if after_cut && before_cut && piece.len() >= SHORTEST && form.contains(piece) {
            return BLACK.to_owned();
        }
        let piece = if after_cut { without_end(piece, form) } else { piece.to_owned() };
        if before_cut { without_beginning(&piece, form) } else { piece }
    });
    pieces.collect::<Vec<_>>().join(&ELLIPSIS.to_string())
}

/// The text without the beginning of a secret at its end.
fn without_beginning(text: &str, form: &str) -> String {
    let mut lengths = (SHORTEST..form.len().min(text.len() + 1)).rev().filter(|&length| form.is_char_boundary(length));
    match lengths.find(|&length| text.ends_with(&form[..length])) {
        Some(length) => format!("{}{BLACK}", &text[..text.len() - length]),
        None => text.to_owned(),
    }
}

/// The text without the end of a secret at its beginning.
fn without_end(text: &str, form: &str) -> String {
    let shortest = form.len().saturating_sub(text.len()).max(1);
    let mut starts = (shortest..=form.len().saturating_sub(SHORTEST)).filter(|&start| form.is_char_boundary(start));
    match starts.find(|&start| text.starts_with(&form[start..])) {
        Some(start) => format!("{BLACK}{}", &text[form.len() - start..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
