//! The heatmap: days of series, one status byte a cell. A day that a calendar expects and that is not there is a cell too.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::calendar;
use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::partition::Status;
use redrive_store::{TileCell, TileQuery, TileRow};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::insight::Insight;

/// A part of the heatmap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeatmapShape {
    pub since: LogicalDate,
    pub until: LogicalDate,
    pub series: Vec<SeriesShape>,
    /// Base64: a byte a cell, row by row.
    pub cells: String,
    pub legend: BTreeMap<String, &'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SeriesShape {
    pub source: Source,
    pub customer_id: CustomerId,
    pub query_name: QueryName,
}

/// What a cell's byte says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Cell {
    Absent = 0,
    Pending = 1,
    Success = 2,
    Failed = 3,
    Withheld = 4,
    Missing = 5,
}

impl Cell {
    const ALL: [Self; 6] = [Self::Absent, Self::Pending, Self::Success, Self::Failed, Self::Withheld, Self::Missing];

    fn of(cell: &TileCell) -> Self {
        match (cell.status, cell.is_withheld) {
            (Status::Success, _) => Self::Success,
            (Status::Pending | Status::Failed, true) => Self::Withheld,
            (Status::Pending, false) => Self::Pending,
            (Status::Failed, false) => Self::Failed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Withheld => "withheld",
            Self::Missing => "missing",
        }
    }
}

impl Insight {
    /// Reads a part of the heatmap; gives with it a key of the last series where there may be more.
    pub async fn heatmap(
        &self,
        filter: Filter,
        (since, until): (LogicalDate, LogicalDate),
        after: Option<PartitionKey>,
        series: u32,
    ) -> Result<(HeatmapShape, Option<PartitionKey>)> {
        let rows = self.view().tile(TileQuery { filter, since, until, after, series }).await?;
        let days: Vec<LogicalDate> = calendar::days(since, until).collect();
        let is_full = rows.len() >= usize::try_from(series).unwrap_or(usize::MAX);
        let next = rows.last().filter(|_| is_full).map(|row| PartitionKey {
            source: row.source.clone(),
            customer_id: row.customer_id.clone(),
            query_name: row.query_name.clone(),
            logical_date: since,
        });
        let bytes: Vec<u8> = rows.iter().flat_map(|row| self.cells(row, &days)).collect();
        let name =
            |row: TileRow| SeriesShape { source: row.source, customer_id: row.customer_id, query_name: row.query_name };
        let legend = Cell::ALL.iter().map(|cell| ((*cell as u8).to_string(), cell.word())).collect();
        let series = rows.into_iter().map(name).collect();
        Ok((HeatmapShape { since, until, series, cells: STANDARD.encode(bytes), legend }, next))
    }

    /// A row's bytes, a day after another.
    fn cells(&self, row: &TileRow, days: &[LogicalDate]) -> Vec<u8> {
        let rules = self.sources().of(&row.source);
        let is_known = rules.customers.contains(&row.customer_id) && rules.queries.contains(&row.query_name);
        let calendar = rules.calendar.as_ref().filter(|_| is_known);
        let expected = calendar.and_then(|calendar| Some((calendar.start, calendar.latest_ready(self.now())?)));
        let empty = |day: &LogicalDate| match expected {
            Some((first, last)) if (first..=last).contains(day) => Cell::Missing,
            Some(_) | None => Cell::Absent,
        };
        let mut bytes: Vec<u8> = days.iter().map(|day| empty(day) as u8).collect();
        for cell in &row.cells {
            if let Some(byte) = bytes.get_mut(cell.day) {
                *byte = Cell::of(cell) as u8;
            }
        }
        bytes
    }
}
