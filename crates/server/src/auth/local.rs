//! Callers on the same machine, who need no token: whoever may reach a loopback address of the machine that holds the
//! database. A name that is not loopback's, or a sign of a proxy, means that the call came from elsewhere.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use redrive_core::role::Role;

use crate::app::App;
use crate::web::{Caller, Peer, is_loopback_host};

/// What proxies leave in a request.
const SIGNS_OF_A_PROXY: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

/// The caller of a request from this machine, where the server listens to nobody else.
pub fn caller(app: &App, request: &Parts) -> Option<Caller> {
    let peer = request.extensions.get::<Peer>()?;
    // Where people come by another URL, there is a proxy, and everybody seems to be local.
    let is_direct =
        app.settings().public_url.is_none() && app.settings().forward_auth.is_none() && !is_forwarded(&request.headers);
    let is_local = app.is_local() && peer.0.ip().to_canonical().is_loopback();
    let host = request.headers.get("host").and_then(|host| host.to_str().ok());
    let is_meant = host.is_some_and(is_loopback_host);
    (is_direct && is_local && is_meant).then(|| Caller {
        actor: "local".to_owned(),
        role: Role::Admin,
        categories: None,
    })
}

fn is_forwarded(headers: &HeaderMap) -> bool {
    SIGNS_OF_A_PROXY.iter().any(|name| headers.contains_key(*name))
}
