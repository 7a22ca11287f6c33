//! What Singer taps and Airbyte sources have in common: a configuration and a catalog in files, and messages on stdout.

mod config;
mod files;
mod messages;
mod prepared;
mod streams;

pub(super) use config::{Config, absolute, missing_file, start_from};
pub(super) use files::PrivateFiles;
pub(super) use messages::{MessageHandler, MessageReader, ReadResult, gather, read_messages};
pub(super) use prepared::Prepared;
pub(super) use streams::{listed, read_catalog, wanted};
