//! The `http` extractor against a server on this machine.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod answers;
mod bodies;
mod configuration;
mod guards;
mod pages;
mod proxies;
mod redirects;
#[path = "../scripted/mod.rs"]
mod scripted;
mod secrecy;
mod tls;

use redrive_data::extract::Extractor;
use serde_json::{Value, json};
use std::sync::Arc;

use scripted::{Bed, Extracted, Server, job, settings};

/// An extractor for a place on the server, with more settings.
fn http(server: &Server, target: &str, more: Value) -> Arc<dyn Extractor> {
    let mut all = json!({"kind": "http", "url": server.url(target), "allow_private": true});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings(all).unwrap()
}

async fn extract(extractor: &Arc<dyn Extractor>) -> Extracted {
    Bed::new().await.extract(&**extractor, &job("a/b", 1)).await
}
