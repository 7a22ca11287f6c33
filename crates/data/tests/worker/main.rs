//! The worker over a real store and a real sink, with sources that do as they are told.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod attempts;
mod house;
mod jobs;
mod leases;
mod limits;
mod programs;
mod scratch;
mod source;
