//! What workers in other languages call: claim by long poll, beat, report. A question or an answer may be lost on the way; every call may be
//! sent again.

use std::time::Duration;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::KEY_PATTERN;
use redrive_core::run::{Verdict, Work};
use redrive_core::whole::Whole;
use redrive_data::outside::{
    Caller, ClaimAsk, Completion, Delivery, EndAnswer, FailAnswer, FailureReport, GivenRun, HeldRun, LONGEST_WAIT,
    MAX_NAME, MAX_RUNS, Reported, SaidOf, Say, Slip,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{self, Code, Json, PathText, Peer};

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/worker/claim", Access::Worker, "Claim runs, waiting for them up to wait_ms", claim)
            .takes::<Claim>()
            .json::<Given>()
            .or_nothing("There was nothing to claim within wait_ms")
            .refuses(&[Code::Draining, Code::Unusable]),
        Route::post("/v1/worker/heartbeat", Access::Worker, "Prolong the leases of all runs of a worker", heartbeat)
            .takes::<Heartbeat>()
            .json::<Beats>()
            .refuses(&[Code::Unusable]),
        Route::post("/v1/worker/runs/{id}/complete", Access::Worker, "Report that a run is completed", complete)
            .takes::<Complete>()
            .json::<EndAnswer>()
            .refuses(&[Code::LeaseLost, Code::Unusable]),
        Route::post("/v1/worker/runs/{id}/fail", Access::Worker, "Report that a try has failed", fail)
            .takes::<Fail>()
            .json::<FailAnswer>()
            .refuses(&[Code::LeaseLost]),
        Route::post("/v1/worker/runs/{id}/release", Access::Worker, "Give a run back untried", release)
            .takes::<Release>()
            .json::<EndAnswer>()
            .refuses(&[Code::LeaseLost]),
    ]
}

/// The worker that calls, as the data plane knows it.
struct Worker(Caller);

impl FromRequestParts<App> for Worker {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let unknown = |_| Error::Internal("a request came through no gate".to_owned());
        let Extension(caller) = Extension::<web::Caller>::from_request_parts(parts, app).await.map_err(unknown)?;
        let host = parts.extensions.get::<Peer>().map(|peer| peer.0.ip().to_string()).unwrap_or_default();
        Ok(Self(Caller { host, categories: caller.categories }))
    }
}

impl From<Slip> for Error {
    fn from(slip: Slip) -> Self {
        let detail = slip.to_string();
        match slip {
            Slip::Empty { field } | Slip::Name { field } => Self::field(&format!("/{field}"), detail),
            Slip::NoRoom | Slip::TooMuch => Self::field("/max", detail),
            Slip::LongWait => Self::field("/wait_ms", detail),
            Slip::TooMany => Self::field("/runs", detail),
            Slip::LongName { field } => Self::unusable_field(&format!("/{field}"), detail),
            Slip::UnknownCategory(_) => Self::unusable_field("/categories", detail),
            Slip::Metrics => Self::unusable_field("/metrics", detail),
            Slip::Forbidden(_) => Self::of_code(Code::Forbidden, detail),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// What the worker calls itself
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = KEY_PATTERN))]
    worker: String,
    /// The worker's own name of this claim: the same again gives the same runs
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = KEY_PATTERN))]
    claim_id: String,
    /// None for all that the token is for
    categories: Option<Vec<String>>,
    /// How many runs at most; one unless said
    #[schemars(range(min = 1, max = MAX_RUNS))]
    max: Option<Whole>,
    /// How long to wait for work
    #[schemars(range(max = millis(LONGEST_WAIT)))]
    wait_ms: Option<Whole>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Given {
    runs: Vec<GivenShape>,
    /// The worker is to take on nothing more
    drain: bool,
}

/// A run as its worker is given it.
#[derive(Debug, Serialize, JsonSchema)]
struct GivenShape {
    id: RunId,
    task_id: Option<TaskId>,
    category: String,
    external_id: Option<String>,
    attempt: u32,
    #[schemars(with = "Value")]
    payload: Option<Box<RawValue>>,
    /// How long the worker has until it must have spoken of the run
    lease_ms: u64,
    /// How often it is to beat
    beat_ms: u64,
    /// How long the attempt may take
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

async fn claim(State(app): State<App>, Worker(caller): Worker, Json(body): Json<Claim>) -> Result<Response> {
    if app.is_draining() {
        return Err(Error::of_code(Code::Draining, "the server is about to end; claim again in a moment"));
    }
    let Claim { worker, claim_id, categories, max, wait_ms } = body;
    let ask = ClaimAsk { worker, claim_id, categories, max: max.map_or(1, u32::from) };
    let wait = Duration::from_millis(wait_ms.map_or(0, |Whole(millis)| millis.into()));
    let Delivery { runs, drain } = app.rules().outside.claim(&ask, &caller, wait, app.drained()).await??;
    if runs.is_empty() && !drain {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    web::json(&Given { runs: runs.into_iter().map(GivenShape::from).collect(), drain })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = KEY_PATTERN))]
    worker: String,
    #[serde(default)]
    #[schemars(length(max = MAX_RUNS))]
    runs: Vec<Held>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Held {
    id: RunId,
    task_id: TaskId,
    /// How far the worker is, in whatever form it likes: `runs explain` shows it
    #[serde(default)]
    progress: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Beats {
    runs: Vec<BeatShape>,
    /// The worker is to take on nothing more
    drain: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BeatShape {
    id: RunId,
    say: Say,
    /// How long the lease lasts now; nothing where it is lost
    lease_ms: u64,
}

async fn heartbeat(State(app): State<App>, Worker(caller): Worker, Json(body): Json<Heartbeat>) -> Result<Response> {
    let held = |run: Held| HeldRun { run_id: run.id, task_id: run.task_id, progress: run.progress };
    let held = body.runs.into_iter().map(held).collect();
    let beats = app.rules().outside.heartbeat(&body.worker, held, &caller).await??;
    let shape = |said: SaidOf| BeatShape { id: said.run_id, say: said.say, lease_ms: millis(said.lease) };
    let drain = beats.drain || app.is_draining();
    web::json(&Beats { runs: beats.runs.into_iter().map(shape).collect(), drain })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Complete {
    task_id: TaskId,
    verdict: Verdict,
    /// At most 64 KiB
    #[serde(default)]
    metrics: Option<Map<String, Value>>,
}

async fn complete(
    State(app): State<App>,
    Worker(caller): Worker,
    PathText(id): PathText<RunId>,
    Json(body): Json<Complete>,
) -> Result<Response> {
    let completion = Completion { verdict: body.verdict, metrics: body.metrics.unwrap_or_default() };
    answer(id, app.rules().outside.complete((id, body.task_id), completion, &caller).await??)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fail {
    task_id: TaskId,
    error_class: ErrorClass,
    message: String,
    traceback: Option<String>,
    /// How long the source asks to be left alone
    retry_after_ms: Option<Whole>,
}

async fn fail(
    State(app): State<App>,
    Worker(caller): Worker,
    PathText(id): PathText<RunId>,
    Json(body): Json<Fail>,
) -> Result<Response> {
    let failure = FailureReport {
        class: body.error_class,
        message: body.message,
        traceback: body.traceback,
        retry_after: body.retry_after_ms.map(|Whole(millis)| Duration::from_millis(millis.into())),
    };
    answer(id, app.rules().outside.fail((id, body.task_id), failure, &caller).await?)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Release {
    task_id: TaskId,
}

async fn release(
    State(app): State<App>,
    Worker(caller): Worker,
    PathText(id): PathText<RunId>,
    Json(body): Json<Release>,
) -> Result<Response> {
    answer(id, app.rules().outside.release((id, body.task_id), &caller).await?)
}

fn answer(id: RunId, reported: Reported) -> Result<Response> {
    match reported {
        Reported::Answer(text) => web::json(&serde_json::from_str::<Value>(&text)?),
        Reported::LeaseLost => {
            let detail =
                "the run is no longer this worker's; drop the work. What was reported is kept in the run's history";
            Err(Error::of_code(Code::LeaseLost, detail))
        }
        Reported::Forbidden => {
            Err(Error::of_code(Code::Forbidden, format!("this token is not for the category of run {id}")))
        }
        Reported::Absent => Err(Error::not_found(format!("there is no run {id}"))),
    }
}
