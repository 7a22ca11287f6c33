//! What senders of runs ask: how one stands.

use axum::extract::State;
use axum::response::Response;
use redrive_control::shape::RunShape;
use redrive_core::id::RunId;
use redrive_core::run::Run;

use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{PathText, json};

pub fn routes() -> Vec<Route> {
    vec![Route::get("/v1/worker/runs/{id}/status", Access::Viewer, "How a run stands", run_status)]
}

async fn run_status(State(app): State<App>, PathText(id): PathText<String>) -> Result<Response> {
    json(&RunShape::from(find(&app, &id).await?))
}

/// The run that a path names, by its whole id.
pub async fn find(app: &App, id: &str) -> Result<Run> {
    let wrong =
        |_| Error::bad_request(format!("{id:?} is no id of a run; write it like 019a8f00-1111-7222-8333-444455556666"));
    let id: RunId = id.parse().map_err(wrong)?;
    app.insight().view().run(id).await?.ok_or_else(|| Error::not_found(format!("there is no run {id}")))
}
