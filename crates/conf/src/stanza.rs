//! Shows the stanzas of a document and their settings.

use crate::document::Document;
use crate::parse::LineRange;
use crate::tables::{SettingRow, StanzaRow};

/// A stanza of one file, with everything that its repeated appearances added.
#[derive(Debug, Clone, Copy)]
pub struct Stanza<'d> {
    document: &'d Document<'d>,
    row: &'d StanzaRow,
    number: usize,
}

/// A key and the value that counts: the last one of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<'d> {
    pub key: &'d str,
    pub value: &'d str,
    /// The lines that the value was read from.
    pub lines: LineRange,
}

impl<'d> Stanza<'d> {
    /// Names the stanza; None stands for the settings before the first header.
    pub fn name(&self) -> Option<&'d str> {
        self.row.name.map(|name| self.document.piece(name))
    }

    /// Tells the position among the stanzas of the file, counted from 0.
    pub fn order(&self) -> usize {
        self.number
    }

    /// Tells the lines of the first appearance, from its header to its last setting.
    pub fn lines(&self) -> LineRange {
        self.row.lines
    }

    /// Tells the lines of the further appearances, in the order of the file.
    pub fn repeats(&self) -> impl Iterator<Item = LineRange> + 'd {
        // Sorted by stanza, so that asking every stanza of a large file stays quick.
        let all = self.document.tables().repeats.as_slice();
        let of = |row: &(u32, LineRange)| usize::try_from(row.0).unwrap_or(usize::MAX);
        let start = all.partition_point(|row| of(row) < self.number);
        let end = all.partition_point(|row| of(row) <= self.number);
        all[start..end].iter().map(|(_, lines)| *lines)
    }

    /// Lists the settings, each at the position of its first appearance.
    pub fn settings(&self) -> Settings<'d> {
        let range = &self.row.settings;
        let rows = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let rows = rows.and_then(|(start, end)| self.document.tables().settings.get(start..end));
        Settings { document: self.document, rows: rows.unwrap_or_default().iter() }
    }
}

/// Iterates over the settings of a stanza.
#[derive(Debug, Clone)]
pub struct Settings<'d> {
    document: &'d Document<'d>,
    rows: std::slice::Iter<'d, SettingRow>,
}

impl<'d> Iterator for Settings<'d> {
    type Item = Setting<'d>;

    fn next(&mut self) -> Option<Setting<'d>> {
        let row = self.rows.next()?;
        Some(Setting { key: self.document.piece(row.key), value: self.document.piece(row.value), lines: row.lines })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl ExactSizeIterator for Settings<'_> {}

/// Iterates over the stanzas of a document in the order of the file.
#[derive(Debug, Clone)]
pub struct Stanzas<'d> {
    document: &'d Document<'d>,
    rows: std::iter::Enumerate<std::slice::Iter<'d, StanzaRow>>,
}

impl<'d> Stanzas<'d> {
    pub(crate) fn new(document: &'d Document<'d>) -> Self {
        Self { document, rows: document.tables().stanzas.iter().enumerate() }
    }
}

impl<'d> Iterator for Stanzas<'d> {
    type Item = Stanza<'d>;

    fn next(&mut self) -> Option<Stanza<'d>> {
        let (number, row) = self.rows.next()?;
        Some(Stanza { document: self.document, row, number })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl ExactSizeIterator for Stanzas<'_> {}
