//! Plans: dry runs that are kept for a day, and bind.

use std::sync::atomic::AtomicBool;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use redrive_control::{Audit, RunVerb};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::change::{ChangeBody, check_confirmed, described, unwatched};
use super::state::accepted;
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{self, Caller, FieldFault, Json, PathText};

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/plans", Access::Operator, "Make a dry run that is kept for a day and binds", make)
            .status(201)
            .takes(described),
        Route::get("/v1/plans/{id}", Access::Viewer, "A plan: how many would change, and some of them", one),
        Route::post("/v1/plans/{id}/apply", Access::Operator, "Do what a plan counted, and nothing else", apply)
            .status(202)
            .takes(applying),
    ]
}

async fn make(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<ChangeBody>,
) -> Result<Response> {
    let insight = app.insight();
    let route = "POST /v1/plans";
    let ask = match body.verb.as_deref() {
        None => {
            let fault =
                FieldFault { pointer: "/verb".to_owned(), detail: "say what is to be done, such as retry".to_owned() };
            return Err(Error::Fields(vec![fault]));
        }
        Some("runs-retry") => body.ask_runs(RunVerb::Retry, &insight, &caller, route).await?,
        Some("runs-cancel") => body.ask_runs(RunVerb::Cancel, &insight, &caller, route).await?,
        Some(verb) => body.ask(verb, &insight, &caller, route).await?,
    };
    let never = AtomicBool::new(false);
    let plan = app.rules().plane.keep_plan(&ask, unwatched(&never, None)).await?;
    Ok((StatusCode::CREATED, web::json(&plan)?).into_response())
}

async fn one(State(app): State<App>, PathText(id): PathText<Uuid>) -> Result<Response> {
    web::json(&app.insight().kept_plan(id).await?)
}

fn applying() -> Value {
    let properties = json!({
        "confirm": {"type": ["integer", "null"], "minimum": 0}, "force": {"type": "boolean"},
        "reason": {"type": ["string", "null"]},
    });
    json!({"application/json": {"schema": {"type": "object", "properties": properties, "additionalProperties": false}}})
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Apply {
    confirm: Option<u64>,
    force: bool,
    reason: Option<String>,
}

async fn apply(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathText(id): PathText<Uuid>,
    Json(body): Json<Apply>,
) -> Result<Response> {
    ChangeBody { force: body.force, ..ChangeBody::default() }.check_role(&caller)?;
    let rules = app.rules();
    let plan = rules.plane.insight().kept_plan(id).await?;
    if plan.op_id.is_none() {
        check_confirmed(plan.would_change, rules.rails, body.confirm, body.force)?;
    }
    let yes = body.confirm.is_some();
    let audit = Audit { reason: body.reason, force: body.force, yes, ..caller.audit("POST /v1/plans/{id}/apply") };
    accepted(&app, rules.plane.begin_plan(id, &audit).await?).await
}
