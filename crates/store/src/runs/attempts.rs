//! Attempts at partitions: beginning them, and reading those of many partitions at once, whole or as the invariants see
//! them.

use std::sync::Arc;

use redrive_core::id::{RunId, TaskId};
use redrive_core::invariants::AttemptFacts;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::run::{Run, Verdict};
use redrive_core::time::Timestamp;
use serde::Deserialize;

use super::row::{read_from, run_columns};
use crate::db::columns::columns;
use crate::db::{Batch, Column, Cursor, Effect, Kind, Lookup, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};
use crate::partitions::{self, KEY, KEY_NAMES, Page, read_key};
use crate::series::{self, Place};

impl View {
    /// Every attempt of a partition, oldest first.
    pub async fn attempts(&self, key: &PartitionKey) -> Result<Vec<Run>> {
        Ok(self.attempts_of(vec![key.clone()]).await?.into_iter().next().unwrap_or_default())
    }

    /// The same of many partitions, each with its own in the order of the keys.
    pub async fn attempts_of(&self, keys: Vec<PartitionKey>) -> Result<Vec<Vec<Run>>> {
        read!(self.read_by_index, "attempts of many", |tx, keys| of_partitions(tx, &keys))
    }

    /// A page of partitions in key order, each with what the invariants ask of its attempts.
    pub async fn partitions_with_attempts(&self, asked: Page) -> Result<Vec<(Partition, Vec<AttemptFacts>)>> {
        read!(self.read_by_index, "partitions with attempts", |tx, asked| page(tx, &asked))
    }

    /// Extractions that are under way, series by series, after the one of `after`.
    pub async fn running_attempts(&self, after: Option<PartitionKey>, limit: u32) -> Result<Vec<Running>> {
        read!(self.read_by_index, "running attempts", |tx, after, limit| running(tx, Option::as_ref(&after), *limit))
    }
}

static OF_PARTITIONS: Lookup = Lookup::new(
    concat!(
        "/* runs::of_partitions */
     SELECT ",
        run_columns!(),
        "
     FROM runs
     WHERE workload = 'extract'
       AND series_id = @series_id
       AND period = @period"
    ),
    &KEY_NAMES,
);

async fn of_partitions(tx: &mut Tx<'_>, keys: &[PartitionKey]) -> Result<Vec<Vec<Run>>> {
    let mut attempts = of_each(tx, &OF_PARTITIONS, keys.iter(), read_from).await?;
    for runs in &mut attempts {
        runs.sort_unstable_by_key(|run| run.run_id);
    }
    Ok(attempts)
}

/// What there is of each of these partitions, in the order of the keys.
async fn of_each<'k, T>(
    tx: &mut Tx<'_>,
    sql: &Lookup,
    keys: impl Iterator<Item = &'k PartitionKey>,
    make: impl Fn(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let places = series::find(tx, keys).await?;
    let mut found: Vec<Vec<T>> = places.iter().map(|_| Vec::new()).collect();
    let values = columns(&KEY, &places.iter().collect::<Vec<_>>());
    for (nth, row) in tx.lookup(sql, &values, |mut row| make(&mut row)).await? {
        found[nth].push(row);
    }
    Ok(found)
}

static INSERT_SPECS: Batch = Batch::new(
    "/* runs::insert_attempts */
     INSERT INTO run_specs (run_id, workload, category, series_id, period, submitted_at)
     {values @run_id, 'extract', '', @series_id, @period, @submitted_at}",
    &[KEY_NAMES[0], KEY_NAMES[1], ("run_id", Kind::Id), ("submitted_at", Kind::Int)],
    Effect::All,
);

static INSERT_CLAIMS: Batch = Batch::new(
    "/* runs::begin_attempts */
     INSERT INTO run_claims (workload, category, run_id, series_id, period, attempt, task_id, worker, started_at,
         last_heartbeat, lease_until)
     {values 'extract', '', @run_id, @series_id, @period, @attempt, @task_id, @worker, @started_at, @started_at,
         @lease_until}",
    &[
        KEY_NAMES[0],
        KEY_NAMES[1],
        ("run_id", Kind::Id),
        ("attempt", Kind::Int),
        ("task_id", Kind::Id),
        ("worker", Kind::Text),
        ("started_at", Kind::Int),
        ("lease_until", Kind::Int),
    ],
    Effect::All,
);

/// Inserts the runs of claimed partitions, which begin as running.
pub(crate) async fn insert_attempts(tx: &mut Tx<'_>, runs: &[Run]) -> Result<()> {
    let places: Vec<Place> = series::find(tx, runs.iter().filter_map(Run::key)).await?;
    let at: Vec<&Place> = places.iter().collect();
    let mut specs = columns(&KEY, &at);
    specs.extend([
        Column::ids(runs, |run| Some(run.run_id.uuid())),
        Column::ints(runs, |run| Some(run.submitted_at.micros())),
    ]);
    tx.batch(&INSERT_SPECS, &specs).await?;
    let mut claims = columns(&KEY, &at);
    claims.extend([
        Column::ids(runs, |run| Some(run.run_id.uuid())),
        Column::ints(runs, |run| Some(i64::from(run.attempt))),
        Column::ids(runs, |run| run.task_id.map(TaskId::uuid)),
        Column::texts(runs, |run| run.worker.as_deref()),
        Column::ints(runs, |run| run.started_at.map(Timestamp::micros)),
        Column::ints(runs, |run| run.lease_until.map(Timestamp::micros)),
    ]);
    tx.batch(&INSERT_CLAIMS, &claims).await.map(drop)
}

macro_rules! fact_columns {
    () => {
        "runs.run_id, runs.task_id, runs.attempt, runs.state, runs.verdict, runs.lease_until,
         (SELECT count(*) FROM run_failures f WHERE f.run_id = runs.run_id), runs.metrics"
    };
}

/// The hash of a manifest in what the worker of an accepted attempt reported.
fn manifest_hash(verdict: Option<Verdict>, metrics: Option<String>) -> Option<String> {
    #[derive(Deserialize)]
    struct Metrics {
        manifest_sha256: Option<String>,
    }
    let metrics = metrics.filter(|_| verdict == Some(Verdict::Passed))?;
    serde_json::from_str::<Metrics>(&metrics).ok()?.manifest_sha256
}

fn read_facts(row: &mut Cursor<'_>) -> Result<AttemptFacts> {
    let mut facts = AttemptFacts {
        run_id: RunId::from_uuid(row.id()?),
        task_id: row.opt_id()?.map(TaskId::from_uuid),
        number: row.count()?,
        state: row.word()?,
        verdict: row.opt_word()?,
        lease_until: row.opt_time()?,
        failures: row.count()?,
        manifest: None,
    };
    facts.manifest = manifest_hash(facts.verdict, row.opt_text()?);
    Ok(facts)
}

static FACTS: Lookup = Lookup::new(
    concat!(
        "/* runs::facts_of_partitions */
     SELECT ",
        fact_columns!(),
        "
     FROM runs
     WHERE workload = 'extract'
       AND series_id = @series_id
       AND period = @period"
    ),
    &KEY_NAMES,
);

/// A page of partitions in key order, each with its attempts of the same moment.
async fn page(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<(Partition, Vec<AttemptFacts>)>> {
    let partitions = partitions::page(tx, page).await?;
    let facts = of_each(tx, &FACTS, partitions.iter().map(|partition| &partition.state.key), read_facts).await?;
    Ok(partitions.into_iter().zip(facts).collect())
}

/// A running extraction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub key: PartitionKey,
    /// Whether there is such a partition.
    pub exists: bool,
    pub attempt: AttemptFacts,
}

static RUNNING: Sql = Sql::new(
    "/* runs::running */
     SELECT s.source, s.customer_id, s.query_name, c.period, c.run_id, c.task_id, c.attempt, 'running',
         CAST(NULL AS TEXT), c.lease_until,
         (SELECT count(*) FROM run_failures f WHERE f.run_id = c.run_id), c.metrics
     FROM run_claims c
     CROSS JOIN series s
     WHERE s.series_id = c.series_id
       AND c.series_id IS NOT NULL
       AND (c.series_id, c.period) > (CAST(?1 AS BIGINT), CAST(?2 AS BIGINT))
     ORDER BY c.series_id, c.period
     LIMIT CAST(?3 AS BIGINT)",
);

async fn running(tx: &mut Tx<'_>, after: Option<&PartitionKey>, limit: u32) -> Result<Vec<Running>> {
    let (series, period) = series::stand(tx, after).await?;
    let params = [series.into(), period.into(), i64::from(limit).into()];
    let running = tx.rows(&RUNNING, &params, |row| {
        let mut row = row.cursor();
        Ok((read_key(&mut row)?, read_facts(&mut row)?))
    });
    let (keys, attempts): (Vec<_>, Vec<_>) = running.await?.into_iter().unzip();
    let exist = partitions::get_many(tx, &keys).await?;
    let all = keys.into_iter().zip(exist).zip(attempts);
    Ok(all.map(|((key, partition), attempt)| Running { key, exists: partition.is_some(), attempt }).collect())
}
