//! `Idempotency-Key`: a request that changes something may be sent again, and changes nothing more. One layer for every POST.

use std::any::Any;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Response as HttpResponse, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use redrive_core::run::MAX_JOB_BYTES;
use redrive_store::raw::Sha256;
use redrive_store::{KeyFound, KeyedRequest, under_key};
use serde::{Deserialize, Serialize};

use super::body::{self, media_type};
use super::caller::Caller;
use super::code::Code;
use crate::app::App;
use crate::error::{Error, Result};

static KEY: HeaderName = HeaderName::from_static("idempotency-key");
static REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest key, in characters.
pub const LONGEST_KEY: usize = 200;

/// The most bytes of a body that is read whole: as many as any route takes, but for uploads.
const MAX_BODY: usize = MAX_JOB_BYTES;

/// An answer as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// Does something whose answer is made of what one of its transactions gives: under a key, that answer is kept in the transaction.
pub async fn answering<T: Any, F: Future>(
    status: StatusCode,
    body: impl Fn(&T) -> Result<Bytes> + Send + Sync + 'static,
    place: impl Fn(&T) -> Option<String> + Send + Sync + 'static,
    work: F,
) -> F::Output {
    let answer = move |given: &T| {
        let mut headers = vec![(header::CONTENT_TYPE.to_string(), "application/json".to_owned())];
        headers.extend(place(given).map(|place| (header::LOCATION.to_string(), place)));
        let body = String::from_utf8_lossy(&body(given).ok()?).into_owned();
        serde_json::to_string(&KeptAnswer { status: status.as_u16(), headers, body }).ok()
    };
    redrive_store::answering(answer, work).await
}

/// What of an answer's headers is kept with it.
const KEPT: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ETAG];

pub async fn keyed(State(app): State<App>, request: Request, next: Next) -> Result<Response> {
    let Some(key) = key_of(&request)? else { return Ok(next.run(request).await) };
    let actor = request.extensions().get::<Caller>().map(|caller| caller.actor.clone()).unwrap_or_default();
    let route = format!("{} {}", request.method(), request.uri());
    let (request, body_hash) = hashed(request).await?;
    let store = app.store();
    let hold = match store.begin_key(KeyedRequest { actor, route, key, body_hash }).await? {
        KeyFound::Fresh(hold) => hold,
        KeyFound::Answered(answer) => return replayed(&answer),
        KeyFound::Running => {
            let detail = "a request with this Idempotency-Key has not ended yet; send it again in a moment";
            return Err(Error::of_code(Code::InProgress, detail));
        }
        KeyFound::Interrupted => {
            let detail = "the server ended after the change was made and before its answer was kept; look at what is there, \
                          GET /v1/operations among others, and choose a new key for a new request";
            return Err(Error::of_code(Code::Interrupted, detail));
        }
        KeyFound::OtherBody => {
            let detail = "this Idempotency-Key was sent with another body; choose a new key for a new request";
            return Err(Error::of_code(Code::IdempotencyKeyReused, detail));
        }
    };
    let response = under_key(hold.clone(), next.run(request)).await;
    if !response.status().is_success() {
        // What changed nothing may be sent again as it is; what did keeps its key.
        store.drop_key(hold).await?;
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|error| Error::Internal(error.to_string()))?.to_bytes();
    let text = |name: &HeaderName| Some((name.to_string(), parts.headers.get(name)?.to_str().ok()?.to_owned()));
    let kept = KeptAnswer {
        status: parts.status.as_u16(),
        headers: KEPT.iter().filter_map(text).collect(),
        body: String::from_utf8_lossy(&bytes).into_owned(),
    };
    store.answer_key(hold, serde_json::to_string(&kept)?).await?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

fn key_of(request: &Request) -> Result<Option<String>> {
    let mut keys = request.headers().get_all(&KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    match key.to_str() {
        Ok(key) if is_key(key) && keys.next().is_none() => Ok(Some(key.to_owned())),
        Ok(_) | Err(_) => {
            Err(Error::bad_request(format!("send one Idempotency-Key of 1 to {LONGEST_KEY} visible characters")))
        }
    }
}

fn is_key(key: &str) -> bool {
    (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The hash of a body that is read whole. An upload is not: its key stands for its path, its type and its length.
async fn hashed(request: Request) -> Result<(Request, Vec<u8>)> {
    let is_text = match media_type(request.headers()).as_deref() {
        Some("application/json" | "application/jsonl" | "application/x-ndjson") => true,
        Some(_) => false,
        None => !request.uri().path().ends_with("/v1/uploads"),
    };
    if !is_text {
        let known = [header::CONTENT_TYPE, header::CONTENT_LENGTH].map(|name| request.headers().get(name).cloned());
        // The boundary of a form is another one each time.
        let kind = known[0].as_ref().map(|kind| kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default());
        let size = known[1].as_ref().map(HeaderValue::as_bytes);
        let known = [kind.unwrap_or_default(), b" ", size.unwrap_or_default()].concat();
        return Ok((request, Sha256::of(&known).to_string().into_bytes()));
    }
    let (parts, body) = request.into_parts();
    let bytes = body::read(body, MAX_BODY).await?;
    let hash = Sha256::of(&bytes).to_string().into_bytes();
    Ok((Request::from_parts(parts, Body::from(bytes)), hash))
}

fn replayed(answer: &str) -> Result<Response> {
    let kept: KeptAnswer = serde_json::from_str(answer)?;
    let mut response: Response = HttpResponse::new(Body::from(kept.body));
    *response.status_mut() = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    for (name, value) in &kept.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response.headers_mut().insert(REPLAYED.clone(), HeaderValue::from_static("true"));
    Ok(response)
}
