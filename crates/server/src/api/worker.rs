//! What senders of runs ask: how one stands, and how all do.

use axum::extract::State;
use axum::response::Response;
use redrive_control::shape::{RunMetricsShape, RunShape};
use redrive_core::id::RunId;
use redrive_core::run::{Run, Workload};

use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Param, ParamKind, Params, PathText, as_json, json, json_bytes};

const WORKLOAD: &[Param] = &[Param::new(
    "workload",
    ParamKind::Word(&["extract", "ingest", "process"]),
    "Which kind of work; ingest unless said",
)];
/// How many failures are told.
const FAILURES: u32 = 20;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/worker/runs/{id}/status", Access::Viewer, "How a run stands", run_status).json::<RunShape>(),
        Route::get("/v1/worker/metrics", Access::Viewer, "How a workload is doing, with its newest failures", metrics)
            .query(&[WORKLOAD])
            .json::<RunMetricsShape>(),
    ]
}

async fn run_status(State(app): State<App>, PathText(id): PathText<RunId>) -> Result<Response> {
    json(&RunShape::from(find(&app, id).await?))
}

async fn metrics(State(app): State<App>, params: Params) -> Result<Response> {
    let workload = params.parsed("workload")?.unwrap_or(Workload::Ingest);
    let insight = app.insight();
    let look = async {
        let metrics = insight.view().run_metrics(workload, FAILURES).await?;
        json_bytes(&RunMetricsShape::new(workload, metrics))
    };
    Ok(as_json(app.overviews().get(&format!("metrics of {workload}"), look).await?))
}

/// The run that a path names, by its whole id.
pub async fn find(app: &App, id: RunId) -> Result<Run> {
    app.insight().view().run(id).await?.ok_or_else(|| Error::not_found(format!("there is no run {id}")))
}
