//! Lists: a page with the cursor of the next one, or everything as JSON lines, read page by page while it is sent.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, stream};
use redrive_core::count;
use redrive_core::text::escape_json;
use redrive_store::BOUND;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::code::Code;
use super::cursor;
use super::params::{Param, ParamKind, Params};
use crate::error::{Error, Result};

const MOST: u32 = 1000;
const DEFAULT: u32 = 50;

/// What every list takes beside its filter.
pub const PAGING: &[Param] = &[
    Param::new("limit", ParamKind::Number { least: 1, most: MOST }, "How many rows to give; 50 unless said"),
    Param::new("cursor", ParamKind::Cursor, "Where to go on: `next` of the page before"),
    Param::new("count", ParamKind::Word(&["bounded"]), "Also count the rows, up to 10,001"),
];

/// A page of rows, and the key after which the next page begins.
#[derive(Debug)]
pub struct Page<R, K> {
    pub rows: Vec<R>,
    /// None at the end.
    pub next: Option<K>,
}

impl<R, K> Page<R, K> {
    /// A page of what was read up to a limit: where the limit was reached, there may be more.
    pub fn of<F>(found: Vec<F>, limit: u32, key: impl FnOnce(&F) -> K, row: impl FnMut(F) -> R) -> Self {
        let is_last = found.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let next = found.last().map(key).filter(|_| !is_last);
        Self { rows: found.into_iter().map(row).collect(), next }
    }
}

/// A list that can be read page by page.
pub trait List: Send + Sync + 'static {
    type Row: Serialize + JsonSchema + Send;
    type Key: Serialize + DeserializeOwned + Send;

    /// What the rows are called.
    const NOUN: &'static str;

    /// The filter and the order as a text: a cursor of another one is refused.
    fn mark(&self) -> String;

    /// Reads at most `limit` rows after a key.
    fn page(
        &self,
        after: Option<Self::Key>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Self::Row, Self::Key>>> + Send;

    /// Counts the rows as far as a bound.
    fn count(&self) -> impl Future<Output = Result<u64>> + Send {
        async {
            let (mut counted, mut after) = (0, None);
            loop {
                let page = self.page(after, MOST).await?;
                counted += count::of(page.rows.len());
                after = page.next;
                if after.is_none() || counted >= BOUND {
                    return Ok(counted.min(BOUND));
                }
            }
        }
    }
}

/// A page with its cursor, or the answer of all rows as JSON lines.
pub type Paged<L> = std::result::Result<(Page<<L as List>::Row, <L as List>::Key>, Option<String>), Response>;

/// Reads a page, for an answer that has more than its rows; everything as JSON lines where the caller asks for them.
pub async fn paged<L: List>(list: L, params: &Params, headers: &HeaderMap) -> Result<Paged<L>> {
    let asked = Asked::of(&list, params)?;
    if Form::of(headers)? == Form::Lines {
        return Ok(Err(lines(list, asked.after)));
    }
    let mut page = list.page(asked.after, asked.limit).await?;
    let next = page.next.take().map(|key| cursor::write(key, &asked.mark)).transpose()?;
    Ok(Ok((page, next)))
}

/// What is asked of a list beside its filter.
struct Asked<K> {
    limit: u32,
    mark: String,
    after: Option<K>,
}

impl<K: DeserializeOwned> Asked<K> {
    fn of<L: List<Key = K>>(list: &L, params: &Params) -> Result<Self> {
        let limit = params.number("limit", 1, MOST)?.unwrap_or(DEFAULT);
        let mark = cursor::mark(&format!("{} {}", L::NOUN, list.mark()));
        let after = params.get("cursor").map(|text| cursor::read(text, &mark)).transpose()?;
        Ok(Self { limit, mark, after })
    }
}

/// Answers with a page as JSON, or with everything as JSON lines where the caller asks for them.
pub async fn answer<L: List>(list: L, params: &Params, headers: &HeaderMap) -> Result<Response> {
    let Asked { limit, mark, after } = Asked::of(&list, params)?;
    if Form::of(headers)? == Form::Lines {
        return Ok(lines(list, after));
    }
    let wants_count = match params.get("count") {
        None => false,
        Some("bounded") => true,
        Some(other) => return Err(Error::bad_request(format!("count: {other:?} is unknown; it is `bounded`"))),
    };
    let count = if wants_count { Some(list.count().await?) } else { None };
    let page = list.page(after, limit).await?;
    let next = page.next.map(|key| cursor::write(key, &mark)).transpose()?;
    json(&Shape::<L> { rows: &page.rows, next, count })
}

/// A page as it is sent: the rows under their noun.
struct Shape<'a, L: List> {
    rows: &'a [L::Row],
    next: Option<String>,
    count: Option<u64>,
}

impl<L: List> Serialize for Shape<'_, L> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(L::NOUN, self.rows)?;
        map.serialize_entry("next", &self.next)?;
        if let Some(count) = self.count {
            map.serialize_entry("count", &count)?;
        }
        map.end()
    }
}

/// Answers with JSON in which nothing steers a terminal.
pub fn json(value: &impl Serialize) -> Result<Response> {
    Ok(as_json(json_bytes(value)?))
}

/// The bytes of such an answer.
pub fn json_bytes(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_string(value)?;
    Ok(Bytes::from(escape_json(&text).into_owned()))
}

/// Answers with JSON that is written already.
pub fn as_json(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Lines,
}

impl Form {
    /// What a caller accepts; JSON where anything will do.
    fn of(headers: &HeaderMap) -> Result<Self> {
        let Some(accept) = headers.get(header::ACCEPT) else { return Ok(Self::Json) };
        let accept = accept.to_str().unwrap_or_default();
        let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let form = |kind: &str| match kind.to_ascii_lowercase().as_str() {
            "application/jsonl" | "application/x-ndjson" => Some(Self::Lines),
            "application/json" | "application/*" | "*/*" | "" => Some(Self::Json),
            _ => None,
        };
        kinds.into_iter().find_map(form).ok_or_else(|| {
            let detail = format!("{accept:?} is not known here; ask for application/json or application/jsonl");
            Error::of_code(Code::NotAcceptable, detail)
        })
    }
}

/// Everything, a line a row. A fault on the way ends the stream without its last chunk, so that no caller takes a part
/// for the whole.
fn lines<L: List>(list: L, after: Option<L::Key>) -> Response {
    let body = Body::from_stream(chunks(Arc::new(list), after));
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl"))], body).into_response()
}

fn chunks<L: List>(list: Arc<L>, after: Option<L::Key>) -> impl Stream<Item = Result<Bytes>> + Send {
    stream::try_unfold(Some(after), move |state| {
        let list = Arc::clone(&list);
        async move {
            let Some(after) = state else { return Ok(None) };
            let page = list.page(after, MOST).await.inspect_err(|error| {
                tracing::error!(%error, "a stream ended early");
            })?;
            let mut text = String::new();
            for row in &page.rows {
                text.push_str(&escape_json(&serde_json::to_string(row)?));
                text.push('\n');
            }
            Ok(Some((Bytes::from(text), page.next.map(Some))))
        }
    })
}
