//! Tells what a strict reader of a file would object to.

use std::fmt;

use crate::parse::LineRange;
use crate::tables::{Objection, Tables};
use crate::text::{EncodingError, decode};

/// Says what is wrong at a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    JunkLine,
    DuplicateStanza,
    DuplicateKey,
    DanglingHeader,
    Encoding,
}

impl FindingKind {
    /// The word for the kind in JSON and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JunkLine => "junk_line",
            Self::DuplicateStanza => "duplicate_stanza",
            Self::DuplicateKey => "duplicate_key",
            Self::DanglingHeader => "dangling_header",
            Self::Encoding => "encoding",
        }
    }
}

/// Something that a strict reader objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    pub lines: LineRange,
    /// For what is there twice, the line where it was before.
    pub earlier: Option<u32>,
    /// The stanza, the key or the beginning of the line; for `encoding` the reason.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, what, earlier, .. } = self;
        let before = earlier.unwrap_or_default();
        match kind {
            FindingKind::JunkLine => write!(f, "`{what}` is neither a header, a comment nor a setting and is ignored"),
            FindingKind::DuplicateStanza => {
                write!(f, "[{what}] is already at line {before}; both are merged, and later values win")
            }
            FindingKind::DuplicateKey => write!(f, "`{what}` is already set at line {before}; the later value wins"),
            FindingKind::DanglingHeader => {
                write!(f, "`{what}` is a broken header; the settings below it join the stanza above")
            }
            FindingKind::Encoding => write!(f, "{what}"),
        }
    }
}

/// A finding shows at most this many characters of the file.
const EXCERPT: usize = 80;

/// Hands each finding to `report`, in the order of the lines. A file that is not text has one finding, at line 1.
///
/// A hostile file has a finding on every line, so the findings are handed over one by one.
pub fn lint(bytes: &[u8], mut report: impl FnMut(Finding)) {
    match decode(bytes) {
        Ok(text) => drop(Tables::build(&text, |objection| report(finding(&objection)))),
        Err(error) => report(undecodable(&error)),
    }
}

fn undecodable(error: &EncodingError) -> Finding {
    let lines = LineRange { first: 1, last: 1 };
    Finding { kind: FindingKind::Encoding, lines, earlier: None, what: error.to_string() }
}

fn finding(objection: &Objection<'_>) -> Finding {
    let (kind, lines, earlier, what) = match *objection {
        Objection::RepeatedStanza { name, lines, earlier } => {
            (FindingKind::DuplicateStanza, lines, Some(earlier), name)
        }
        Objection::RepeatedKey { key, lines, earlier } => (FindingKind::DuplicateKey, lines, Some(earlier), key),
        Objection::DanglingHeader { content, lines } => (FindingKind::DanglingHeader, lines, None, content),
        Objection::Junk { content, lines } => (FindingKind::JunkLine, lines, None, content),
    };
    Finding { kind, lines, earlier, what: excerpt(what) }
}

fn excerpt(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(EXCERPT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
