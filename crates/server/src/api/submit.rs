//! Submitting jobs: one, or many as JSON lines, all of them or none.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use redrive_control::shape::SubmittedShape;
use redrive_core::run::{Job, MAX_JOB_BYTES, MAX_NAME_BYTES};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Code, FieldFault, json as answer, media_type, read_body};

/// The most bytes of one job, payload and all; and of many together.
const MOST: usize = MAX_JOB_BYTES;

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs", Access::Operator, "Submit a job, or many as JSON lines", submit)
            .status(201)
            .takes(new_jobs),
    ]
}

fn new_jobs() -> Value {
    let job = json!({
        "type": "object",
        "required": ["category"],
        "properties": {
            "category": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES},
            "external_id": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_BYTES},
            "payload": {},
            "submitted_at": {"type": ["string", "null"], "format": "date-time"},
            "not_before": {"type": ["string", "null"], "format": "date-time"},
            "max_attempts": {"type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX},
        },
        "additionalProperties": false,
    });
    json!({"application/json": {"schema": job}, "application/jsonl": {"schema": {"type": "string"}}})
}

#[derive(Debug, Serialize)]
struct Runs {
    runs: Vec<SubmittedShape>,
}

async fn submit(State(app): State<App>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let kind = media_type(&parts.headers);
    let bytes = read_body(body, MOST).await?;
    let jobs = match kind.as_deref() {
        Some("application/json") => vec![job(&bytes).map_err(|detail| fault(String::new(), detail))?],
        Some("application/jsonl" | "application/x-ndjson") => jobs(&bytes)?,
        Some(_) | None => {
            let detail = "send a job as application/json, or many as application/jsonl";
            return Err(Error::told(Code::UnsupportedMediaType, detail));
        }
    };
    let submitted = app.rules().plane.submit(jobs).await?;
    let runs = submitted.into_iter().map(SubmittedShape::from).collect();
    Ok((StatusCode::CREATED, answer(&Runs { runs })?).into_response())
}

fn jobs(bytes: &[u8]) -> Result<Vec<Job>> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(nth, line)| (nth, line.trim_ascii())).filter(|(_, line)| !line.is_empty());
    let read = |(nth, line): (usize, &[u8])| job(line).map_err(|detail| fault(format!("/{nth}"), detail));
    lines.map(read).collect()
}

fn job(bytes: &[u8]) -> Result<Job, String> {
    Job::parse(bytes, None).map_err(|error| error.to_string())
}

fn fault(pointer: String, detail: String) -> Error {
    Error::Fields(vec![FieldFault { pointer, detail }])
}
