//! What workers in other languages call: claim by long poll, beat, report. A question or an answer may be lost on the way; every call may be
//! sent again.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Verdict, Work};
use redrive_data::outside::{self, ClaimAsk, Completion, Delivery, FailureReport, GivenRun, Reported, SaidOf, Slip};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{self, Caller, Code, FieldFault, Json, PathText, Peer};

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/worker/claim", Access::Worker, "Claim runs, waiting for them up to wait_ms", claim)
            .takes(claims),
        Route::post("/v1/worker/heartbeat", Access::Worker, "Prolong the leases of all runs of a worker", heartbeat)
            .takes(heartbeats),
        Route::post("/v1/worker/runs/{id}/complete", Access::Worker, "Report that a run is completed", complete)
            .takes(completions),
        Route::post("/v1/worker/runs/{id}/fail", Access::Worker, "Report that a try has failed", fail).takes(failures),
        Route::post("/v1/worker/runs/{id}/release", Access::Worker, "Give a run back untried", release).takes(releases),
    ]
}

fn body(required: &[&str], properties: &Value) -> Value {
    let schema = json!({
        "type": "object", "required": required, "properties": properties, "additionalProperties": false,
    });
    json!({"application/json": {"schema": schema}})
}

fn claims() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 200});
    let whole = json!({"type": ["integer", "null"], "minimum": 0});
    let categories = json!({"type": ["array", "null"], "items": {"type": "string"}});
    let properties =
        json!({"worker": name, "claim_id": name, "categories": categories, "max": whole, "wait_ms": whole});
    body(&["worker", "claim_id"], &properties)
}

fn id() -> Value {
    json!({"type": "string", "format": "uuid"})
}

fn heartbeats() -> Value {
    let run = json!({
        "type": "object", "required": ["id", "task_id"],
        "properties": {"id": id(), "task_id": id(), "progress": {}}, "additionalProperties": false,
    });
    let worker = json!({"type": "string", "minLength": 1, "maxLength": 200});
    body(&["worker"], &json!({"worker": worker, "runs": {"type": "array", "maxItems": 1000, "items": run}}))
}

fn completions() -> Value {
    let verdict = json!({"enum": ["passed", "needs_review", "failed"]});
    let metrics = json!({"type": ["object", "null"]});
    body(&["task_id", "verdict"], &json!({"task_id": id(), "verdict": verdict, "metrics": metrics}))
}

fn failures() -> Value {
    let class = json!({"enum": ["final", "retryable", "rate_limited"]});
    let (text, text_or_none) = (json!({"type": "string"}), json!({"type": ["string", "null"]}));
    let millis = json!({"type": ["integer", "null"], "minimum": 0});
    let properties = json!({
        "task_id": id(), "error_class": class, "message": text, "traceback": text_or_none, "retry_after_ms": millis,
    });
    body(&["task_id", "error_class", "message"], &properties)
}

fn releases() -> Value {
    body(&["task_id"], &json!({"task_id": id()}))
}

/// Who calls, as the data plane knows them.
fn known(caller: &Caller, peer: Option<&Extension<Peer>>) -> outside::Caller {
    let host = peer.map(|Extension(Peer(address))| address.ip().to_string()).unwrap_or_default();
    outside::Caller { host, categories: caller.categories.clone() }
}

fn data(error: redrive_data::Error) -> Error {
    match error {
        redrive_data::Error::Store(error) => error.into(),
        redrive_data::Error::Raw(_)
        | redrive_data::Error::Scratch(_)
        | redrive_data::Error::Unusable { .. }
        | redrive_data::Error::Missing(_)
        | redrive_data::Error::Thread(_)
        | redrive_data::Error::KeeperGone
        | redrive_data::Error::CompleterGone => Error::Internal(error.to_string()),
    }
}

fn slip(slip: &Slip) -> Error {
    let pointer = match slip {
        Slip::Empty { field } | Slip::Name { field } => format!("/{field}"),
        Slip::NoRoom => "/max".to_owned(),
        Slip::TooMany => "/runs".to_owned(),
        Slip::UnknownCategory(_) => "/categories".to_owned(),
        Slip::Metrics => "/metrics".to_owned(),
        Slip::Forbidden(_) => return Error::told(Code::Forbidden, slip.to_string()),
    };
    Error::Fields(vec![FieldFault { pointer, detail: slip.to_string() }])
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    worker: String,
    claim_id: String,
    categories: Option<Vec<String>>,
    max: Option<u32>,
    wait_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Given {
    runs: Vec<GivenShape>,
    drain: bool,
}

/// A run as its worker is given it.
#[derive(Debug, Serialize)]
struct GivenShape {
    id: RunId,
    task_id: Option<TaskId>,
    category: String,
    external_id: Option<String>,
    attempt: u32,
    payload: Option<Box<RawValue>>,
    lease_ms: u64,
    beat_ms: u64,
    deadline_ms: u64,
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl From<GivenRun> for GivenShape {
    fn from(given: GivenRun) -> Self {
        let GivenRun { claimed, lease, beat, deadline } = given;
        let (category, external_id) = match claimed.run.work {
            Work::Process { category, external_id } => (category, external_id),
            Work::Extract(_) | Work::Ingest { .. } => (String::new(), None),
        };
        Self {
            id: claimed.run.run_id,
            task_id: claimed.run.task_id,
            category,
            external_id,
            attempt: claimed.run.attempt,
            payload: claimed.payload.and_then(|payload| RawValue::from_string(payload).ok()),
            lease_ms: millis(lease),
            beat_ms: millis(beat),
            deadline_ms: millis(deadline),
        }
    }
}

async fn claim(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    peer: Option<Extension<Peer>>,
    Json(body): Json<Claim>,
) -> Result<Response> {
    if app.is_draining() {
        return Err(Error::told(Code::Draining, "the server is about to end; claim again in a moment"));
    }
    let ask = ClaimAsk {
        worker: body.worker,
        claim_id: body.claim_id,
        categories: body.categories,
        max: body.max.unwrap_or(1),
    };
    let (caller, wait) = (known(&caller, peer.as_ref()), Duration::from_millis(body.wait_ms.unwrap_or(0)));
    let given = app.rules().outside.claim(&ask, &caller, wait, app.drained()).await.map_err(data)?;
    let Delivery { runs, drain } = given.map_err(|wrong| slip(&wrong))?;
    if runs.is_empty() && !drain {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    web::json(&Given { runs: runs.into_iter().map(GivenShape::from).collect(), drain })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    worker: String,
    #[serde(default)]
    runs: Vec<HeldRun>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldRun {
    id: RunId,
    task_id: TaskId,
    /// How far the worker is, for its own log.
    #[serde(default)]
    progress: Option<Value>,
}

#[derive(Debug, Serialize)]
struct Beats {
    runs: Vec<BeatShape>,
    drain: bool,
}

#[derive(Debug, Serialize)]
struct BeatShape {
    id: RunId,
    say: &'static str,
    lease_ms: u64,
}

async fn heartbeat(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    peer: Option<Extension<Peer>>,
    Json(body): Json<Heartbeat>,
) -> Result<Response> {
    for run in body.runs.iter().filter(|run| run.progress.is_some()) {
        tracing::debug!(run_id = %run.id, progress = ?run.progress, "progress");
    }
    let held = body.runs.iter().map(|run| (run.id, run.task_id)).collect();
    let caller = known(&caller, peer.as_ref());
    let beats = app.rules().outside.heartbeat(&body.worker, held, &caller).await.map_err(data)?;
    let beats = beats.map_err(|wrong| slip(&wrong))?;
    let shape = |said: SaidOf| BeatShape { id: said.run_id, say: said.say.as_str(), lease_ms: millis(said.lease) };
    let drain = beats.drain || app.is_draining();
    web::json(&Beats { runs: beats.runs.into_iter().map(shape).collect(), drain })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Complete {
    task_id: TaskId,
    verdict: Verdict,
    #[serde(default)]
    metrics: Option<Map<String, Value>>,
}

async fn complete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    peer: Option<Extension<Peer>>,
    PathText(id): PathText<RunId>,
    Json(body): Json<Complete>,
) -> Result<Response> {
    let completion = Completion { verdict: body.verdict, metrics: body.metrics.unwrap_or_default() };
    let caller = known(&caller, peer.as_ref());
    let reported = app.rules().outside.complete((id, body.task_id), completion, &caller).await.map_err(data)?;
    answer(id, reported.map_err(|wrong| slip(&wrong))?)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    task_id: TaskId,
    error_class: ErrorClass,
    message: String,
    traceback: Option<String>,
    retry_after_ms: Option<u64>,
}

async fn fail(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    peer: Option<Extension<Peer>>,
    PathText(id): PathText<RunId>,
    Json(body): Json<Fail>,
) -> Result<Response> {
    let failure = FailureReport {
        class: body.error_class,
        message: body.message,
        traceback: body.traceback,
        retry_after: body.retry_after_ms.map(Duration::from_millis),
    };
    let caller = known(&caller, peer.as_ref());
    answer(id, app.rules().outside.fail((id, body.task_id), failure, &caller).await.map_err(data)?)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    task_id: TaskId,
}

async fn release(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    peer: Option<Extension<Peer>>,
    PathText(id): PathText<RunId>,
    Json(body): Json<Release>,
) -> Result<Response> {
    let caller = known(&caller, peer.as_ref());
    answer(id, app.rules().outside.release((id, body.task_id), &caller).await.map_err(data)?)
}

fn answer(id: RunId, reported: Reported) -> Result<Response> {
    match reported {
        Reported::Answer(text) => web::json(&serde_json::from_str::<Value>(&text)?),
        Reported::LeaseLost => {
            let detail =
                "the run is no longer this worker's; drop the work. What was reported is kept in the run's history";
            Err(Error::told(Code::LeaseLost, detail))
        }
        Reported::Forbidden => {
            Err(Error::told(Code::Forbidden, format!("this token is not for the category of run {id}")))
        }
        Reported::Absent => Err(Error::not_found(format!("there is no run {id}"))),
    }
}
