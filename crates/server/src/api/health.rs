//! Whether the process lives, and whether it can do its work.

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Code, json};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/healthz", Access::Anyone, "Whether the process lives", healthz).json::<Health>(),
        Route::get("/readyz", Access::Viewer, "Whether the database and the raw sink answer", readyz)
            .json::<Health>()
            .refuses(&[Code::Draining, Code::SinkUnavailable]),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    status: &'static str,
}

async fn healthz() -> Result<Response> {
    json(&Health { status: "ok" })
}

async fn readyz(State(app): State<App>) -> Result<Response> {
    if app.is_draining() {
        return Err(Error::of_code(Code::Draining, "the server is about to end; use another one"));
    }
    app.insight().check_ready().await?;
    json(&Health { status: "ready" })
}
