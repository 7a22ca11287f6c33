//! Partitions as they are now: listed, one by one, and why one is not running.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use redrive_control::explain::Explanation;
use redrive_control::shape::{AttemptShape, PartitionShape};
use redrive_control::{Insight, dates};
use redrive_core::count;
use redrive_core::key::PartitionKey;
use redrive_core::partition::{Partition, Status};
use redrive_store::{BOUND, Page as StorePage};
use schemars::JsonSchema;
use serde::Serialize;

use super::filter::{self, FILTER, FILTERED};
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Code, List, PAGING, Page, Param, ParamKind, Params, PathText, answer, bad_param, etag, json};

const MARKS: &[Param] = &[
    Param::new("terminal", ParamKind::Flag, "Only terminal failures, by mark and by policy"),
    Param::new("paused", ParamKind::Flag, "Only paused ones"),
    Param::new("history", ParamKind::Flag, "With every attempt"),
];

const ONE: &str = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}";

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/partitions", Access::Viewer, "Partitions, in the order of their keys", list)
            .query(&[FILTER, MARKS, PAGING])
            .list::<Partitions>()
            .refuses(FILTERED),
        Route::get(ONE, Access::Viewer, "A partition as it is now", one)
            .json::<PartitionShape>()
            .etag()
            .refuses(&[Code::Unusable]),
        Route::get(
            "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/explain",
            Access::Viewer,
            "Why a partition is not running now, also where there is none",
            explain,
        )
        .json::<Explanation>()
        .refuses(&[Code::Unusable]),
        Route::get(
            "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/history",
            Access::Viewer,
            "Every attempt at a partition, the first one first",
            history,
        )
        .json::<History>()
        .refuses(&[Code::Unusable]),
    ]
}

/// How many partitions are read for one answer, where most of them may be left out.
const MOST_READ: u64 = 10_000;
const CHUNK: u32 = 1000;

struct Partitions {
    insight: Insight,
    page: StorePage,
    terminal: bool,
    history: bool,
}

impl Partitions {
    /// Reads partitions until there are enough of those that are asked for.
    async fn read(&self, after: Option<PartitionKey>, limit: u32) -> Result<Page<Partition, PartitionKey>> {
        let mut page = StorePage { after, limit, ..self.page.clone() };
        if self.terminal {
            page.limit = CHUNK;
            page.filter.status.get_or_insert(Status::Failed);
        }
        let (wanted, mut rows, mut seen) = (usize::try_from(limit).unwrap_or(usize::MAX), Vec::new(), 0);
        loop {
            let found = self.insight.view().partitions(page.clone()).await?;
            let is_last = found.len() < usize::try_from(page.limit).unwrap_or(usize::MAX);
            seen += count::of(found.len());
            for partition in found {
                page.after = Some(partition.state.key.clone());
                if !self.terminal || self.insight.terminal(&partition).is_some() {
                    rows.push(partition);
                }
                if rows.len() == wanted {
                    return Ok(Page { rows, next: page.after });
                }
            }
            if is_last {
                return Ok(Page { rows, next: None });
            }
            if seen >= MOST_READ {
                return Ok(Page { rows, next: page.after });
            }
        }
    }

    async fn describe(&self, rows: Vec<Partition>) -> Result<Vec<PartitionShape>> {
        let holds = self.insight.holds().await?;
        let mut attempts = match self.history {
            true => {
                let keys = rows.iter().map(|partition| partition.state.key.clone()).collect();
                self.insight.view().attempts_of(keys).await?.into_iter()
            }
            false => Vec::new().into_iter(),
        };
        let describe = |partition: Partition| {
            let outlook = self.insight.outlook(&partition, &holds);
            self.insight.describe(partition, &outlook, attempts.next().as_deref())
        };
        Ok(rows.into_iter().map(describe).collect())
    }
}

impl List for Partitions {
    type Row = PartitionShape;
    type Key = PartitionKey;
    const NOUN: &'static str = "partitions";

    fn mark(&self) -> String {
        let filter = serde_json::to_string(&self.page.filter).unwrap_or_default();
        format!("{filter} {} {}", self.terminal, self.page.paused)
    }

    async fn page(&self, after: Option<PartitionKey>, limit: u32) -> Result<Page<PartitionShape, PartitionKey>> {
        let Page { rows, next } = self.read(after, limit).await?;
        Ok(Page { rows: self.describe(rows).await?, next })
    }

    async fn count(&self) -> Result<u64> {
        let (mut counted, mut after) = (0, None);
        loop {
            let page = self.read(after, CHUNK).await?;
            counted += count::of(page.rows.len());
            after = page.next;
            if after.is_none() || counted >= BOUND {
                return Ok(counted.min(BOUND));
            }
        }
    }
}

async fn list(State(app): State<App>, params: Params, headers: HeaderMap) -> Result<Response> {
    let insight = app.insight();
    let filter = filter::partitions(&params, &insight).await?;
    let page = StorePage { filter, paused: params.flag("paused")?, ..StorePage::default() };
    let (terminal, history) = (params.flag("terminal")?, params.flag("history")?);
    answer(Partitions { insight, page, terminal, history }, &params, &headers).await
}

type KeyText = (String, String, String, String);

/// The key that a path names.
pub fn key((source, customer_id, query_name, date): &KeyText, insight: &Insight) -> Result<PartitionKey> {
    let date = dates::parse(date, insight.now()).map_err(|why| bad_param("logical_date", &why))?;
    Ok(PartitionKey::new(source, customer_id, query_name, &date.to_string())?)
}

async fn find(key: &PartitionKey, insight: &Insight) -> Result<Partition> {
    let absent = || Error::not_found(format!("there is no partition {key}; …/explain says why"));
    insight.view().partition(key).await?.ok_or_else(absent)
}

async fn one(State(app): State<App>, PathText(path): PathText<KeyText>) -> Result<Response> {
    let insight = app.insight();
    let partition = find(&key(&path, &insight)?, &insight).await?;
    let (version, outlook) = (partition.state.version, insight.outlook(&partition, &insight.holds().await?));
    Ok(etag(json(&insight.describe(partition, &outlook, None))?, version))
}

async fn explain(State(app): State<App>, PathText(path): PathText<KeyText>) -> Result<Response> {
    let insight = app.insight();
    json(&insight.explain(&key(&path, &insight)?).await?)
}

#[derive(Debug, Serialize, JsonSchema)]
struct History {
    history: Vec<AttemptShape>,
}

async fn history(State(app): State<App>, PathText(path): PathText<KeyText>) -> Result<Response> {
    let insight = app.insight();
    let key = key(&path, &insight)?;
    find(&key, &insight).await?;
    let attempts = insight.view().attempts(&key).await?;
    json(&History { history: attempts.iter().map(AttemptShape::from).collect() })
}
