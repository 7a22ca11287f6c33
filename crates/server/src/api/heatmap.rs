//! The heatmap: days × series, a status byte a cell.

use axum::extract::State;
use axum::response::Response;
use redrive_control::HeatmapShape;
use redrive_core::calendar;
use redrive_core::key::PartitionKey;
use schemars::JsonSchema;
use serde::Serialize;

use super::filter;
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Code, Param, ParamKind, Params, cursor, json};

/// A tile: so many series, and at most so many days.
const SERIES: u32 = 128;
const MOST_SERIES: u32 = 1000;
const MOST_DAYS: u64 = 1000;

const TILE: &[Param] = &[
    Param::new("source", ParamKind::Keys, "Only this source; more than once for several"),
    Param::new("customer_id", ParamKind::Keys, "Only this customer; more than once for several"),
    Param::new("query_name", ParamKind::Keys, "Only this query; more than once for several"),
    Param::new("since", ParamKind::Date, "The first day").required(),
    Param::new("until", ParamKind::Date, "The last day").required(),
    Param::new("after", ParamKind::Cursor, "Where to go on: `next` of the tile above"),
    Param::new("limit", ParamKind::Number { least: 1, most: MOST_SERIES }, "How many series; 128 unless said"),
];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/heatmap", Access::Viewer, "Days of series, one status byte a cell", tile)
            .query(&[TILE])
            .json::<Tile>()
            .refuses(&[Code::Unusable, Code::BadCursor]),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct Tile {
    #[serde(flatten)]
    heatmap: HeatmapShape,
    next: Option<String>,
}

async fn tile(State(app): State<App>, params: Params) -> Result<Response> {
    let insight = app.insight();
    let filter = filter::partitions(&params, &insight).await?;
    let (Some(since), Some(until)) = (filter.since, filter.until) else {
        return Err(Error::bad_request("give since and until: the first and the last day"));
    };
    if calendar::count(since, until) > MOST_DAYS {
        return Err(Error::unusable(format!("{since} to {until} are more than {MOST_DAYS} days; ask for fewer")));
    }
    let mark = cursor::mark(&format!("heatmap {}", serde_json::to_string(&filter)?));
    let after: Option<PartitionKey> = params.get("after").map(|text| cursor::read(text, &mark)).transpose()?;
    let series = params.number("limit", 1, MOST_SERIES)?.unwrap_or(SERIES);
    let (heatmap, next) = insight.heatmap(filter, (since, until), after, series).await?;
    json(&Tile { heatmap, next: next.map(|key| cursor::write(key, &mark)).transpose()? })
}
