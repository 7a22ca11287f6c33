//! Taking uploads: as the body itself, or as the files of a form. What comes goes straight into the sink, a piece at a time.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use redrive_control::shape::UploadShape;
use redrive_data::ingest::{Uploaded, Uploads};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::description::Link;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Code, Param, ParamKind, Params, json as answer, media_type};

const NAME: &[Param] = &[Param::new("file", ParamKind::Text, "What the body is called, unless it is a form")];
/// The name of a form's field that holds a file.
const FIELD: &str = "file";
/// How long the next piece of a body may be waited for.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/uploads", Access::Operator, "Upload an archive or a configuration file", upload)
            .query(&[NAME])
            .status(202)
            .json::<Runs>()
            .takes_bodies(bodies)
            .refuses(&[Code::Draining, Code::SinkUnavailable, Code::Unusable])
            .links(&[Link {
                name: "run",
                operation: "get_v1_runs_id",
                parameter: "id",
                from: "$response.body#/runs/0/id",
            }]),
    ]
}

fn bodies() -> Value {
    let bytes = json!({"type": "string", "contentMediaType": "application/octet-stream"});
    let form = json!({
        "type": "object", "required": ["file"], "properties": {"file": bytes}, "additionalProperties": false,
    });
    json!({"multipart/form-data": {"schema": form}, "application/octet-stream": {"schema": bytes}})
}

/// What became of an upload.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "UploadedRuns")]
struct Runs {
    runs: Vec<UploadShape>,
}

async fn upload(State(app): State<App>, params: Params, request: Request) -> Result<Response> {
    if app.is_draining() {
        return Err(Error::of_code(Code::Draining, "the server is about to end; send the upload to another one"));
    }
    let uploads = app.uploads().await?;
    let (parts, body) = request.into_parts();
    let taken = match media_type(&parts.headers).as_deref() {
        Some("multipart/form-data") => of_form(&uploads, &parts.headers, body).await?,
        Some(_) | None => {
            let name = params.get("file").filter(|name| !name.is_empty());
            let todo = "say what the body is called: ?file=NAME, or send a form with the field `file`";
            let name = name.ok_or_else(|| Error::unusable(todo))?;
            let size = parts.headers.get(header::CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok());
            vec![uploads.upload(name, size, patient(body.into_data_stream())).await?]
        }
    };
    let runs = taken.iter().map(|taken| UploadShape::new(&taken.run, taken.upload.same_as)).collect();
    Ok((StatusCode::ACCEPTED, answer(&Runs { runs })?).into_response())
}

async fn of_form(uploads: &Uploads, headers: &HeaderMap, body: Body) -> Result<Vec<Uploaded>> {
    let wrong = |error: multer::Error| Error::bad_request(format!("the form cannot be read: {error}"));
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(wrong)?;
    let mut form = multer::Multipart::new(patient(body.into_data_stream()), boundary);
    let mut taken = Vec::new();
    while let Some(field) = form.next_field().await.map_err(wrong)? {
        let (name, file) = (field.name().map(str::to_owned), field.file_name().map(str::to_owned));
        match (name.as_deref(), file) {
            (Some(FIELD), Some(file)) => {
                taken.push(uploads.upload(&file, None, field.map_err(io::Error::other)).await?);
            }
            (Some(FIELD), None) => return Err(Error::unusable("the field `file` must have a file name")),
            (other, _) => {
                let other = other.unwrap_or_default();
                return Err(Error::bad_request(format!("the field {other:?} is unknown; send `file`")));
            }
        }
    }
    if taken.is_empty() {
        return Err(Error::bad_request("the form has no field `file`"));
    }
    Ok(taken)
}

/// A body whose sender may rest for a while, and no longer.
fn patient<E>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send
where
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {} s", PATIENCE.as_secs()));
    stream::try_unfold(Box::pin(body), move |mut body| async move {
        match tokio::time::timeout(PATIENCE, body.next()).await {
            Ok(Some(Ok(piece))) => Ok(Some((piece, body))),
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
            Ok(None) => Ok(None),
            Err(_) => Err(late()),
        }
    })
}
