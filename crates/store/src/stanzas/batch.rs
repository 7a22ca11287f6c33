//! Parsed stanzas on their way into the store, gathered so that many go in by one transaction.

use std::ops::Range;

use super::id::{block_of, short_name};
use super::words;

/// A batch is full when it has this many rows or this much text.
const FULL_ROWS: usize = 8_000;
const FULL_TEXT: usize = 4 << 20;

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
    /// `dangling_header` or `encoding`.
    pub kind: String,
    pub line: u32,
    pub count: u32,
}

/// Stanzas in the order of their upload, with their settings and the files they are in.
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
    /// The place of its stanza in the upload, and among the stanzas of this batch.
    pub(super) stanza: u32,
    pub(super) stanza_here: usize,
    pub(super) conf: usize,
    pub(super) line: u32,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Default for ParsedBatch {
    fn default() -> Self {
        Self::after(Places::default(), Vec::new())
    }
}

impl ParsedBatch {
    fn after(next: Places, confs: Vec<String>) -> Self {
        let (text, files, stanzas, settings, words) = Default::default();
        Self { text, confs, files, stanzas, settings, words, next }
    }

    /// Takes what was gathered; what is added from now on follows it.
    pub fn take(&mut self) -> Self {
        let confs = self.confs.last().cloned().into_iter().collect();
        let rest = Self::after(self.next, confs);
        let mut taken = std::mem::replace(self, rest);
        // In the order of the index, each word of a block once.
        taken.words.sort_unstable();
        taken.words.dedup();
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.stanzas.is_empty()
    }

    /// Tells whether it is time to [`Self::take`] it. A stanza is never divided, so ask after one.
    pub fn is_full(&self) -> bool {
        self.stanzas.len() + self.settings.len() >= FULL_ROWS || self.text.len() >= FULL_TEXT
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

    /// Adds a stanza of the last file, with its first and last line and its settings: key, value and line.
    pub fn add_stanza<'s>(
        &mut self,
        name: Option<&str>,
        lines: (u32, u32),
        settings: impl IntoIterator<Item = (&'s str, &'s str, u32)>,
    ) {
        let at = Places { file: self.next.file.saturating_sub(1), ..self.next };
        let conf = self.confs.len().saturating_sub(1);
        for (key, value, line) in settings {
            let place = self.next.setting;
            self.next.setting = place.saturating_add(1);
            for word in words::words_of(value) {
                self.words.push(u64::from(words::hash(word)) << 32 | u64::from(block_of(place)));
            }
            let (key, value) = (self.push(key), self.push(value));
            let stanza_here = self.stanzas.len();
            self.settings.push(Setting { place, stanza: at.stanza, stanza_here, conf, line, key, value });
        }
        let count = self.next.setting - at.setting;
        let (short_name, name) = (name.and_then(short_name), name.map(|name| self.push(name)));
        self.stanzas.push(Stanza { at, name, short_name, lines, settings: count });
        self.next.stanza = self.next.stanza.saturating_add(1);
    }

    fn push(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    pub(super) fn text(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }

    /// The words with their blocks, each once, in the order of the index.
    pub(super) fn words(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let half = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or_default();
        self.words.iter().map(move |&word| (half(word >> 32), half(word)))
    }
}
