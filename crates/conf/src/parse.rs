//! Walks over the text of a file, one entry at a time.
//!
//! An entry is a line, or several lines joined by a backslash that is the last character of its line. Joining comes
//! before everything else: comments and headers are joined too. An entry of one line is borrowed from the text; only a
//! joined entry is copied.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::text::{trim_end, trim_start};

/// The first and the last line of something, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineRange {
    pub first: u32,
    pub last: u32,
}

/// Says what an entry is. The ranges are positions in [`Entry::content`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    Blank,
    Comment,
    /// `[name]`
    Header {
        name: Range<usize>,
    },
    /// `key = value`
    Setting {
        key: Range<usize>,
        value: Range<usize>,
    },
    /// Begins with `[` or ends with `]` but is no header and has no `=`.
    DanglingHeader,
    /// Anything else; it means nothing.
    Junk,
}

/// One line of a file, or several lines joined by backslashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'t> {
    pub lines: LineRange,
    /// The bytes of the text that the entry was read from, without its last line end.
    pub span: Range<usize>,
    /// Borrowed exactly when the entry is one line; then it is the text at `span`.
    pub content: Cow<'t, str>,
    pub kind: EntryKind,
}

/// Iterates over the entries of a text. It takes time in proportion to the length of the text, whatever the text is.
#[derive(Debug, Clone)]
pub struct Entries<'t> {
    text: &'t str,
    at: usize,
    line: u32,
}

impl<'t> Entries<'t> {
    /// Begins at the first line of a text that [`decode`](crate::decode) made.
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, line: 0 }
    }

    /// Takes the next line without its end: LF, CRLF and a lone CR each end a line.
    fn next_line(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).filter(|rest| !rest.is_empty())?;
        let end = match memchr2(b'\n', b'\r', rest) {
            None => {
                self.at = self.text.len();
                self.text.len()
            }
            Some(length) => {
                let crlf = rest[length..].starts_with(b"\r\n");
                self.at = start + length + if crlf { 2 } else { 1 };
                start + length
            }
        };
        self.line = self.line.saturating_add(1);
        Some(start..end)
    }

    /// Joins the lines after a line that ends with a backslash.
    fn join(&mut self, first: &Range<usize>) -> (String, usize) {
        // Most values of several lines are a few times as long as their first line.
        let likely = (4 * first.len()).clamp(256, 1 << 16);
        let mut joined = String::with_capacity(likely.min(self.text.len() - first.start));
        let mut line = first.clone();
        let mut end = first.end;
        loop {
            let Some(continued) = self.text[line.clone()].strip_suffix('\\') else {
                joined.push_str(&self.text[line]);
                break;
            };
            joined.push_str(continued);
            joined.push('\n');
            let Some(next) = self.next_line() else { break };
            end = next.end;
            line = next;
        }
        // A value keeps the line ends inside it, not those that only lead to a blank line.
        joined.truncate(joined.trim_end_matches('\n').len());
        (joined, end)
    }
}

impl<'t> Iterator for Entries<'t> {
    type Item = Entry<'t>;

    fn next(&mut self) -> Option<Entry<'t>> {
        let mut span = self.next_line()?;
        let first = self.line;
        let content = if self.text[span.clone()].ends_with('\\') {
            let (joined, end) = self.join(&span);
            span.end = end;
            Cow::Owned(joined)
        } else {
            Cow::Borrowed(&self.text[span.clone()])
        };
        let kind = classify(&content);
        Some(Entry { lines: LineRange { first, last: self.line }, span, content, kind })
    }
}

fn classify(content: &str) -> EntryKind {
    let body = trim_start(content);
    let indent = content.len() - body.len();
    match body.as_bytes().first() {
        None => return EntryKind::Blank,
        Some(b'#' | b';') => return EntryKind::Comment,
        Some(b'[') => {
            if let Some(length) = header(body) {
                return EntryKind::Header { name: indent + 1..indent + 1 + length };
            }
        }
        Some(_) => {}
    }
    match memchr(b'=', content.as_bytes()) {
        Some(equals) => {
            let value = trim_start(&content[equals + 1..]);
            EntryKind::Setting {
                key: 0..trim_end(&content[..equals]).len(),
                value: content.len() - value.len()..content.len(),
            }
        }
        None if body.starts_with('[') || trim_end(body).ends_with(']') => EntryKind::DanglingHeader,
        // Where files were strung together, the mark of the second one is left between them.
        None if content == "\u{feff}" => EntryKind::Blank,
        None => EntryKind::Junk,
    }
}

/// Finds the length of the name in `[name]`; a name is everything up to the last bracket, and is on one line.
fn header(body: &str) -> Option<usize> {
    let name = trim_end(body).strip_prefix('[')?.strip_suffix(']')?;
    memchr(b'\n', name.as_bytes()).is_none().then_some(name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(u32, u32, &str)> {
        Entries::new(text).map(|entry| (entry.lines.first, entry.lines.last, &text[entry.span])).collect()
    }

    #[test]
    fn every_line_end_ends_a_line_and_the_count_goes_on_after_a_join() {
        assert_eq!(lines("a\r\nb\rc\n\nd"), [(1, 1, "a"), (2, 2, "b"), (3, 3, "c"), (4, 4, ""), (5, 5, "d")]);
        assert_eq!(lines("a\\\r\nb\\\rc\nd\n"), [(1, 3, "a\\\r\nb\\\rc"), (4, 4, "d")]);
        assert_eq!(lines("a\u{2028}b\u{85}c\u{b}d\u{c}e"), [(1, 1, "a\u{2028}b\u{85}c\u{b}d\u{c}e")]);
    }

    #[test]
    fn only_a_joined_entry_is_copied() {
        let kinds: Vec<bool> =
            Entries::new("a = b\nc = d\\\ne\n").map(|entry| matches!(entry.content, Cow::Borrowed(_))).collect();
        assert_eq!(kinds, [true, false]);
    }

    #[test]
    fn a_name_is_on_one_line() {
        let entry = Entries::new("[a\\\nb]").next().unwrap();
        assert_eq!(entry.kind, EntryKind::DanglingHeader);
        assert_eq!(entry.lines, LineRange { first: 1, last: 2 });
    }

    #[test]
    fn a_lone_bracket_is_no_header() {
        assert_eq!(Entries::new("[").next().unwrap().kind, EntryKind::DanglingHeader);
        assert_eq!(Entries::new("]").next().unwrap().kind, EntryKind::DanglingHeader);
        assert_eq!(Entries::new("[]").next().unwrap().kind, EntryKind::Header { name: 1..1 });
    }
}
