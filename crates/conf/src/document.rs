//! Holds one parsed file.

use std::borrow::Cow;

use crate::parse::LineRange;
use crate::stanza::Stanzas;
use crate::tables::{Piece, Tables};
use crate::text::{EncodingError, decode};

/// The stanzas of one file.
///
/// A stanza that appears again is merged into its first appearance, however far away that is: its new keys come after
/// the old ones, and a key that is set again keeps its place and takes the last value. So a name is unique in a file.
/// Beside the text itself a document takes about 40 bytes for each stanza and each setting, and a copy of the settings
/// that go over several lines.
#[derive(Debug)]
pub struct Document<'t> {
    text: Cow<'t, str>,
    tables: Tables,
}

/// Says what made a file count as a parse error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A header that is not closed, not opened, or followed by something.
    DanglingHeader,
    /// Bytes that are not text: [`EncodingError`].
    Encoding,
}

impl FaultKind {
    /// The word for the kind in JSON and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DanglingHeader => "dangling_header",
            Self::Encoding => "encoding",
        }
    }
}

/// What is wrong with a file that was parsed all the same. A file counts once, however often the fault is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub first_line: u32,
    pub count: u32,
}

impl FaultKind {
    /// Says what is wrong with the file, and what became of it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::DanglingHeader => {
                "a header is not closed, not opened, or followed by something; the settings below it are in the stanza above"
            }
            Self::Encoding => "the file is no text, and nothing was taken from it",
        }
    }
}

impl<'t> Document<'t> {
    /// Decodes and parses the bytes of a file.
    pub fn parse(bytes: &'t [u8]) -> Result<Self, EncodingError> {
        Ok(Self::from_text(decode(bytes)?))
    }

    /// Parses a text that [`decode`] made, perhaps changed by [`replace_nul`](crate::replace_nul).
    ///
    /// A broken header is ignored, and the settings below it join the stanza above. From a file that begins with `{` and
    /// has broken headers nothing is taken: it is JSON or the like, and its lines only look like settings.
    pub fn from_text(text: Cow<'t, str>) -> Self {
        let tables = Tables::build(&text, |_| ());
        Self { text, tables }
    }

    /// Lists the stanzas in the order of their first appearance.
    pub fn stanzas(&self) -> Stanzas<'_> {
        Stanzas::new(self)
    }

    /// Tells whether the file counts as a parse error.
    pub fn fault(&self) -> Option<Fault> {
        let Tables { dangling: count, first_dangling: first_line, .. } = self.tables;
        (count > 0).then_some(Fault { kind: FaultKind::DanglingHeader, first_line, count })
    }

    /// Counts the settings of all stanzas.
    pub fn setting_count(&self) -> usize {
        self.tables.settings.len()
    }

    /// Tells the lines of every repeated appearance: the number of the stanza and the lines, sorted by number.
    pub fn repeats(&self) -> impl Iterator<Item = (usize, LineRange)> + '_ {
        self.tables.repeats.iter().filter_map(|(number, lines)| Some((usize::try_from(*number).ok()?, *lines)))
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn piece(&self, piece: Piece) -> &str {
        self.tables.piece(&self.text, piece)
    }
}
