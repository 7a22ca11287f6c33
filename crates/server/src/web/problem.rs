//! RFC 9457: how a request is told that it was not answered.
//!
//! A handler gives an [`Error`]; what surrounds all handlers ([`super::around`]) writes it, because only there the request's
//! id and the place of the problem's page are known.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::code::Code;
use crate::error::Error;

/// What is wrong, and what to do.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Problem {
    /// The page that explains the code.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: &'static str,
    pub status: u16,
    /// What is wrong, and what to do.
    pub detail: String,
    pub code: Code,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    /// How many would change, where that must be confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// What the server's log calls the request.
    pub request_id: String,
}

/// What is wrong with one field of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldFault {
    /// A JSON pointer.
    pub pointer: String,
    pub detail: String,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        let (errors, matched) = match error {
            Error::Fields(faults) => (faults, None),
            Error::Unusable(fault) => (vec![fault], None),
            Error::NotConfirmed { matched } => (vec![], Some(matched)),
            Error::Internal(why) => {
                tracing::error!(%why, "a request failed");
                (vec![], None)
            }
            Error::Request { .. }
            | Error::Control(_)
            | Error::Store(_)
            | Error::Raw(_)
            | Error::NotUploaded(_)
            | Error::NotReadable(_)
            | Error::Data(_) => (vec![], None),
        };
        let (title, status) = (code.title(), code.status());
        Self { kind: String::new(), title, status, detail, code, errors, matched, request_id: String::new() }
    }
}

/// A problem that is still to be written.
#[derive(Debug, Clone)]
pub(super) struct Unwritten(pub Problem);

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let problem = Problem::from(self);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(seconds) = retry_after(problem.code) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        if problem.code == Code::NotSignedIn {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Unwritten(problem));
        response
    }
}

/// When what failed may well succeed, in seconds.
fn retry_after(code: Code) -> Option<&'static str> {
    if matches!(code, Code::Draining | Code::StoreUnavailable | Code::SinkUnavailable) {
        return Some("2");
    }
    (code == Code::InProgress).then_some("1")
}

/// Writes the problem of a response that has one.
pub(super) fn write(mut response: Response, page_of: impl Fn(Code) -> String, request_id: &str) -> Response {
    let Some(Unwritten(mut problem)) = response.extensions_mut().remove::<Unwritten>() else { return response };
    problem.kind = page_of(problem.code);
    problem.request_id = request_id.to_owned();
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
    response
}
