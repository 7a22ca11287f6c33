//! Who sent a request.

mod local;

use axum::http::request::Parts;

use crate::app::App;
use crate::error::Result;
use crate::web::Caller;

/// Finds out who sent a request; nobody where nothing says so. A sign that is there and is wrong is an error.
pub async fn identify(app: &App, request: &Parts) -> Result<Option<Caller>> {
    Ok(local::caller(app, request))
}
