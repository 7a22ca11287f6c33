//! A stand-in for Google: a token endpoint and `searchStream`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redrive_data::extract::Extractor;
use serde_json::{Value, json};

use crate::scripted::{Bed, Extracted, Reply, Request, Server, job, settings};

pub const CUSTOMER: &str = "123-456-7890";

/// Answers the `n`th request for a token (from 1) with the token `access-n`, and streams as told.
pub fn google(stream: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
    let granted = AtomicU32::new(0);
    with_tokens(
        move |_| {
            let n = granted.fetch_add(1, Ordering::SeqCst) + 1;
            Reply::ok(json!({"access_token": format!("access-{n}"), "expires_in": 3599}).to_string())
        },
        stream,
    )
}

pub fn with_tokens(
    token: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    stream: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Server {
    Server::start(move |request| if request.target == "/token" { token(request) } else { stream(request) })
}

pub fn config(server: &Server, more: Value) -> Value {
    let mut all = json!({
        "kind": "google-ads",
        "endpoint": server.url(""),
        "token_endpoint": server.url("/token"),
        "client_id": {"env": "SECRET_client"},
        "client_secret": {"env": "SECRET_client/secret"},
        "refresh_token": {"env": "SECRET_refresh"},
    });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

pub fn ads(server: &Server, more: Value) -> Arc<dyn Extractor> {
    settings(config(server, more)).unwrap()
}

pub async fn extract(extractor: &Arc<dyn Extractor>) -> Extracted {
    Bed::new().await.extract(&**extractor, &job(CUSTOMER, 1)).await
}

/// How many requests went to the token endpoint, and to the API.
pub fn counts(server: &Server) -> (usize, usize) {
    let requests = server.requests();
    let tokens = requests.iter().filter(|request| request.target == "/token").count();
    (tokens, requests.len() - tokens)
}

/// An answer with one error of the API's own.
pub fn failure(category: &str, word: &str) -> String {
    json!({"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.ads.googleads.v26.errors.GoogleAdsFailure",
            "errors": [{"errorCode": {category: word}, "message": "so it is"}], "requestId": "in-the-body"}]}})
    .to_string()
}
