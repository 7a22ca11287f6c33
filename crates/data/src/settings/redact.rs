//! Secrets blacked out of what is shown, however they are written and wherever a text was cut.
//!
//! Every cut of a text is marked with `…`. A piece of a secret that a cut has left beside such a mark is known by its
//! beginning or its end, so it does not matter whether a text is cut before or after it comes here.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use percent_encoding::utf8_percent_encode;
use redrive_core::text::ELLIPSIS;

use super::template::URL;

/// Shorter secrets, and shorter pieces of one, would black out half of any text.
const SHORTEST: usize = 4;

/// Shorter lines of a secret that has several are words like any other.
const SHORTEST_LINE: usize = 8;

const BLACK: &str = "***";

/// Blacks out secrets in one text. For several texts a [`Redactor`] is made once.
pub fn redact(text: &str, secrets: &[String]) -> String {
    Redactor::new(secrets).redact(text)
}

/// Blacks out a set of secrets.
#[derive(Default)]
pub struct Redactor {
    secrets: Vec<String>,
    forms: Vec<Form>,
    /// Finds every form, those that overlap included. None where there are more secrets than it can hold.
    automaton: Option<AhoCorasick>,
}

/// A secret in one of the ways in which it may be written.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Form {
    text: String,
    /// In base64, whether the letter before it and the one after it hold some bits of the secret too.
    shared: [bool; 2],
}

/// The redactor that an attempt made last. It makes another one only where a secret was read or renewed since then.
#[derive(Debug, Default)]
pub(crate) struct LatestRedactor(Mutex<Option<Arc<Redactor>>>);

impl LatestRedactor {
    pub(crate) fn of(&self, secrets: &[String]) -> Arc<Redactor> {
        // What is inside is whole whenever the lock is free, also after a panic.
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some(redactor) if redactor.secrets == secrets => Arc::clone(redactor),
            // Most work has none.
            _ if secrets.is_empty() => Arc::default(),
            _ => Arc::clone(latest.insert(Arc::new(Redactor::new(secrets)))),
        }
    }
}

impl Redactor {
    pub fn new(secrets: &[String]) -> Self {
        let forms: BTreeSet<Form> = secrets.iter().flat_map(|secret| parts(secret)).flat_map(forms).collect();
        let automaton = AhoCorasick::new(forms.iter().map(|form| &form.text)).ok();
        Self { secrets: secrets.to_vec(), forms: forms.into_iter().collect(), automaton }
    }

    /// The text with every secret in it blacked out: as it is, line by line, as programs quote it, and what a cut has
    /// left of it.
    pub fn redact(&self, text: &str) -> String {
        if self.forms.is_empty() {
            return text.to_owned();
        }
        // What is found is first gathered and only then taken out, so that nothing hides what it overlaps.
        let mut black = vec![false; text.len()];
        let Some(automaton) = &self.automaton else { return BLACK.to_owned() };
        for found in automaton.find_overlapping_iter(text) {
            self.forms[found.pattern().as_usize()].mark(text, found.range(), &mut black);
        }
        if text.contains(ELLIPSIS) {
            for piece in pieces(text) {
                self.forms.iter().for_each(|form| piece.mark(&form.text, &mut black));
            }
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
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(…)")
    }
}

impl Form {
    fn plain(text: String) -> Self {
        Self { text, shared: [false; 2] }
    }

    fn mark(&self, text: &str, found: Range<usize>, black: &mut [bool]) {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        let (before, after) = text.as_bytes().split_at(found.start);
        let after = &after[found.len()..];
        let [shares_before, shares_after] = self.shared;
        let start = found.start - usize::from(shares_before && before.last().is_some_and(is_letter));
        let letter = usize::from(shares_after && after.first().is_some_and(is_letter));
        let padding = after[letter..].iter().take(2 * letter).take_while(|byte| **byte == b'=').count();
        black[start..found.end + letter + padding].fill(true);
    }
}

/// A secret, and its lines: a text of several lines is seldom shown as one.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let whole = Some(secret).filter(|secret| secret.len() >= SHORTEST);
    let lines = secret.split(char::is_control).map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
    whole.into_iter().chain(lines)
}

/// A secret as it may be written: plain, inside quotes with its backslashes and quotes escaped, in a URL, each of these twice
/// over, in HTML, in hexadecimal digits, and in base64.
fn forms(secret: &str) -> Vec<Form> {
    let json = json_inside(secret);
    let json = json.as_str();
    let slashes = secret.replace('\\', r"\\");
    let url = utf8_percent_encode(secret, URL).to_string();
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let plain = [
        secret.to_owned(),
        json.to_owned(),
        json.replace('/', r"\/"),
        in_ascii(json, |unit| format!("\\u{unit:04x}")),
        in_ascii(json, |unit| format!("\\u{unit:04X}")),
        slashes.replace('\'', r"\'"),
        slashes,
        small_escapes(&url),
        small_escapes(&form),
        json_inside(json),
        json_inside(&in_ascii(json, |unit| format!("\\u{unit:04x}"))),
        utf8_percent_encode(&url, URL).to_string(),
        url::form_urlencoded::byte_serialize(form.as_bytes()).collect(),
        small_escapes(&utf8_percent_encode(&small_escapes(&url), URL).to_string()),
        in_hex(secret, |byte| format!("{byte:02x}")),
        in_hex(secret, |byte| format!("{byte:02X}")),
        url,
        form,
    ];
    plain
        .into_iter()
        .chain(in_html(secret, json))
        .map(Form::plain)
        .chain([STANDARD, URL_SAFE].iter().flat_map(|base64| in_base64(secret, base64)))
        .collect()
}

/// The secret in base64, alone or within a longer text, wherever it begins there: without the letters at its edges, which
/// depend on what stands beside it.
fn in_base64(secret: &str, base64: &GeneralPurpose) -> impl Iterator<Item = Form> {
    (0..3).filter_map(|before| {
        let encoded = base64.encode([vec![0; before], secret.as_bytes().to_vec()].concat());
        let (first, end) = ((8 * before).div_ceil(6), 8 * (before + secret.len()) / 6);
        let text = encoded.get(first..end).filter(|text| text.len() >= SHORTEST)?.to_owned();
        Some(Form { text, shared: [before > 0, !(8 * (before + secret.len())).is_multiple_of(6)] })
    })
}

/// What stands between the quotes.
fn json_inside(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

fn in_hex(secret: &str, digits: impl Fn(u8) -> String) -> String {
    secret.bytes().map(digits).collect()
}

/// As templates write it into a page, where quotes have several names, and as a page shows another one's source.
fn in_html(secret: &str, json: &str) -> Vec<String> {
    let page = |text: &str, quote: &str, apostrophe: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', quote).replace('\'', apostrophe)
    };
    let quotes = [("&quot;", "&#39;"), ("&quot;", "&#x27;"), ("&#34;", "&#39;"), ("&quot;", "&apos;"), ("\"", "'")];
    let once = quotes.map(|(quote, apostrophe)| page(secret, quote, apostrophe));
    let twice = page(&once[0], "&quot;", "&#39;");
    let of_json = [page(json, "&quot;", "&#39;"), page(json, "&quot;", "'")];
    once.into_iter().chain([twice]).chain(of_json).collect()
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

/// What stands between two cuts of a text, or between a cut and an end.
struct Piece<'a> {
    start: usize,
    text: &'a str,
    after_cut: bool,
    before_cut: bool,
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let last = text.rfind(ELLIPSIS);
    let mut next = 0;
    let piece = |text: &'_ str| {
        let (start, end) = (next, next + text.len());
        next = end + ELLIPSIS.len_utf8();
        (start, end)
    };
    let spans: Vec<_> = text.split(ELLIPSIS).map(piece).collect();
    let piece = |(start, end)| {
        let (after_cut, before_cut) = (start > 0, last.is_some_and(|last| end <= last));
        Piece { start, text: &text[start..end], after_cut, before_cut }
    };
    spans.into_iter().map(piece).collect()
}

impl Piece<'_> {
    /// Marks what a cut has left of a secret: its beginning before a cut, its end after one, its middle between two.
    fn mark(&self, form: &str, black: &mut [bool]) {
        let Self { start, text, after_cut, before_cut } = *self;
        let end = start + text.len();
        if after_cut && before_cut && text.len() >= SHORTEST && form.contains(text) {
            black[start..end].fill(true);
        }
        let mut lengths = (SHORTEST..=form.len().min(text.len())).rev();
        if before_cut && let Some(length) = lengths.clone().find(|&length| ends_with_beginning(text, form, length)) {
            black[end - length..end].fill(true);
        }
        if after_cut && let Some(length) = lengths.find(|&length| begins_with_end(text, form, length)) {
            black[start..start + length].fill(true);
        }
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
