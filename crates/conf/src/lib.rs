//! Reads configuration files made of stanzas and settings, as `.conf` and `.meta` files hold them.
//!
//! Nothing here reads a file, a clock or the network: a caller brings bytes and gets stanzas with their lines.
//!
//! - [`decode`] turns bytes into text, or refuses the file.
//! - [`Entries`] walks over the text, one joined line at a time, and copies nothing that it need not copy.
//! - [`Document`] holds the stanzas of one file in their order, with repeated stanzas and keys merged.
//! - [`lint`] tells what a strict reader would object to, with the line.
//! - [`Place`] reads layer, app and user from a file's path.
//! - [`Merge`] makes the effective configuration of many files and keeps where each value came from.
//! - [`diff`] compares two files by stanza and key.

mod diff;
mod document;
mod layer;
mod lint;
mod merge;
mod parse;
mod print;
mod stanza;
mod tables;
mod text;

pub use diff::{Change, Content, Line, diff};
pub use document::{Document, Fault, FaultKind};
pub use layer::{FileKind, Layer, Owner, Place, uncompressed};
pub use lint::{Finding, FindingKind, lint};
pub use merge::{Context, Effective, EffectiveStanza, Exports, Inherit, Merge, Origin, SourceId, Value};
pub use parse::{Entries, Entry, EntryKind, LineRange};
pub use stanza::{Setting, Settings, Stanza, Stanzas};
pub use text::{EncodingError, decode, replace_nul};
