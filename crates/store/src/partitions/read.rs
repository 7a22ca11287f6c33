//! Reading partitions by their keys, and the days that are missing.

use std::sync::Arc;

use redrive_core::calendar;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::partition::Partition;

use super::Period;
use super::row::{KEY_NAMES, read_in};
use crate::db::{Column, Lookup, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};
use crate::series;

impl View {
    pub async fn partition(&self, key: &PartitionKey) -> Result<Option<Partition>> {
        Ok(self.partitions_of(vec![key.clone()]).await?.into_iter().next().flatten())
    }

    /// Partitions by their keys, in the same order; none where there is none.
    pub async fn partitions_of(&self, keys: Vec<PartitionKey>) -> Result<Vec<Option<Partition>>> {
        read!(self.read_by_index, "partitions of", |tx, keys| get_many(tx, &keys))
    }

    /// The days in a span that have no partition, in order.
    pub async fn missing(&self, span: QuerySpan) -> Result<Vec<LogicalDate>> {
        let (since, until) = (span.since, span.until);
        let present = read!(self.read_by_index, "missing", |tx, span| days(tx, &span))?;
        let Some(present) = present else { return Ok(vec![]) };
        let mut present = present.into_iter().peekable();
        Ok(calendar::days(since, until).filter(|day| present.next_if_eq(day).is_none()).collect())
    }
}

/// Keys whose series is there: which of those asked for they are, and where they lie.
struct Found {
    asked: Vec<usize>,
    columns: [Column<'static>; 2],
}

async fn find(tx: &mut Tx<'_>, keys: impl Iterator<Item = &PartitionKey>) -> Result<Found> {
    let (mut asked, mut ids, mut periods) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, place) in series::find(tx, keys).await?.into_iter().enumerate() {
        if let Some(series) = place.series {
            asked.push(nth);
            ids.push(Some(series.id));
            periods.push(Some(place.period.number()));
        }
    }
    Ok(Found { asked, columns: [Column::Int(ids), Column::Int(periods)] })
}

static GET: Lookup = Lookup::new(
    "/* partitions::get */
     SELECT {in_series}
     {with_control}
     WHERE p.series_id = @series_id AND p.period = @period",
    &KEY_NAMES,
);

/// Partitions by their keys, in the same order.
pub(crate) async fn get_many(tx: &mut Tx<'_>, keys: &[PartitionKey]) -> Result<Vec<Option<Partition>>> {
    let Found { asked, columns } = find(tx, keys.iter()).await?;
    let found = tx.lookup_each(&GET, &columns, |nth, mut row| {
        let nth = asked[nth];
        Ok((nth, read_in(&mut row, &keys[nth])?))
    });
    let mut all = vec![None; keys.len()];
    for (nth, partition) in found.await? {
        all[nth] = Some(partition);
    }
    Ok(all)
}

static LOCK: Lookup = Lookup::new(
    "/* partitions::lock */
     SELECT p.version
     FROM partitions p
     WHERE p.series_id = @series_id AND p.period = @period
     {lock}",
    &KEY_NAMES,
);

/// The same, and no other transaction changes them until this one ends. They are locked first, in key order so that no
/// two transactions wait for each other, and read afterwards: a join that waited for its lock would give the partition as
/// it is now with its control row as it was before.
pub(crate) async fn get_many_locked(tx: &mut Tx<'_>, keys: &[PartitionKey]) -> Result<Vec<Option<Partition>>> {
    let mut ordered: Vec<&PartitionKey> = keys.iter().collect();
    ordered.sort_unstable();
    ordered.dedup();
    let Found { columns, .. } = find(tx, ordered.into_iter()).await?;
    tx.lookup(&LOCK, &columns, |mut row| row.int()).await?;
    get_many(tx, keys).await
}

macro_rules! of_span {
    () => {
        "FROM partitions
         WHERE series_id = (
                 SELECT series_id
                 FROM series
                 WHERE source = ?1 AND customer_id = ?2 AND query_name = ?3)
             AND period >= ?4 AND period <= ?5"
    };
}

static DAYS: Sql = Sql::new(concat!(
    "/* partitions::days */
     SELECT period
     ",
    of_span!(),
    "
     ORDER BY period"
));
static COUNT_DAYS: Sql = Sql::new(concat!(
    "/* partitions::count_days */
     SELECT count(*)
     ",
    of_span!()
));

/// The days of one query of one customer, from `since` to `until`.
#[derive(Debug, Clone)]
pub struct QuerySpan {
    pub source: Source,
    pub customer_id: CustomerId,
    pub query_name: QueryName,
    pub since: LogicalDate,
    pub until: LogicalDate,
}

/// The days in a span that have a partition, in order; none are read when all of them have.
async fn days(tx: &mut Tx<'_>, span: &QuerySpan) -> Result<Option<Vec<LogicalDate>>> {
    let params = [
        span.source.as_str().into(),
        span.customer_id.as_str().into(),
        span.query_name.as_str().into(),
        Period::of(span.since).into(),
        Period::of(span.until).into(),
    ];
    let count = tx.row(&COUNT_DAYS, &params, |row| row.int(0)).await?.unwrap_or(0);
    if u64::try_from(count).is_ok_and(|count| count == calendar::count(span.since, span.until)) {
        return Ok(None);
    }
    tx.rows(&DAYS, &params, |row| Period::from_row(row.int(0)?).date()).await.map(Some)
}
