//! The overview.

use axum::extract::State;
use axum::response::Response;
use redrive_control::shape::OverviewShape;
use redrive_core::key::Source;

use crate::app::App;
use crate::error::Result;
use crate::routes::{Access, Route};
use crate::web::{Code, Param, ParamKind, Params, as_json, json_bytes};

const ONE_SOURCE: &[Param] = &[Param::new("source", ParamKind::Key, "Only this source")];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/status", Access::Viewer, "What needs a person, and how everything stands", status)
            .query(&[ONE_SOURCE])
            .json::<OverviewShape>()
            .refuses(&[Code::Unusable]),
    ]
}

async fn status(State(app): State<App>, params: Params) -> Result<Response> {
    let source: Option<Source> = params.parsed("source")?;
    let rules = app.rules();
    let look =
        async { json_bytes(&rules.plane.insight().overview(source.as_ref(), &rules.config, app.words()).await?) };
    Ok(as_json(app.overviews().get(&format!("status {}", params.get("source").unwrap_or_default()), look).await?))
}
