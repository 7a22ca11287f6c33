//! Changing many: partitions by `/v1/state/{verb}`, runs by `/v1/runs/{verb}`. Few are changed at once and answered with the command
//! line's report; many become an operation in steps.

use std::sync::atomic::AtomicBool;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use redrive_control::{ControlPlane, Halt, Plan, PlanAsk, Report, RunVerb};
use redrive_core::id::OpId;

use super::change::{ChangeBody, described, unwatched};
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Caller, Json, PathText, json};

/// The most that are changed while the caller waits.
const AT_ONCE: u64 = 1000;

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/state/{verb}", Access::Operator, "Change the partitions of a filter", change_partitions)
            .takes(described),
        Route::post("/v1/runs/retry", Access::Operator, "Start a fresh count of the dead runs of a filter", retry_runs)
            .takes(described),
        Route::post("/v1/runs/cancel", Access::Operator, "Cancel the runs of a filter", cancel_runs).takes(described),
    ]
}

async fn change_partitions(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathText(verb): PathText<String>,
    Json(body): Json<ChangeBody>,
) -> Result<Response> {
    let route = format!("POST /v1/state/{verb}");
    let ask = body.ask(&verb, &app.insight(), &caller, &route).await?;
    change(&app, &body, &ask).await
}

async fn retry_runs(state: State<App>, caller: Extension<Caller>, body: Json<ChangeBody>) -> Result<Response> {
    change_runs(state, caller, body, RunVerb::Retry).await
}

async fn cancel_runs(state: State<App>, caller: Extension<Caller>, body: Json<ChangeBody>) -> Result<Response> {
    change_runs(state, caller, body, RunVerb::Cancel).await
}

async fn change_runs(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<ChangeBody>,
    verb: RunVerb,
) -> Result<Response> {
    let route = format!("POST /v1/runs/{}", verb.name());
    let ask = body.ask_runs(verb, &app.insight(), &caller, &route).await?;
    change(&app, &body, &ask).await
}

async fn change(app: &App, body: &ChangeBody, ask: &PlanAsk) -> Result<Response> {
    let rules = app.rules();
    let plane = &rules.plane;
    let (counted, plan) = count(plane, ask, body.dry_run).await?;
    if body.dry_run {
        return json(&counted);
    }
    if counted.count_changed() <= AT_ONCE {
        body.check_confirmed(counted.count_changed(), rules.rails)?;
        return json(&whole(act(plane, ask, counted, plan).await?)?);
    }
    let never = AtomicBool::new(false);
    let kept = plane.keep_plan(ask, unwatched(&never, None)).await?;
    body.check_confirmed(kept.would_change, rules.rails)?;
    let audit = match ask {
        PlanAsk::Partitions(request) => &request.audit,
        PlanAsk::Runs(request) => &request.audit,
        PlanAsk::Backfill { audit, .. } => audit,
    };
    accepted(app, plane.begin_plan(kept.plan_id, audit).await?).await
}

/// Counts what would change: a dry run all of it, otherwise no further than what is changed at once.
async fn count(plane: &ControlPlane, ask: &PlanAsk, is_dry_run: bool) -> Result<(Report, Option<Plan>)> {
    let never = AtomicBool::new(false);
    let watch = unwatched(&never, (!is_dry_run).then_some(AT_ONCE));
    let insight = plane.insight();
    let (report, plan) = match ask {
        PlanAsk::Partitions(request) => {
            let (report, plan) = insight.plan(request, watch).await?;
            (report, Some(plan))
        }
        PlanAsk::Runs(request) => {
            let (report, plan) = insight.plan_runs(request, watch).await?;
            (report, Some(plan))
        }
        PlanAsk::Backfill { filter, force_pending, audit } => {
            (insight.foresee_backfill(filter, *force_pending, audit, watch).await?, None)
        }
    };
    Ok((whole(report)?, plan))
}

async fn act(plane: &ControlPlane, ask: &PlanAsk, counted: Report, plan: Option<Plan>) -> Result<Report> {
    let never = AtomicBool::new(false);
    let watch = unwatched(&never, None);
    Ok(match (ask, plan) {
        (PlanAsk::Partitions(request), Some(plan)) => plane.operate_as_counted(request, counted, plan, watch).await?,
        (PlanAsk::Partitions(request), None) => plane.operate(request, watch).await?,
        (PlanAsk::Runs(request), Some(plan)) => plane.operate_runs_as_counted(request, counted, plan, watch).await?,
        (PlanAsk::Runs(request), None) => plane.operate_runs(request, watch).await?,
        (PlanAsk::Backfill { filter, force_pending, audit }, _) => {
            plane.backfill(filter, *force_pending, audit, watch).await?
        }
    })
}

/// A report that came to its end.
fn whole(mut report: Report) -> Result<Report> {
    match report.halt.take() {
        None => Ok(report),
        Some(Halt::Fault(error)) => Err(error.into()),
        Some(Halt::Interrupted) => Err(Error::Internal("nobody interrupts a request".to_owned())),
    }
}

/// Says that an operation goes on, and where to look.
pub async fn accepted(app: &App, op_id: OpId) -> Result<Response> {
    let operation = app.insight().bulk_operation(op_id).await?;
    let mut response = (StatusCode::ACCEPTED, json(&operation)?).into_response();
    if let Ok(place) = HeaderValue::from_str(&app.url(&format!("/v1/operations/{op_id}"))) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}
