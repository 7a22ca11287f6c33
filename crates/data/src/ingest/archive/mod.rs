//! Reads the `.conf` and `.meta` files out of an uploaded archive that may be messy or hostile.
//!
//! [`read`] tells the format by content: tar, zip, gzip, bzip2, xz or zstd around a tar or a single file, or the text of one
//! file. Archives inside archives are opened to a depth. Nothing is written to disk, and memory is bounded: with the
//! default [`Limits`] the reader itself takes at most about 200 MiB, whatever the upload is (16 MiB for the file in
//! hand, 32 MiB for zip archives inside other archives, and what the decompressors may take: 72 MiB for the outermost,
//! 20 MiB for each one inside).
//!
//! An upload ends in one of three ways, and an [`Error`] says which: it was read; it is refused for good, with a
//! [`Reason`], the member and the chain of causes; or the storage could not be read, which may be tried again.
//!
//! Everything here blocks, so it runs on a thread of its own.
//!
//! - `walk` decides what is done with a member, and checks for duplicates.
//! - `tarball`, `zipped` and `decompress` read one format each.
//! - `guard` counts bytes and members against the limits and remembers why reading had to end.
//! - `seen` remembers members by hashes; `links` finds out where links lead.
//! - `path` accepts only paths and links that stay inside.

mod decompress;
mod error;
mod guard;
mod limits;
mod links;
mod path;
mod seen;
mod sniff;
mod tarball;
mod walk;
mod zipped;

pub use error::{Error, Reason, Refusal};
pub use guard::Source;
pub use limits::Limits;
pub use walk::{HEAD_BYTES, Member, Progress, Summary, Visitor, is_archive, read};
