//! Extractors: each brings one partition's records, as they are, from its source into the raw sink.
//!
//! All of them stream: what is in memory does not grow with the partition. An extractor says what went wrong and of
//! which class; whether the data is right is the validator's to say.

pub mod airbyte;
mod attempt;
pub mod command;
mod connector;
pub mod google_ads;
pub mod http;
mod job;
mod json_stream;
mod records;
pub mod sample;
mod settings;
pub mod singer;
mod sources;
mod workload;

use std::fmt;

use futures_util::future::BoxFuture;
use redrive_store::raw;

use crate::error::ScratchError;
pub use crate::failure::{Failure, Scope};
pub use job::Job;
pub use records::{MAX_BYTES, MAX_RECORD_BYTES, Records};
pub use settings::{ExtractorContext, Settings};
pub use sources::{ConfiguredSource, Sources};
pub use workload::Workload;

/// A text with placeholders that a job fills in.
pub type Template = crate::settings::Template<Job>;

type Program = crate::program::Program<Job>;

pub trait Extractor: Send + Sync + fmt::Debug {
    /// What manifests call it.
    fn name(&self) -> &'static str;

    /// Brings every record of the partition. Dropping the future ends the work and everything that it started.
    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>>;

    /// The secrets that it works with for a job; none of them may be shown. Asked when an attempt has failed.
    fn secrets(&self, _job: &Job) -> Vec<String> {
        Vec::new()
    }

    /// What it would need of this machine and does not find: programs, files, secrets. Looked at when a worker starts, and
    /// by the doctor; nothing is started or sent.
    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    /// The same of what a job's customer and query need besides: secrets that are named by them.
    fn missing_for(&self, _job: &Job) -> Vec<String> {
        Vec::new()
    }

    /// The names of the machines that it connects to, as far as they are known before there is a job. Addresses are none.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why an extraction did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Source(#[from] Failure),
    /// The raw sink failed: no fault of the source, and no attempt of the partition.
    #[error(transparent)]
    Sink(#[from] raw::Error),
    /// The worker's temporary directory cannot be used: no attempt of the partition either.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}
