//! Failure groups, and the processes that live; outside workers that are asked to drain.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use redrive_control::Audit;
use redrive_control::shape::{GroupShape, ProcessShape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filter::{self, FILTER, FILTERED};
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Caller, Json, Note, Params, PathText, json};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/groups", Access::Viewer, "What is failed now, by cause, the largest group first", groups)
            .query(&[FILTER])
            .json::<Groups>()
            .refuses(FILTERED),
        Route::get("/v1/processes", Access::Viewer, "Workers, daemons and servers that were seen lately", processes)
            .json::<Processes>(),
        Route::post(
            "/v1/processes/{name}/drain",
            Access::Operator,
            "Have an outside worker take on nothing more, or go on",
            drain,
        )
        .takes::<Drain>()
        .json::<Drained>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct Groups {
    groups: Vec<GroupShape>,
}

async fn groups(State(app): State<App>, params: Params) -> Result<Response> {
    let insight = app.insight();
    let filter = filter::partitions(&params, &insight).await?;
    json(&Groups { groups: insight.groups(&filter).await? })
}

#[derive(Debug, Serialize, JsonSchema)]
struct Processes {
    processes: Vec<ProcessShape>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Drain {
    /// Whether it is to take on nothing more; false lets it go on
    drain: bool,
    /// Why, for the audit trail
    reason: Option<Note>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Drained {
    name: String,
    drain: bool,
}

async fn drain(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathText(name): PathText<String>,
    Json(body): Json<Drain>,
) -> Result<Response> {
    let Drain { drain, reason } = body;
    let audit = Audit { reason: reason.map(Note::text), ..caller.audit("POST /v1/processes/{name}/drain") };
    match app.rules().plane.drain_worker(&name, drain, &audit).await? {
        true => json(&Drained { name, drain }),
        false => {
            Err(Error::not_found(format!("no outside worker calls itself {name:?}; GET /v1/processes lists them")))
        }
    }
}

async fn processes(State(app): State<App>) -> Result<Response> {
    let rules = app.rules();
    let insight = rules.plane.insight();
    let (now, processes) = (insight.now(), insight.view().processes().await?);
    let shape = |process| ProcessShape::new(process, &rules.config, now);
    json(&Processes { processes: processes.into_iter().map(shape).collect() })
}
