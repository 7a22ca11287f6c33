//! Extractors that run programs, with real ones, from the configuration to what lies in the raw sink.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod command;
mod connectors;
mod lab;
