//! Extractors: each brings one partition's records, as they are, from its source into the raw sink.
//!
//! All of them stream: what is in memory does not grow with the partition. An extractor says what went wrong and of
//! which class; whether the data is right is the validator's to say.

pub mod airbyte;
mod child;
pub mod command;
mod connector;
mod discreet;
mod failure;
pub mod google_ads;
pub mod http;
mod json_stream;
mod records;
mod redact;
pub mod sample;
mod secret;
mod seen;
mod settings;
pub mod singer;
mod template;
mod used_secrets;
mod value;

use std::fmt;

use futures_util::future::BoxFuture;
use redrive_core::id::RunId;
use redrive_core::key::PartitionKey;

pub use child::{Leash, Roster};
use failure::span;
pub use failure::{Error, Failure, Scope};
pub use records::{MAX_RECORD_BYTES, Records};
pub use redact::redact;
pub use secret::{Secret, SecretRef};
pub use settings::{Settings, Surroundings};
pub use template::{Escape, Template};
use used_secrets::UsedSecrets;
pub use value::ValueRef;

/// What is to be extracted.
#[derive(Debug, Clone)]
pub struct Job {
    pub key: PartitionKey,
    pub run_id: RunId,
    /// The first attempt is 1.
    pub attempt: u32,
    /// The query's text with its placeholders filled in, where the configuration has one.
    pub query: Option<String>,
    /// Where the programs are entered that are started for it. When the extraction has ended or was dropped, some of
    /// them may still be ending.
    pub roster: Roster,
}

pub trait Extractor: Send + Sync + fmt::Debug {
    /// What manifests call it.
    fn name(&self) -> &'static str;

    /// Brings every record of the partition. Dropping the future ends the work and everything that it started.
    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>>;

    /// The secrets it works with; none of them may be shown. Asked when an attempt has failed.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}
