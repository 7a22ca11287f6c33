//! Bodies: JSON of bounded size, read in bounded time, with every fault named by its place.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use super::code::Code;
use crate::description::NO_NUL;
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
            return Err(Error::of_code(Code::UnsupportedMediaType, detail));
        }
        let bytes = read(request.into_body(), MAX_BODY).await?;
        parse(&bytes).map(Self)
    }
}

/// A text that a person writes, for others to read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Note(String);

/// The longest text that a person writes, in characters.
const LONGEST_NOTE: usize = 4096;

impl Note {
    pub fn text(self) -> String {
        self.0
    }
}

impl TryFrom<String> for Note {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.contains('\0') {
            return Err("a text holds a NUL character, which no database keeps; take it out".to_owned());
        }
        match text.chars().count() > LONGEST_NOTE {
            true => Err(format!("a text has more than {LONGEST_NOTE} characters; shorten it")),
            false => Ok(Self(text)),
        }
    }
}

impl JsonSchema for Note {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Note".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": LONGEST_NOTE, "pattern": NO_NUL})
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
        Error::of_code(Code::Timeout, format!("the body did not arrive within {seconds} s; send it again"))
    };
    match tokio::time::timeout(PATIENCE, reading).await.map_err(|_| late())? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::of_code(
            Code::TooLarge,
            format!("the body has more than {most} bytes, the most that may be sent"),
        )),
        Err(error) => Err(Error::bad_request(format!("the body cannot be read: {error}"))),
    }
}

/// Reads JSON. What cannot be used is named by its place.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| Error::field(&pointer(error.path()), error.inner().to_string()))?;
    reader.end().map_err(|error| Error::field("", error.to_string()))?;
    Ok(parsed)
}

/// A path as a JSON pointer (RFC 6901).
fn pointer(path: &Path) -> String {
    let part = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { .. } | Segment::Unknown => String::new(),
    };
    path.iter().map(part).collect()
}
