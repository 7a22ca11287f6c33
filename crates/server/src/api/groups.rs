//! Failure groups, and the processes that live.

use axum::extract::State;
use axum::response::Response;
use redrive_control::shape::{GroupShape, ProcessShape};
use serde::Serialize;

use super::filter::{self, FILTER};
use crate::app::App;
use crate::error::Result;
use crate::routes::{Access, Route};
use crate::web::{Params, json};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/groups", Access::Viewer, "What is failed now, by cause, the largest group first", groups)
            .query(&[FILTER]),
        Route::get("/v1/processes", Access::Viewer, "Workers, daemons and servers that were seen lately", processes),
    ]
}

#[derive(Debug, Serialize)]
struct Groups {
    groups: Vec<GroupShape>,
}

async fn groups(State(app): State<App>, params: Params) -> Result<Response> {
    let insight = app.insight();
    let filter = filter::partitions(&params, &insight).await?;
    json(&Groups { groups: insight.groups(&filter).await? })
}

#[derive(Debug, Serialize)]
struct Processes {
    processes: Vec<ProcessShape>,
}

async fn processes(State(app): State<App>) -> Result<Response> {
    let rules = app.rules();
    let insight = rules.plane.insight();
    let (now, processes) = (insight.now(), insight.view().processes().await?);
    let shape = |process| ProcessShape::new(process, &rules.config, now);
    json(&Processes { processes: processes.into_iter().map(shape).collect() })
}
