//! The data plane: it does what the control plane wants done.
//!
//! A [`worker::Worker`] claims partitions, an [`extract::Extractor`] brings their records into the raw sink, and the
//! validator in [`validate`] alone says what became of an attempt. Nothing here can requeue anything: the store's data
//! handle has no way to.

mod buffer;
mod error;
pub mod extract;
mod failure;
pub mod ingest;
pub mod lines;
pub mod notify;
pub mod outside;
pub mod process;
pub mod program;
pub mod settings;
pub mod sink;
pub mod validate;
mod web;
pub mod worker;

pub use error::{Error, Result, ScratchError};
pub use failure::{Blame, Failure, Scope};
