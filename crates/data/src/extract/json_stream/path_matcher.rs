//! The way down into a document: which of the paths that are looked for lead to the value at hand.

use super::path::{Path, Step};
use super::scanner::Bracket;

/// Which paths may still lead to something from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathMatch {
    pub(super) records: bool,
    /// One bit for each kept path.
    pub(super) kept: u8,
}

impl PathMatch {
    pub(super) fn anywhere(self) -> bool {
        self.records || self.kept != 0
    }

    pub(super) fn to_kept(self, which: usize) -> bool {
        self.kept & (1 << which) != 0
    }
}

/// An open bracket that a path leads into.
#[derive(Debug, Clone, Copy)]
struct Frame {
    bracket: Bracket,
    leads: PathMatch,
    of_records: bool,
    /// Whether a name in it has led towards the records.
    has_led: bool,
}

/// A longer name matches no path; its bytes are not kept.
const MAX_NAME_BYTES: usize = 4 << 10;

#[derive(Debug, Default)]
pub(super) struct PathMatcher {
    /// Outermost first.
    frames: Vec<Frame>,
    /// The name whose value comes next, with its quotes.
    name: Vec<u8>,
    name_ended: bool,
}

impl PathMatcher {
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether the innermost bracket is an array of records.
    pub(super) fn among_records(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.of_records)
    }

    pub(super) fn enter(&mut self, bracket: Bracket, leads: PathMatch, of_records: bool) {
        self.frames.push(Frame { bracket, leads, of_records, has_led: false });
    }

    /// The value that begins now leads towards the records; says whether another one of its name has come before.
    pub(super) fn leads_again(&mut self) -> bool {
        match self.frames.last_mut() {
            Some(frame) if frame.bracket == Bracket::Object => std::mem::replace(&mut frame.has_led, true),
            Some(_) | None => false,
        }
    }

    pub(super) fn leave(&mut self) {
        self.frames.pop();
    }

    pub(super) fn name(&mut self, bytes: &[u8], ends: bool) {
        if std::mem::replace(&mut self.name_ended, ends) {
            self.name.clear();
        }
        if self.name.len() <= MAX_NAME_BYTES {
            self.name.extend_from_slice(&bytes[..bytes.len().min(MAX_NAME_BYTES)]);
        }
    }

    /// Where the value that begins now can lead to.
    pub(super) fn leads<'a>(&self, records: &Path, kept: impl Iterator<Item = &'a Path>) -> PathMatch {
        let Some(parent) = self.frames.last() else { return PathMatch { records: true, kept: u8::MAX } };
        let depth = self.frames.len() - 1;
        let name = match parent.bracket {
            Bracket::Array => None,
            // What cannot be read, having been cut short, is the name of nothing.
            Bracket::Object => serde_json::from_slice::<String>(&self.name).ok(),
        };
        let fits = |path: &Path| match path.step(depth) {
            Some(Step::Each) => parent.bracket == Bracket::Array,
            Some(Step::Key(wanted)) => name.as_ref() == Some(wanted),
            None => false,
        };
        let mut bits = 0;
        for (which, path) in kept.enumerate() {
            if parent.leads.to_kept(which) && fits(path) {
                bits |= 1 << which;
            }
        }
        PathMatch { records: parent.leads.records && fits(records), kept: bits }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.name.capacity()
    }
}
