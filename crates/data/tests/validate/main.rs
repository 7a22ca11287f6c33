//! What the validator says of attempts that lie in a real raw sink.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod damage;
mod hostile;
mod lab;
mod manifests;
mod many;
mod rules;
mod schema;
mod settings;
mod unique;
