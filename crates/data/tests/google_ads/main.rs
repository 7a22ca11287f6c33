//! The `google-ads` extractor against a server on this machine that speaks the API's protocol.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod configuration;
mod google;
mod refusals;
#[path = "../scripted/mod.rs"]
mod scripted;
mod secrecy;
mod streams;
mod tokens;
