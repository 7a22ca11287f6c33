//! What ingestion parsed: files, their stanzas and settings, and the words of the values.
//!
//! Ids are made of the upload's number and a place in the upload. The same bytes, parsed again by the same parser, give
//! the same ids: a retry adds only what is missing, and everything of one upload is one range of each table.

mod batch;
mod forget;
mod id;
mod read;
mod search;
mod words;
mod write;

pub use batch::{BATCH_ROWS, FileFacts, FileFault, ParsedBatch};
pub use read::{FilePage, FileRow, SettingRow, StanzaPage, StanzaPlace, StanzaRow};
pub use search::{Hit, Match, Search};
pub use words::words_of;
pub use write::StanzasAdded;

pub(crate) use forget::Step as ForgetStep;
pub(crate) use id::UploadNo;
pub(crate) use search::statements as search_statements;
pub(crate) use write::{INSERT_SETTINGS, INSERT_STANZAS, INSERT_WORDS};

/// The version of what parsing makes of bytes: it counts up when the same bytes get other rows. A retry by another
/// version begins from nothing.
pub const PARSER: i64 = 1;
