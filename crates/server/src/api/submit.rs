//! Submitting jobs: one, or many as JSON lines, all of them or none.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use redrive_control::shape::SubmittedShape;
use redrive_core::run::{Job, JobError, MAX_JOB_BYTES, MAX_NAME_BYTES};
use redrive_store::Submitted;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::description::{Link, NO_NUL};
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Code, answering, json as answer, json_bytes, media_type, read_body};

/// The most bytes of one job, payload and all; and of many together.
const MOST: usize = MAX_JOB_BYTES;

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs", Access::Operator, "Submit a job, or many as JSON lines", submit)
            .status(201)
            .json::<Runs>()
            .takes_bodies(new_jobs)
            .refuses(&[Code::Unusable])
            .links(&[
                Link { name: "run", operation: "get_v1_runs_id", parameter: "id", from: FIRST },
                Link { name: "explain", operation: "get_v1_runs_id_explain", parameter: "id", from: FIRST },
                Link { name: "cancel", operation: "post_v1_runs_id_cancel", parameter: "id", from: FIRST },
                Link { name: "retry", operation: "post_v1_runs_id_retry", parameter: "id", from: FIRST },
            ]),
    ]
}

/// Where the answer has the run of the first job.
const FIRST: &str = "$response.body#/runs/0/id";

fn new_jobs() -> Value {
    let job = json!({
        "type": "object",
        "required": ["category"],
        "properties": {
            "category": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES, "pattern": NO_NUL},
            "external_id": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_BYTES, "pattern": NO_NUL},
            "payload": {},
            "submitted_at": {"type": ["string", "null"], "format": "date-time"},
            "not_before": {"type": ["string", "null"], "format": "date-time"},
            "max_attempts": {"type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX},
        },
        "additionalProperties": false,
    });
    json!({"application/json": {"schema": job}, "application/jsonl": {"schema": {"type": "string"}}})
}

/// What became of the jobs, in their order.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SubmittedRuns")]
struct Runs {
    runs: Vec<SubmittedShape>,
}

async fn submit(State(app): State<App>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let kind = media_type(&parts.headers);
    let bytes = read_body(body, MOST).await?;
    let jobs = match kind.as_deref() {
        Some("application/json") => vec![job(&bytes, "")?],
        Some("application/jsonl" | "application/x-ndjson") => jobs(&bytes)?,
        Some(_) | None => {
            let detail = "send a job as application/json, or many as application/jsonl";
            return Err(Error::of_code(Code::UnsupportedMediaType, detail));
        }
    };
    let rules = app.rules();
    let shape =
        |submitted: &Vec<Submitted>| Runs { runs: submitted.iter().copied().map(SubmittedShape::from).collect() };
    let body = move |submitted: &Vec<Submitted>| json_bytes(&shape(submitted));
    let submitted = answering(StatusCode::CREATED, body, |_| None, rules.plane.submit(jobs)).await?;
    Ok((StatusCode::CREATED, answer(&shape(&submitted))?).into_response())
}

fn jobs(bytes: &[u8]) -> Result<Vec<Job>> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(nth, line)| (nth, line.trim_ascii())).filter(|(_, line)| !line.is_empty());
    lines.map(|(nth, line)| job(line, &format!("/{nth}"))).collect()
}

fn job(bytes: &[u8], pointer: &str) -> Result<Job> {
    Job::parse(bytes, None).map_err(|error| {
        let detail = error.to_string();
        match error {
            JobError::Json(_)
            | JobError::NoCategory
            | JobError::EmptyCategory
            | JobError::EmptyExternalId
            | JobError::Nul(_)
            | JobError::NoAttempt => Error::field(pointer, detail),
            // The description counts characters, the limits bytes; and it knows no calendar.
            JobError::TooLong(_) | JobError::SubmittedAt | JobError::PayloadTooLarge => {
                Error::unusable_field(pointer, detail)
            }
        }
    })
}
