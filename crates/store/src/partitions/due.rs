//! What automation may retry: failures that backoff may have let go, and successes whose reprocess was rejected.

use std::collections::{BTreeMap, BTreeSet};
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
    pub async fn rejected_bands(&self) -> Result<Vec<RejectedBand>> {
        read!(self.read_by_index, "rejected bands", |tx| rejected_bands(tx))
    }

    /// The rejected reprocesses of a band, series by series, after `after`.
    pub async fn rejected(
        &self,
        band: RejectedBand,
        after: Option<PartitionKey>,
        limit: u32,
    ) -> Result<Vec<Partition>> {
        read!(self.read_by_index, "rejected", |tx, band, after, limit| rejected(
            tx,
            &band,
            Option::as_ref(&after),
            *limit
        ))
    }
}

/// One range of an index of what may be due: those of a source that have spent equally many attempts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueBand {
    pub source: Source,
    pub spent: u32,
}

/// The same for reprocesses: those of a source that were rejected equally often, and have equally many attempts granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectedBand {
    pub source: Source,
    pub rejected: u32,
    pub granted: u32,
}

/// A band as the index has it: a source's number and what is spent.
fn numbers(row: &Row<'_>) -> Result<(i64, i64)> {
    let mut row = row.cursor();
    Ok((row.int()?, row.int()?))
}

/// The sources that numbers stand for.
struct SourceNames(BTreeMap<i64, String>);

impl SourceNames {
    async fn read(tx: &mut Tx<'_>, numbers: impl Iterator<Item = i64>) -> Result<Self> {
        Ok(Self(series::sources(tx, &numbers.collect::<BTreeSet<_>>()).await?))
    }

    fn get(&self, source_no: i64) -> Result<Source> {
        let name = self.0.get(&source_no).ok_or_else(|| Error::row("series", format!("{source_no} is missing")))?;
        name.parse().map_err(|error| Error::row("series", error))
    }
}

fn number(value: i64) -> Result<u32> {
    value.try_into().map_err(|error| Error::row("partitions", error))
}

/// The next band of a source, and the first of the next source: each one step down the index, however many rows a band
/// has. A comparison of both columns at once would read the band.
static NEXT_BAND: Sql = Sql::new(
    "/* due::next_band */
     SELECT source_no, spent
     FROM partitions
     WHERE status = 'failed' AND held IS NULL AND error_class <> 'final'
         AND source_no = CAST(?1 AS BIGINT) AND spent > CAST(?2 AS BIGINT)
     ORDER BY source_no, spent
     LIMIT 1",
);
static NEXT_SOURCE: Sql = Sql::new(
    "/* due::next_source */
     SELECT source_no, spent
     FROM partitions
     WHERE status = 'failed' AND held IS NULL AND error_class <> 'final'
         AND source_no > CAST(?1 AS BIGINT)
     ORDER BY source_no, spent
     LIMIT 1",
);

/// What the failures of a source have spent that automation might retry, each number once.
pub(crate) async fn bands_of(tx: &mut Tx<'_>, source_no: i64) -> Result<Vec<i64>> {
    let (mut found, mut last) = (Vec::new(), -1);
    while let Some((_, spent)) = tx.row(&NEXT_BAND, &[source_no.into(), last.into()], numbers).await? {
        found.push(spent);
        last = spent;
    }
    Ok(found)
}

async fn due_bands(tx: &mut Tx<'_>) -> Result<Vec<DueBand>> {
    let mut found: Vec<(i64, i64)> = Vec::new();
    loop {
        let (source_no, spent) = found.last().copied().unwrap_or((0, -1));
        let mut next = tx.row(&NEXT_BAND, &[source_no.into(), spent.into()], numbers).await?;
        if next.is_none() {
            next = tx.row(&NEXT_SOURCE, &[source_no.into()], numbers).await?;
        }
        match next {
            Some(band) => found.push(band),
            None => break,
        }
    }
    let names = SourceNames::read(tx, found.iter().map(|(source_no, _)| *source_no)).await?;
    let band = |(source_no, spent)| Ok(DueBand { source: names.get(source_no)?, spent: number(spent)? });
    let mut bands = found.into_iter().map(band).collect::<Result<Vec<_>>>()?;
    bands.sort_unstable();
    Ok(bands)
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
         AND p.status = 'failed' AND p.held IS NULL AND p.error_class <> 'final'
         AND p.source_no = ",
    source_no!("?1"),
    "
         AND p.spent = CAST(?2 AS BIGINT)
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
        i64::from(query.band.spent).into(),
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
     SELECT DISTINCT source_no, rejected, granted
     FROM partition_control
     WHERE rejected > 0 AND lane IS NULL AND paused_at IS NULL",
);

async fn rejected_bands(tx: &mut Tx<'_>) -> Result<Vec<RejectedBand>> {
    let read = |row: &Row<'_>| {
        let mut row = row.cursor();
        Ok((row.int()?, number(row.int()?)?, number(row.int()?)?))
    };
    let found = tx.rows(&REJECTED_BANDS, &[], read).await?;
    let names = SourceNames::read(tx, found.iter().map(|(source_no, ..)| *source_no)).await?;
    let band = |(source_no, rejected, granted)| Ok(RejectedBand { source: names.get(source_no)?, rejected, granted });
    let mut bands = found.into_iter().map(band).collect::<Result<Vec<_>>>()?;
    bands.sort_unstable();
    Ok(bands)
}

static REJECTED: Sql = Sql::new(concat!(
    "/* due::rejected */
     SELECT {partition}
     {from_control}
         AND c.rejected > 0 AND c.lane IS NULL AND c.paused_at IS NULL
         AND c.source_no = ",
    source_no!("?1"),
    "
         AND c.rejected = CAST(?2 AS BIGINT) AND c.granted = CAST(?3 AS BIGINT)
         AND (c.series_id, c.period) > (CAST(?4 AS BIGINT), CAST(?5 AS BIGINT))
     ORDER BY c.series_id, c.period
     LIMIT CAST(?6 AS BIGINT)"
));

async fn rejected(
    tx: &mut Tx<'_>,
    band: &RejectedBand,
    after: Option<&PartitionKey>,
    limit: u32,
) -> Result<Vec<Partition>> {
    let (series, period) = series::stand(tx, after).await?;
    let params = [
        band.source.as_str().into(),
        i64::from(band.rejected).into(),
        i64::from(band.granted).into(),
        series.into(),
        period.into(),
        i64::from(limit).into(),
    ];
    tx.rows(&REJECTED, &params, read).await
}
