//! Plans: dry runs that are kept for a day, and bind.

use std::sync::atomic::AtomicBool;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use redrive_control::shape::{BulkOperationShape, PlanShape};
use redrive_control::{Audit, RunVerb};
use redrive_core::whole::Whole;
use redrive_store::KeptPlan;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::change::{CANCEL_RUNS, ChangeBody, RETRY_RUNS, VERBS, check_confirmed, of_plan, unwatched};
use super::state::{REFUSED, accepted, begun};
use crate::app::App;
use crate::description::Link;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{self, Caller, Code, Json, Note, PathText};

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/plans", Access::Operator, "Make a dry run that is kept for a day and binds", make)
            .status(201)
            .takes_bodies(of_plan)
            .json::<PlanShape>()
            .refuses(REFUSED)
            .links(&[
                Link { name: "plan", operation: "get_v1_plans_id", parameter: "id", from: ID },
                Link { name: "apply", operation: "post_v1_plans_id_apply", parameter: "id", from: ID },
            ]),
        Route::get("/v1/plans/{id}", Access::Viewer, "A plan: how many would change, and some of them", one)
            .json::<PlanShape>(),
        Route::post("/v1/plans/{id}/apply", Access::Operator, "Do what a plan counted, and nothing else", apply)
            .takes::<Apply>()
            .accepted::<BulkOperationShape>()
            .refuses(&[Code::ConfirmationRequired])
            .links(&[Link {
                name: "operation",
                operation: "get_v1_operations_op",
                parameter: "op",
                from: "$response.body#/op_id",
            }]),
    ]
}

/// Where the answer has the plan.
const ID: &str = "$response.body#/plan_id";

async fn make(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<ChangeBody>,
) -> Result<Response> {
    let insight = app.insight();
    let route = "POST /v1/plans";
    let ask = match body.verb.as_deref() {
        None => return Err(Error::field("/verb", "say what is to be done, such as retry")),
        Some(RETRY_RUNS) => body.ask_runs(RunVerb::Retry, &insight, &caller, route).await?,
        Some(CANCEL_RUNS) => body.ask_runs(RunVerb::Cancel, &insight, &caller, route).await?,
        Some(verb) if !VERBS.contains(&verb) => {
            return Err(Error::field("/verb", format!("{verb:?} is unknown; it is one of {}", VERBS.join(", "))));
        }
        Some(verb) => body.ask(verb, &insight, &caller, route).await?,
    };
    let never = AtomicBool::new(false);
    let rules = app.rules();
    let keeping = rules.plane.keep_plan(&ask, unwatched(&never, None));
    let body = |plan: &KeptPlan| web::json_bytes(&PlanShape::from(plan.clone()));
    let plan = web::answering(StatusCode::CREATED, body, |_| None, keeping).await?;
    Ok((StatusCode::CREATED, web::json(&plan)?).into_response())
}

async fn one(State(app): State<App>, PathText(id): PathText<Uuid>) -> Result<Response> {
    web::json(&app.insight().kept_plan(id).await?)
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Apply {
    /// How many will change, where there are many
    confirm: Option<Whole>,
    /// No limits; for admins
    force: bool,
    /// Why, for the audit trail; the plan's own reason unless said
    reason: Option<Note>,
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
    let audit = Audit {
        reason: body.reason.map(Note::text),
        force: body.force,
        yes,
        ..caller.audit("POST /v1/plans/{id}/apply")
    };
    accepted(&app, begun(&app, rules.plane.begin_plan(id, &audit)).await?).await
}
