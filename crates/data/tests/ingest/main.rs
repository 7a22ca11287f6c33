//! Ingestion: uploads, parsing, failures and retries, on both databases and both sinks.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod lab;
mod outages;
mod parsing;
mod proxy;
mod refusals;
mod sink_gone;
mod stopping;
mod uploading;
