//! The raw sink: what extractors brought back, kept exactly as it came, on a file system or on S3.
//!
//! Objects are created and read here; none is ever changed or removed. [`runs`] lays the runs of a partition out as
//! objects; the other modules store objects of any kind.

mod blob;
mod blob_reader;
mod digest;
mod error;
mod files;
mod marker;
mod place;
mod put;
mod runs;
mod s3;
mod shared_sync;
mod sync;
mod url;
mod whole_directory;

pub use crate::blocking::blocking;
pub use blob::{BlobError, BlobInfo, Blobs};
pub use blob_reader::{BlobReader, Failure as BlobFailure};
pub use digest::Sha256;
pub use error::{Damage, Error, Problem};
pub use marker::SinkId;
pub use runs::{FORMAT, Manifest, PartInfo, RawOptions, RawSink, RawView, RawWriter, RunHeader, RunOutcome};
pub use s3::S3Options;
pub use url::RawUrl;
