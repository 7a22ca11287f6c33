//! Records, byte for byte as they came: only those of the current run of a success. One chunk is in memory at a time, however
//! much is asked for.

use std::collections::VecDeque;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use redrive_core::partition::{PartitionState, Status};
use redrive_store::{CurrentPages, CurrentRuns, NotReadable, raw};

use super::filter::{self, FILTER};
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Gives, Route};
use crate::web::{Code, Param, ParamKind, Params};

const ALL: &[Param] = &[Param::new("all", ParamKind::Flag, "Everything there is, when no filter is given")];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/data", Access::Operator, "The records of successes, in key order, a JSON value a line", data)
            .query(&[FILTER, ALL])
            .gives(Gives::Lines)
            .refuses(&[Code::EmptyFilter, Code::Unusable, Code::NotFound, Code::SinkUnavailable]),
    ]
}

async fn data(State(app): State<App>, params: Params) -> Result<Response> {
    let insight = app.insight();
    let filter = filter::partitions(&params, &insight).await?;
    if matches!(filter.status, Some(Status::Pending | Status::Failed))
        || filter.error_class.is_some()
        || filter.group.is_some()
    {
        return Err(Error::unusable("only successes have data; leave status, error_class and group out"));
    }
    if filter.is_empty() && !params.flag("all")? {
        let detail = "the filter is empty and would mean every record there is; name something, or say all=true";
        return Err(Error::of_code(Code::EmptyFilter, detail));
    }
    let runs = insight.current_runs().await?;
    let mut pages = runs.pages(&filter);
    let first = pages.next().await?;
    if first.is_empty() {
        return Err(Error::not_found("no partition of this filter is a success; …/explain says why for one of them"));
    }
    let mut walk = Walk { runs, pages, states: first.into(), chunks: None };
    // Before the head is sent, so that a sink that is down or a damaged first run is refused in words.
    let begin = walk.next().await?;
    let body = Body::from_stream(stream::iter(begin.map(Ok)).chain(walk.stream()));
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl"))], body).into_response())
}

/// How far the records have been sent.
struct Walk {
    runs: CurrentRuns,
    pages: CurrentPages,
    states: VecDeque<PartitionState>,
    /// What is left of the run that is being sent.
    chunks: Option<BoxStream<'static, Result<Bytes, raw::Error>>>,
}

impl Walk {
    /// A fault on the way ends the stream without its last chunk, so that no caller takes a part for the whole.
    fn stream(self) -> impl Stream<Item = Result<Bytes, NotReadable>> + Send {
        stream::try_unfold(self, async |mut walk: Walk| {
            let next = walk.next().await;
            next.inspect_err(|error| tracing::error!(%error, "records could not be sent to their end"))
                .map(|chunk| chunk.map(|chunk| (chunk, walk)))
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, NotReadable> {
        loop {
            if let Some(chunks) = &mut self.chunks
                && let Some(chunk) = chunks.try_next().await?
            {
                return Ok(Some(chunk));
            }
            self.chunks = None;
            if self.states.is_empty() {
                self.states = self.pages.next().await?.into();
            }
            let Some(state) = self.states.pop_front() else { return Ok(None) };
            let run = self.runs.current(state).await?;
            self.chunks = Some(self.runs.raw.chunks(&run.manifest));
        }
    }
}
