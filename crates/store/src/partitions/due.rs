//! What automation may retry: failures that backoff may have let go, and successes whose reprocess was rejected.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::key::{PartitionKey, Source};
use redrive_core::partition::Partition;
use redrive_core::time::Timestamp;

use super::row::read;
use crate::db::{Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::series::{self, source_no};

impl View {
    /// Which bands of failures there are that automation might retry.
    pub async fn due_bands(&self) -> Result<Vec<DueBand>> {
        read!(self.read_by_index, "due bands", |tx| due_bands(tx))
    }

    /// The failures of a band that backoff may have let go, longest ago first.
    pub async fn due(&self, query: DueQuery) -> Result<Vec<Partition>> {
        read!(self.read_by_index, "due", |tx, query| due(tx, &query))
    }

    /// Which bands of rejected reprocesses there are that automation might ask for again.
    pub async fn rejected_bands(&self) -> Result<Vec<DueBand>> {
        read!(self.read_by_index, "rejected bands", |tx| rejected_bands(tx))
    }

    /// The rejected reprocesses of a band, series by series, after `after`.
    pub async fn rejected(&self, band: DueBand, after: Option<PartitionKey>, limit: u32) -> Result<Vec<Partition>> {
        read!(self.read_by_index, "rejected", |tx, band, after, limit| rejected(
            tx,
            &band,
            Option::as_ref(&after),
            *limit
        ))
    }
}

/// One range of an index of what may be due: those of a source that have been tried equally often.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueBand {
    pub source: Source,
    pub attempt_count: u32,
}

/// A band as the index has it: a source's number and an attempt count.
fn numbers(row: &Row<'_>) -> Result<(i64, i64)> {
    let mut row = row.cursor();
    Ok((row.int()?, row.int()?))
}

/// Bands in the order of their sources' names.
async fn named(tx: &mut Tx<'_>, found: Vec<(i64, i64)>) -> Result<Vec<DueBand>> {
    let names = series::sources(tx, &found.iter().map(|(source_no, _)| *source_no).collect::<BTreeSet<_>>()).await?;
    let band = |(source_no, attempts): (i64, i64)| {
        let source = names.get(&source_no).ok_or_else(|| Error::row("series", format!("{source_no} is missing")))?;
        Ok(DueBand {
            source: source.parse().map_err(|error| Error::row("series", error))?,
            attempt_count: attempts.try_into().map_err(|error| Error::row("partitions", error))?,
        })
    };
    let mut bands = found.into_iter().map(band).collect::<Result<Vec<_>>>()?;
    bands.sort_unstable();
    Ok(bands)
}

/// The next band of a source, and the first of the next source: each one step down the index, however many rows a band
/// has. A comparison of both columns at once would read the band.
static NEXT_BAND: Sql = Sql::new(
    "/* due::next_band */
     SELECT source_no, attempt_count
     FROM partitions
     WHERE status = 'failed' AND held = 0 AND error_class <> 'final'
         AND source_no = CAST(?1 AS BIGINT) AND attempt_count > CAST(?2 AS BIGINT)
     ORDER BY source_no, attempt_count
     LIMIT 1",
);
static NEXT_SOURCE: Sql = Sql::new(
    "/* due::next_source */
     SELECT source_no, attempt_count
     FROM partitions
     WHERE status = 'failed' AND held = 0 AND error_class <> 'final'
         AND source_no > CAST(?1 AS BIGINT)
     ORDER BY source_no, attempt_count
     LIMIT 1",
);

async fn due_bands(tx: &mut Tx<'_>) -> Result<Vec<DueBand>> {
    let mut found: Vec<(i64, i64)> = Vec::new();
    loop {
        let (source_no, attempts) = found.last().copied().unwrap_or((0, -1));
        let mut next = tx.row(&NEXT_BAND, &[source_no.into(), attempts.into()], numbers).await?;
        if next.is_none() {
            next = tx.row(&NEXT_SOURCE, &[source_no.into()], numbers).await?;
        }
        match next {
            Some(band) => found.push(band),
            None => return named(tx, found).await,
        }
    }
}

/// Where in a band to look: failures that were decided by `decided_by` and whose partition is younger than the limit.
#[derive(Debug, Clone)]
pub struct DueQuery {
    pub band: DueBand,
    pub decided_by: Timestamp,
    pub created_after: Timestamp,
    pub after: Option<(Timestamp, PartitionKey)>,
    pub limit: u32,
}

pub(crate) static DUE: Sql = Sql::new(concat!(
    "/* due::due */
     SELECT {partition}
     {from_partitions}
         AND p.status = 'failed' AND p.held = 0 AND p.error_class <> 'final'
         AND p.source_no = ",
    source_no!("?1"),
    "
         AND p.attempt_count = CAST(?2 AS BIGINT)
         AND p.updated_at <= CAST(?3 AS BIGINT)
         AND p.created_at > CAST(?4 AS BIGINT)
         AND (p.updated_at, p.series_id, p.period) > (CAST(?5 AS BIGINT), CAST(?6 AS BIGINT), CAST(?7 AS BIGINT))
     ORDER BY p.updated_at, p.series_id, p.period
     LIMIT CAST(?8 AS BIGINT)"
));

async fn due(tx: &mut Tx<'_>, query: &DueQuery) -> Result<Vec<Partition>> {
    let (from, key) = match &query.after {
        Some((at, key)) => (at.micros(), Some(key)),
        None => (i64::MIN, None),
    };
    let (series, period) = series::stand(tx, key).await?;
    let params = [
        query.band.source.as_str().into(),
        i64::from(query.band.attempt_count).into(),
        query.decided_by.micros().into(),
        query.created_after.micros().into(),
        from.into(),
        series.into(),
        period.into(),
        i64::from(query.limit).into(),
    ];
    tx.rows(&DUE, &params, read).await
}

static REJECTED_BANDS: Sql = Sql::new(
    "/* due::rejected_bands */
     SELECT DISTINCT source_no, rejected
     FROM partition_control
     WHERE rejected > 0 AND lane IS NULL AND paused_at IS NULL",
);

async fn rejected_bands(tx: &mut Tx<'_>) -> Result<Vec<DueBand>> {
    let found = tx.rows(&REJECTED_BANDS, &[], numbers).await?;
    named(tx, found).await
}

static REJECTED: Sql = Sql::new(concat!(
    "/* due::rejected */
     SELECT {partition}
     {from_control}
         AND c.rejected > 0 AND c.lane IS NULL AND c.paused_at IS NULL
         AND c.source_no = ",
    source_no!("?1"),
    "
         AND c.rejected = CAST(?2 AS BIGINT)
         AND (c.series_id, c.period) > (CAST(?3 AS BIGINT), CAST(?4 AS BIGINT))
     ORDER BY c.series_id, c.period
     LIMIT CAST(?5 AS BIGINT)"
));

async fn rejected(tx: &mut Tx<'_>, band: &DueBand, after: Option<&PartitionKey>, limit: u32) -> Result<Vec<Partition>> {
    let (series, period) = series::stand(tx, after).await?;
    let params = [
        band.source.as_str().into(),
        i64::from(band.attempt_count).into(),
        series.into(),
        period.into(),
        i64::from(limit).into(),
    ];
    tx.rows(&REJECTED, &params, read).await
}
