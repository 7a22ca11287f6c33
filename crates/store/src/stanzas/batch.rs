//! Parsed stanzas on their way into the store, gathered so that many go in by one transaction.

use std::ops::Range;

use super::id::{block_of, short_name};
use super::words;

/// A batch is full when it has this many rows, this much text, or this many words.
pub const BATCH_ROWS: u32 = 8_000;
const FULL_TEXT: usize = 2 << 20;
const FULL_WORDS: usize = 200_000;

/// What is known of a file before its stanzas.
#[derive(Debug, Clone)]
pub struct FileFacts<'f> {
    /// The whole way to it; an archive inside the upload stands in it like a folder.
    pub path: &'f str,
    /// The name without its ending.
    pub conf: &'f str,
    /// `default`, `local`, `user` or `other`.
    pub layer: &'static str,
    pub bytes: u64,
    pub stanzas: usize,
    pub settings: usize,
    pub fault: Option<FileFault>,
}

/// What makes a file count as a parse error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    /// `dangling_header`, `encoding` or `link`.
    pub kind: String,
    pub line: u32,
    pub count: u32,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// Stanzas in the order of their upload, with their settings and the files they are in. The settings of one stanza may go
/// into several batches, the stanza itself into the last of them.
#[derive(Debug)]
pub struct ParsedBatch {
    text: String,
    pub(super) confs: Vec<String>,
    pub(super) files: Vec<File>,
    pub(super) stanzas: Vec<Stanza>,
    pub(super) settings: Vec<Setting>,
    /// A word and its block, as one number.
    words: Vec<u64>,
    next: Places,
    open: Option<Open>,
    full_rows: usize,
}

/// A stanza whose settings are being added.
#[derive(Debug)]
struct Open {
    at: Places,
    name: Option<Range<usize>>,
    short_name: Option<String>,
    lines: (u32, u32),
}

/// Places in the upload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) file: u32,
    pub(super) stanza: u32,
    pub(super) setting: u32,
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) at: Places,
    pub(super) path: String,
    /// The place of its name in `confs`.
    pub(super) conf: usize,
    pub(super) layer: &'static str,
    pub(super) bytes: u64,
    pub(super) stanzas: u32,
    pub(super) settings: u32,
    pub(super) fault: Option<FileFault>,
}

#[derive(Debug)]
pub(super) struct Stanza {
    pub(super) at: Places,
    pub(super) name: Option<Range<usize>>,
    pub(super) short_name: Option<String>,
    pub(super) lines: (u32, u32),
    pub(super) settings: u32,
}

#[derive(Debug)]
pub(super) struct Setting {
    pub(super) place: u32,
    /// The place of its stanza in the upload, and among the stanzas of this batch; past their end where the stanza goes into a
    /// later batch.
    pub(super) stanza: u32,
    pub(super) stanza_here: usize,
    pub(super) conf: usize,
    pub(super) line: u32,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Default for ParsedBatch {
    fn default() -> Self {
        Self::of_rows(BATCH_ROWS)
    }
}

impl ParsedBatch {
    /// A batch that is full when it has so many rows.
    pub fn of_rows(rows: u32) -> Self {
        Self::after(Places::default(), Vec::new(), usize::try_from(rows).unwrap_or(usize::MAX))
    }

    fn after(next: Places, confs: Vec<String>, full_rows: usize) -> Self {
        let (text, files, stanzas, settings, words) = Default::default();
        Self { text, confs, files, stanzas, settings, words, next, open: None, full_rows }
    }

    /// Takes what was gathered; what is added from now on follows it, also in a stanza that was begun.
    pub fn take(&mut self) -> Self {
        let confs = self.confs.last().cloned().into_iter().collect();
        let rest = Self::after(self.next, confs, self.full_rows);
        let mut taken = std::mem::replace(self, rest);
        if let Some(open) = taken.open.take() {
            let name = open.name.as_ref().map(|name| self.push(taken.text(name)));
            self.open = Some(Open { name, ..open });
        }
        // In the order of the index, each word of a block once.
        taken.words.sort_unstable();
        taken.words.dedup();
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.stanzas.is_empty() && self.settings.is_empty()
    }

    /// Tells whether it is time to [`Self::take`] it.
    pub fn is_full(&self) -> bool {
        let rows = self.stanzas.len() + self.settings.len();
        rows >= self.full_rows || self.text.len() >= FULL_TEXT || self.words.len() >= FULL_WORDS
    }

    /// Begins a file; the stanzas that are added next are its own.
    pub fn add_file(&mut self, facts: &FileFacts<'_>) {
        self.confs.push(facts.conf.to_owned());
        self.files.push(File {
            at: self.next,
            path: facts.path.to_owned(),
            conf: self.confs.len() - 1,
            layer: facts.layer,
            bytes: facts.bytes,
            stanzas: u32::try_from(facts.stanzas).unwrap_or(u32::MAX),
            settings: u32::try_from(facts.settings).unwrap_or(u32::MAX),
            fault: facts.fault.clone(),
        });
        self.next.file = self.next.file.saturating_add(1);
    }

    /// Begins a stanza of the last file, with its first and last line. Its settings are added next, then it is ended.
    pub fn begin_stanza(&mut self, name: Option<&str>, lines: (u32, u32)) {
        let at = Places { file: self.next.file.saturating_sub(1), ..self.next };
        let (short_name, name) = (name.and_then(short_name), name.map(|name| self.push(name)));
        self.open = Some(Open { at, name, short_name, lines });
    }

    /// Adds a setting of the stanza that was begun.
    pub fn add_setting(&mut self, key: &str, value: &str, line: u32) {
        let place = self.next.setting;
        self.next.setting = place.saturating_add(1);
        let block = u64::from(block_of(place));
        self.words.extend(words::words_of(value).map(|word| u64::from(words::hash(word)) << 32 | block));
        let (key, value) = (self.push(key), self.push(value));
        let (stanza, stanza_here, conf) = (self.next.stanza, self.stanzas.len(), self.confs.len().saturating_sub(1));
        self.settings.push(Setting { place, stanza, stanza_here, conf, line, key, value });
    }

    /// Ends the stanza that was begun.
    pub fn end_stanza(&mut self) {
        let Some(Open { at, name, short_name, lines }) = self.open.take() else { return };
        let settings = self.next.setting - at.setting;
        self.stanzas.push(Stanza { at, name, short_name, lines, settings });
        self.next.stanza = self.next.stanza.saturating_add(1);
    }

    /// Adds a whole stanza of the last file: its first and last line, and of each setting key, value and line.
    pub fn add_stanza<'s>(
        &mut self,
        name: Option<&str>,
        lines: (u32, u32),
        settings: impl IntoIterator<Item = (&'s str, &'s str, u32)>,
    ) {
        self.begin_stanza(name, lines);
        settings.into_iter().for_each(|(key, value, line)| self.add_setting(key, value, line));
        self.end_stanza();
    }

    fn push(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    pub(super) fn text(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }

    /// The words with their blocks, each once, in the order of the index: a word in the upper half of a number.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}
