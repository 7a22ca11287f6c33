//! Changing many: partitions by `/v1/state/{verb}`, runs by `/v1/runs/{verb}`. Few are changed at once and answered with the command
//! line's report; many become an operation in steps.

use std::sync::atomic::AtomicBool;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use redrive_control::shape::BulkOperationShape;
use redrive_control::{ControlPlane, Halt, Insight, Plan, PlanAsk, Report, RunVerb};
use redrive_core::id::OpId;
use redrive_core::refusal::Reason;
use redrive_store::BulkOperation;

use super::change::{ChangeBody, of_partitions, of_runs, unwatched};
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Caller, Code, Json, PathText, answering, if_match, json, json_bytes};

/// The most that are changed while the caller waits.
const AT_ONCE: u64 = 1000;

/// Why a change may be refused though its body has the right form.
pub const REFUSED: &[Code] =
    &[Code::EmptyFilter, Code::Unusable, Code::NotFound, Code::ConfirmationRequired, Code::SinkUnavailable];

const IN_STEPS: &str = "So many change that it is done in steps";
const RETRIES: &str = "Start a fresh count of a filter's runs that are dead or wait after a failure";

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/state/{verb}", Access::Operator, "Change the partitions of a filter", change_partitions)
            .takes_bodies(of_partitions)
            .json::<Report>()
            .or_accepted::<BulkOperationShape>(IN_STEPS)
            .if_match()
            .refuses(REFUSED),
        Route::post("/v1/runs/retry", Access::Operator, RETRIES, retry_runs)
            .takes_bodies(of_runs)
            .json::<Report>()
            .or_accepted::<BulkOperationShape>(IN_STEPS)
            .refuses(REFUSED),
        Route::post("/v1/runs/cancel", Access::Operator, "Cancel the runs of a filter", cancel_runs)
            .takes_bodies(of_runs)
            .json::<Report>()
            .or_accepted::<BulkOperationShape>(IN_STEPS)
            .refuses(REFUSED),
    ]
}

async fn change_partitions(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathText(verb): PathText<String>,
    headers: HeaderMap,
    Json(body): Json<ChangeBody>,
) -> Result<Response> {
    let route = format!("POST /v1/state/{verb}");
    let ask = body.ask(&verb, &app.insight(), &caller, &route).await?;
    let seen = as_seen(&ask, &app.insight(), &headers).await?;
    change(&app, &body, &ask, seen).await
}

/// The version of the one partition that a change with `If-Match` is about, where it is still the one that was seen.
async fn as_seen(ask: &PlanAsk, insight: &Insight, headers: &HeaderMap) -> Result<Option<u64>> {
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(None);
    }
    let key = match ask {
        PlanAsk::Partitions(request) => request.filter.as_key(),
        PlanAsk::Backfill { .. } | PlanAsk::Runs(_) => None,
    };
    let several = || Error::unusable("If-Match is about one partition: name its four values, or leave the header out");
    let key = key.ok_or_else(several)?;
    let absent = || Error::not_found(format!("there is no partition {key}"));
    let version = insight.view().partition(&key).await?.ok_or_else(absent)?.state.version;
    if_match(headers, version)?;
    Ok(Some(version))
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
    change(&app, &body, &ask, None).await
}

async fn change(app: &App, body: &ChangeBody, ask: &PlanAsk, seen: Option<u64>) -> Result<Response> {
    let rules = app.rules();
    let plane = &rules.plane;
    let (counted, plan) = count(plane, ask, body.dry_run).await?;
    if let Some(seen) = seen
        && plan.versions().any(|version| version != seen)
    {
        let detail = "it was changed while this request was looked at; look again";
        return Err(Error::of_code(Code::Refused(Reason::ChangedSincePlan), detail));
    }
    if body.dry_run {
        return json(&counted);
    }
    if counted.count_changed() <= AT_ONCE {
        body.check_confirmed(counted.count_changed(), rules.rails)?;
        let never = AtomicBool::new(false);
        return json(&whole(plane.operate_as_counted(ask, counted, plan, unwatched(&never, None)).await?)?);
    }
    let never = AtomicBool::new(false);
    let kept = plane.keep_plan(ask, unwatched(&never, None)).await?;
    body.check_confirmed(kept.would_change, rules.rails)?;
    accepted(app, begun(app, plane.begin_plan(kept.plan_id, ask.audit())).await?).await
}

/// Counts what would change: a dry run all of it, otherwise no further than what is changed at once.
async fn count(plane: &ControlPlane, ask: &PlanAsk, is_dry_run: bool) -> Result<(Report, Plan)> {
    let never = AtomicBool::new(false);
    let watch = unwatched(&never, (!is_dry_run).then_some(AT_ONCE));
    let (report, plan) = plane.insight().plan(ask, watch).await?;
    Ok((whole(report)?, plan))
}

/// A report that came to its end.
fn whole(mut report: Report) -> Result<Report> {
    match report.halt.take() {
        None => Ok(report),
        Some(Halt::Fault(error)) => Err(error.into()),
        Some(Halt::Interrupted) => Err(Error::Internal("nobody interrupts a request".to_owned())),
    }
}

/// Begins an operation. The answer to a request with a key is kept in the transaction that begins it.
pub async fn begun<F: Future>(app: &App, beginning: F) -> F::Output {
    let place = app.clone();
    let body = |operation: &BulkOperation| json_bytes(&BulkOperationShape::from(operation.clone()));
    let place = move |operation: &BulkOperation| Some(place.url(&format!("/v1/operations/{}", operation.op_id)));
    answering(StatusCode::ACCEPTED, body, place, beginning).await
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
