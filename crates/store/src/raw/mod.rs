//! The raw sink: what extractors brought back, kept exactly as it came, on a file system or on S3.
//!
//! Objects are created and read here; nothing is ever changed or removed. A run's directory counts only once its
//! manifest is there, and the manifest is written last. [`RawSink`] can write and is for the data plane; [`RawView`]
//! cannot, and is all the control plane gets.

mod cause;
mod digest;
mod encode;
mod error;
mod layout;
mod manifest;
mod part;
mod place;
mod put;
mod read;
mod s3;
mod sink;
mod sync;
mod url;
mod view;
mod writer;

pub use digest::Sha256;
pub use error::{Damage, Error, Problem};
pub use manifest::{FORMAT, Manifest, Outcome, PartInfo};
pub use s3::S3Options;
pub use sink::{Attempt, RawOptions, RawSink};
pub use url::RawUrl;
pub use view::RawView;
pub use writer::RawWriter;
