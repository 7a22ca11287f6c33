//! Bodies: JSON of bounded size, read in bounded time, with every fault named by its place.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::code::Code;
use super::problem::FieldFault;
use crate::error::{Error, Result};

/// The most bytes of a body, but for uploads.
const MAX_BODY: usize = 1 << 20;
/// How long a body may take to arrive, but for uploads.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body of JSON.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let kind = media_type(request.headers());
        if kind.as_deref() != Some("application/json") {
            let found = kind.map_or_else(|| "none".to_owned(), |kind| format!("{kind:?}"));
            let detail = format!("the body must be application/json, and its type is {found}");
            return Err(Error::told(Code::UnsupportedMediaType, detail));
        }
        let bytes = read(request.into_body(), MAX_BODY).await?;
        parse(&bytes).map(Self)
    }
}

/// The type of a body without its parameters, in small letters.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Reads a body of at most so many bytes.
pub async fn read(body: Body, most: usize) -> Result<Bytes> {
    let reading = Limited::new(body, most).collect();
    let late = || {
        let seconds = PATIENCE.as_secs();
        Error::told(Code::Timeout, format!("the body did not arrive within {seconds} s; send it again"))
    };
    match tokio::time::timeout(PATIENCE, reading).await.map_err(|_| late())? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Error::told(Code::TooLarge, format!("the body has more than {most} bytes, the most that may be sent")))
        }
        Err(error) => Err(Error::bad_request(format!("the body cannot be read: {error}"))),
    }
}

/// Reads JSON.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        // Which field it was stands in the text; JSON that is none has no fields.
        Error::Fields(vec![FieldFault { pointer: String::new(), detail: error.to_string() }])
    })
}
