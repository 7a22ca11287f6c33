//! Ingestion: an archive of configuration files is uploaded, stored, and parsed into stanzas.
//!
//! [`Uploads`] brings the bytes into the sink and queues the run. [`Workload`] parses them: what storage, network or
//! database refuse is tried again; what is wrong with the archive itself ends the run at once.

pub mod archive;
mod attempt;
mod lint;
mod parse;
mod trouble;
mod upload;
mod workload;

pub use archive::Limits;
pub use lint::{Objection, lint};
pub use trouble::ErrorType;
pub use upload::{NotUploaded, Uploaded, Uploads};
pub use workload::Workload;
