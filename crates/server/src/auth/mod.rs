//! Who sent a request: by a token, a session, a proxy that is trusted, or by being on the same machine.

mod attempts;
mod bearer;
mod first;
mod forward;
mod local;
mod network;
mod secret;
pub mod session;

use axum::http::request::Parts;

use crate::app::App;
use crate::error::Result;
use crate::web::Caller;
pub use attempts::Attempts;
pub use bearer::find as find_token;
pub use first::FirstLink;
pub use forward::ForwardAuth;
pub use network::{Network, NoNetwork};
pub use secret::Secret;

/// Finds out who sent a request; nobody where nothing says so. A sign that is there and is wrong is an error: it is never
/// passed over for a weaker one.
pub async fn identify(app: &App, request: &Parts) -> Result<Option<Caller>> {
    if let Some(forward) = &app.settings().forward_auth
        && let Some(caller) = forward.caller(request)?
    {
        return Ok(Some(caller));
    }
    if let Some(caller) = bearer::caller(app, &request.headers).await? {
        return Ok(Some(caller));
    }
    if let Some(caller) = session::caller(app, &request.headers).await? {
        return Ok(Some(caller));
    }
    Ok(local::caller(app, request))
}
