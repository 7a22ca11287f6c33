//! The worker over a real store and a real sink, with sources that do as they are told.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod attempts;
mod claims;
mod commands;
mod discovery;
mod fairness;
mod handlers;
mod holds;
mod house;
mod jobs;
mod leases;
mod limits;
mod posts;
mod programs;
mod retries;
mod scratch;
#[path = "../scripted/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the other test binaries use more of it")]
mod scripted;
mod source;
mod told;
mod validators;
