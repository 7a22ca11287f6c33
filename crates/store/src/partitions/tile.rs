//! A tile of the heatmap: the standing of some days of some series, a range of the primary key for each.

use std::sync::Arc;

use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::partition::Status;

use super::page::next_series;
use super::period::Period;
use crate::db::{Column, Kind, Tx};
use crate::error::Result;
use crate::handles::{View, read};

/// Which part of the heatmap.
#[derive(Debug, Clone)]
pub struct TileQuery {
    /// Its source, customer and query count, and nothing else.
    pub filter: Filter,
    pub since: LogicalDate,
    pub until: LogicalDate,
    /// Any key of the last series that was seen.
    pub after: Option<PartitionKey>,
    /// How many series at most.
    pub series: u32,
}

/// The days of a series that there is a partition for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileRow {
    pub source: Source,
    pub customer_id: CustomerId,
    pub query_name: QueryName,
    pub cells: Vec<TileCell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileCell {
    /// How many days after the first of the tile.
    pub day: usize,
    pub status: Status,
    /// A person has marked or paused it.
    pub is_withheld: bool,
}

impl View {
    /// Reads a tile, its series in the order of their names.
    pub async fn tile(&self, query: TileQuery) -> Result<Vec<TileRow>> {
        read!(self.read_by_index, "tile", |tx, query| tile(tx, &query))
    }
}

const CELLS: &str = "/* partitions::tile */
     SELECT p.period, p.status, p.held
     FROM partitions p
     WHERE p.series_id = @series_id AND p.period >= @since AND p.period <= @until";
const NAMES: [(&str, Kind); 3] = [("series_id", Kind::Int), ("since", Kind::Int), ("until", Kind::Int)];

async fn tile(tx: &mut Tx<'_>, query: &TileQuery) -> Result<Vec<TileRow>> {
    let limit = usize::try_from(query.series).unwrap_or(usize::MAX);
    let series = next_series(tx, &query.filter, query.after.as_ref(), limit, 0).await?;
    let (since, until) = (Period::of(query.since).number(), Period::of(query.until).number());
    let columns = [
        Column::ints(&series, |span| Some(span.series_id)),
        Column::ints(&series, |_| Some(since)),
        Column::ints(&series, |_| Some(until)),
    ];
    let mut rows: Vec<TileRow> = series
        .iter()
        .map(|span| TileRow {
            source: span.key.source.clone(),
            customer_id: span.key.customer_id.clone(),
            query_name: span.key.query_name.clone(),
            cells: vec![],
        })
        .collect();
    let read = |nth: usize, mut row: crate::db::Cursor<'_>| {
        let day = usize::try_from(row.int()? - since).unwrap_or(usize::MAX);
        Ok((nth, TileCell { day, status: row.word()?, is_withheld: row.opt_int()?.is_some() }))
    };
    for (nth, cell) in tx.built_lookup(CELLS, &NAMES, &columns, read).await? {
        rows[nth].cells.push(cell);
    }
    Ok(rows)
}
