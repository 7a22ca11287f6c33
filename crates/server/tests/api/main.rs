//! The API over a real store, on a real socket.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod basics;
mod bulk;
mod client;
mod described;
mod events;
mod forward;
mod lists;
mod metrics;
mod openapi;
mod outside;
mod pressure;
mod promised;
mod reads;
mod roles;
mod runs;
mod served;
mod sign_in;
