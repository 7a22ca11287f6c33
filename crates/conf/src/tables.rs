//! Holds the stanzas and settings of one file in few bytes each.
//!
//! A hostile file of 16 MiB can hold three million settings. So a row keeps positions instead of strings, all settings
//! stand in one vector, and one hash table of row numbers finds the repeated ones. Hashing is seeded, and who wrote a file
//! sees no hashes, so that no file can be made to collide.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::parse::{Entries, Entry, EntryKind, LineRange};

/// A piece of the file's text, or of the text of joined entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    start: u32,
    len: u32,
}

const JOINED: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct StanzaRow {
    /// None for the settings before the first header.
    pub name: Option<Piece>,
    pub lines: LineRange,
    pub settings: Range<u32>,
}

#[derive(Debug)]
pub(crate) struct SettingRow {
    stanza: u32,
    pub key: Piece,
    pub value: Piece,
    pub lines: LineRange,
}

/// Tells an observer what a strict reader would object to, while the tables are built.
#[derive(Debug)]
pub(crate) enum Objection<'e> {
    RepeatedStanza { name: &'e str, lines: LineRange, earlier: u32 },
    RepeatedKey { key: &'e str, lines: LineRange, earlier: u32 },
    DanglingHeader { content: &'e str, lines: LineRange },
    Junk { content: &'e str, lines: LineRange },
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    joined: String,
    pub stanzas: Vec<StanzaRow>,
    pub settings: Vec<SettingRow>,
    /// Where a stanza appeared again: its row and the lines; sorted by row when the tables are complete.
    pub repeats: Vec<(u32, LineRange)>,
    pub dangling: u32,
    pub first_dangling: u32,
}

impl Tables {
    /// Builds the tables of a text that [`decode`](crate::decode) made.
    pub fn build(text: &str, observe: impl FnMut(Objection<'_>)) -> Self {
        let mut builder = Builder::new(text, observe);
        for entry in Entries::new(text) {
            builder.add(&entry);
        }
        builder.finish()
    }

    pub fn piece<'d>(&'d self, text: &'d str, piece: Piece) -> &'d str {
        let from = if piece.start & JOINED == 0 { text } else { &self.joined };
        let start = widen(piece.start & !JOINED);
        &from[start..start + widen(piece.len)]
    }

    fn forget_all(&mut self) {
        let faults = (self.dangling, self.first_dangling);
        *self = Self { dangling: faults.0, first_dangling: faults.1, ..Self::default() };
    }

    /// Brings the settings of each stanza together, after those of a repeated stanza were added far from the first ones.
    fn gather(&mut self) {
        if !self.repeats.is_empty() {
            self.settings.sort_by_key(|row| row.stanza);
            self.repeats.sort_by_key(|(stanza, _)| *stanza);
        }
        let mut start = 0;
        for (number, stanza) in self.stanzas.iter_mut().enumerate() {
            let number = narrow(number);
            let count = self.settings[start..].iter().take_while(|row| row.stanza == number).count();
            stanza.settings = narrow(start)..narrow(start + count);
            start += count;
        }
    }
}

struct Builder<'t, O> {
    text: &'t str,
    observe: O,
    tables: Tables,
    hash: RandomState,
    names: HashTable<u32>,
    keys: HashTable<u32>,
    /// The stanza that settings join now, and whether this is an appearance after its first.
    current: Option<(u32, bool)>,
}

impl<'t, O: FnMut(Objection<'_>)> Builder<'t, O> {
    fn new(text: &'t str, observe: O) -> Self {
        // As many as there can be, for nearly every file: a table that grows must hash everything again, and holds the old rows beside the
        // new ones meanwhile. Even the shortest settings take about eight bytes when there are very many of them.
        let most = text.len() / 8 + 1;
        let settings = (memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1).min(most);
        let stanzas = (memchr::memmem::find_iter(text.as_bytes(), b"\n[").count() + 1).min(most);
        let mut tables = Tables::default();
        tables.stanzas.reserve(stanzas);
        tables.settings.reserve(settings);
        Self {
            text,
            observe,
            tables,
            hash: RandomState::default(),
            names: HashTable::with_capacity(stanzas),
            keys: HashTable::with_capacity(settings),
            current: None,
        }
    }

    fn add(&mut self, entry: &Entry<'_>) {
        match &entry.kind {
            EntryKind::Blank | EntryKind::Comment => {}
            EntryKind::Header { name } => self.header(entry, name),
            EntryKind::Setting { key, value } => self.setting(entry, key, value),
            EntryKind::DanglingHeader => {
                if self.tables.dangling == 0 {
                    self.tables.first_dangling = entry.lines.first;
                }
                self.tables.dangling = self.tables.dangling.saturating_add(1);
                (self.observe)(Objection::DanglingHeader { content: &entry.content, lines: entry.lines });
            }
            EntryKind::Junk => (self.observe)(Objection::Junk { content: &entry.content, lines: entry.lines }),
        }
    }

    fn header(&mut self, entry: &Entry<'_>, name: &Range<usize>) {
        let text = &entry.content[name.clone()];
        let hashed = self.hash.hash_one(text);
        match self.find_stanza(text, hashed) {
            Some(number) => {
                let earlier = self.tables.stanzas[widen(number)].lines.first;
                (self.observe)(Objection::RepeatedStanza { name: text, lines: entry.lines, earlier });
                self.tables.repeats.push((number, entry.lines));
                self.current = Some((number, true));
            }
            None => {
                let name = self.keep(entry, name);
                let number = self.push_stanza(Some(name), entry.lines);
                let (tables, text, hash) = (&self.tables, self.text, &self.hash);
                self.names.insert_unique(hashed, number, |&row| hash.hash_one(name_of(tables, text, row)));
                self.current = Some((number, false));
            }
        }
    }

    fn setting(&mut self, entry: &Entry<'_>, key: &Range<usize>, value: &Range<usize>) {
        let (stanza, repeated) = match self.current {
            Some(current) => current,
            None => (self.push_stanza(None, entry.lines), false),
        };
        self.current = Some((stanza, repeated));
        self.extend(stanza, repeated, entry.lines.last);
        let kept = self.keep(entry, value);
        let text = &entry.content[key.clone()];
        let hashed = self.hash.hash_one((stanza, text));
        match self.find_setting((stanza, text), hashed) {
            Some(number) => {
                let earlier = self.tables.settings[widen(number)].lines.first;
                (self.observe)(Objection::RepeatedKey { key: text, lines: entry.lines, earlier });
                let row = &mut self.tables.settings[widen(number)];
                row.value = kept;
                row.lines = entry.lines;
            }
            None => {
                let key = self.keep(entry, key);
                let number = narrow(self.tables.settings.len());
                self.tables.settings.push(SettingRow { stanza, key, value: kept, lines: entry.lines });
                let (tables, text, hash) = (&self.tables, self.text, &self.hash);
                self.keys.insert_unique(hashed, number, |&row| hash.hash_one(key_of(tables, text, row)));
            }
        }
    }

    fn push_stanza(&mut self, name: Option<Piece>, lines: LineRange) -> u32 {
        let number = narrow(self.tables.stanzas.len());
        self.tables.stanzas.push(StanzaRow { name, lines, settings: 0..0 });
        number
    }

    /// Lets the present appearance of a stanza reach to a line.
    fn extend(&mut self, stanza: u32, repeated: bool, last: u32) {
        let lines = match self.tables.repeats.last_mut() {
            Some((_, lines)) if repeated => lines,
            Some(_) | None => &mut self.tables.stanzas[widen(stanza)].lines,
        };
        lines.last = last;
    }

    fn find_stanza(&self, name: &str, hashed: u64) -> Option<u32> {
        self.names.find(hashed, |&row| name_of(&self.tables, self.text, row) == name).copied()
    }

    fn find_setting(&self, key: (u32, &str), hashed: u64) -> Option<u32> {
        self.keys.find(hashed, |&row| key_of(&self.tables, self.text, row) == key).copied()
    }

    /// Refers to a part of an entry; only a part of a joined entry is copied.
    fn keep(&mut self, entry: &Entry<'_>, range: &Range<usize>) -> Piece {
        let start = match &entry.content {
            Cow::Borrowed(_) => narrow(entry.span.start + range.start),
            Cow::Owned(content) => {
                let start = narrow(self.tables.joined.len());
                self.tables.joined.push_str(&content[range.clone()]);
                start | JOINED
            }
        };
        Piece { start, len: narrow(range.len()) }
    }

    fn finish(mut self) -> Tables {
        // JSON and its kin have many lines that end in a bracket, and lines with `=` that are no settings.
        if self.tables.dangling > 0 && self.text.trim_start().starts_with('{') {
            self.tables.forget_all();
        }
        self.tables.gather();
        self.tables
    }
}

fn name_of<'d>(tables: &'d Tables, text: &'d str, row: u32) -> &'d str {
    tables.stanzas[widen(row)].name.map_or("", |name| tables.piece(text, name))
}

fn key_of<'d>(tables: &'d Tables, text: &'d str, row: u32) -> (u32, &'d str) {
    let row = &tables.settings[widen(row)];
    (row.stanza, tables.piece(text, row.key))
}

/// Makes a position small. A text is at most 2 GiB long, and there are fewer rows than bytes.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).expect("a text is at most 2 GiB long")
}

fn widen(position: u32) -> usize {
    usize::try_from(position).expect("an address has at least 32 bits")
}
