//! What gauges show of sources and workloads, all of one snapshot. Each number is a range of an index and ends at a bound that
//! the caller gives, so that a scrape costs as much at a million partitions and runs as at a thousand.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::key::{LogicalDate, Source};
use redrive_core::lane::Lane;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use crate::db::{Param, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};
use crate::overview::{self, RunCounts};
use crate::partitions::{AttemptLimits, Period};
use crate::series::Scope;

/// What the numbers go by.
#[derive(Debug, Clone)]
pub struct GaugeQuery {
    /// The sources that are looked at in any case, with their policies.
    pub known: BTreeMap<Source, RetryPolicy>,
    /// How many others are looked at, in the order of their names.
    pub others: usize,
    /// The policy of every other.
    pub otherwise: RetryPolicy,
    pub now: Timestamp,
    /// No number goes beyond this.
    pub most: u64,
}

/// How the partitions of a source stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceGauges {
    pub success: u64,
    pub pending: u64,
    pub failed: u64,
    /// Of those that failed, by whom they are terminal.
    pub marked: u64,
    pub exhausted: u64,
    pub final_errors: u64,
    /// The latest day that has succeeded.
    pub newest_success: Option<LogicalDate>,
}

impl View {
    /// How the partitions of sources stand; a source that has none is left out.
    pub async fn source_gauges(&self, query: GaugeQuery) -> Result<BTreeMap<Source, SourceGauges>> {
        read!(self.read_by_index, "source gauges", |tx, query| sources(tx, &query))
    }

    /// How the runs of each workload stand, no number beyond `most`.
    pub async fn run_gauges(&self, most: u64) -> Result<Vec<RunCounts>> {
        read!(self.read_by_index, "run gauges", |tx, most| runs(tx, *most))
    }
}

static NUMBER: Sql = Sql::new(
    "/* gauges::number */
     SELECT source_no
     FROM series
     WHERE source = ?1
     ORDER BY source, customer_id, query_name
     LIMIT 1",
);
async fn sources(tx: &mut Tx<'_>, query: &GaugeQuery) -> Result<BTreeMap<Source, SourceGauges>> {
    let mut found = BTreeMap::new();
    for (source, policy) in &query.known {
        let number = tx.row(&NUMBER, &[source.as_str().into()], |row| row.int(0)).await?;
        if let Some(number) = number {
            found.insert(source.clone(), Gauging { tx: &mut *tx, query, policy, number }.all().await?);
        }
    }
    let (mut after, mut others): (Option<Source>, _) = (None, 0);
    while others < query.others
        && let Some((source, number)) = overview::next_source(tx, after.as_ref()).await?
    {
        if !query.known.contains_key(&source) {
            let policy = &query.otherwise;
            found.insert(source.clone(), Gauging { tx: &mut *tx, query, policy, number }.all().await?);
            others += 1;
        }
        after = Some(source);
    }
    Ok(found)
}

/// How many rows a range has, up to the last parameter.
macro_rules! range {
    ($name:literal, $range:literal, $most:literal) => {
        Sql::new(concat!(
            "/* gauges::",
            $name,
            " */
     SELECT count(*)
     FROM (
         SELECT 1
         ",
            $range,
            "
         LIMIT CAST(",
            $most,
            " AS BIGINT)) counted"
        ))
    };
}

static SUCCESS: Sql =
    range!("success", "FROM partitions WHERE status = 'success' AND source_no = CAST(?1 AS BIGINT)", "?2");
static RUNNING: Sql = range!(
    "running",
    "FROM partition_control WHERE active_run_id IS NOT NULL AND source_no = CAST(?1 AS BIGINT)",
    "?2"
);
static MARKED: Sql = range!(
    "marked",
    "FROM partition_control
         WHERE terminal_at IS NOT NULL AND paused_at IS NULL AND source_no = CAST(?1 AS BIGINT)",
    "?2"
);
static QUEUED: Sql = range!(
    "queued",
    "FROM partition_control
         WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL
             AND lane = ?1 AND scope >= CAST(?2 AS BIGINT) AND scope <= CAST(?3 AS BIGINT)",
    "?4"
);
static SPENT: Sql = range!(
    "spent",
    "FROM partitions
         WHERE status = 'failed' AND held = 0 AND error_class <> 'final'
             AND source_no = CAST(?1 AS BIGINT) AND spent >= CAST(?2 AS BIGINT)",
    "?3"
);
/// Failures that have attempts left, and how many of them are too old for another.
static OPEN: Sql = Sql::new(
    "/* gauges::open */
     SELECT count(*), CAST(coalesce(sum(CASE WHEN f.created_at <= CAST(?3 AS BIGINT) THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (
         SELECT created_at
         FROM partitions
         WHERE status = 'failed' AND held = 0 AND error_class <> 'final'
             AND source_no = CAST(?1 AS BIGINT) AND spent < CAST(?2 AS BIGINT)
         LIMIT CAST(?4 AS BIGINT)) f",
);
/// Final errors, and of how many the policy would allow no further attempt anyway.
static FINAL: Sql = Sql::new(
    "/* gauges::final_errors */
     SELECT count(*), CAST(coalesce(sum(
         CASE WHEN f.spent >= CAST(?2 AS BIGINT) OR f.created_at <= CAST(?3 AS BIGINT) THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (
         SELECT spent, created_at
         FROM partitions
         WHERE status = 'failed' AND held = 0 AND error_class = 'final' AND source_no = CAST(?1 AS BIGINT)
         LIMIT CAST(?4 AS BIGINT)) f",
);
static PAUSED: Sql = Sql::new(
    "/* gauges::paused */
     SELECT count(*), CAST(coalesce(sum(CASE WHEN p.status = 'failed' THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (
         SELECT series_id, period
         FROM partition_control
         WHERE paused_at IS NOT NULL AND source_no = CAST(?1 AS BIGINT)
         LIMIT CAST(?2 AS BIGINT)) c
     CROSS JOIN partitions p
     WHERE p.series_id = c.series_id AND p.period = c.period",
);
static NEWEST: Sql = Sql::new(
    "/* gauges::newest */
     SELECT max(period)
     FROM partitions
     WHERE status = 'success' AND source_no = CAST(?1 AS BIGINT)",
);

struct Gauging<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    query: &'a GaugeQuery,
    policy: &'a RetryPolicy,
    number: i64,
}

impl Gauging<'_, '_> {
    async fn all(mut self) -> Result<SourceGauges> {
        let (number, most) = (self.number, whole(self.query.most));
        let limits = AttemptLimits::of(self.policy, self.query.now);
        let (attempts, created) = (i64::from(limits.attempts), limits.created.micros());
        let limited: [Param<'_>; 4] = [number.into(), attempts.into(), created.into(), most.into()];
        let success = self.one(&SUCCESS, &[number.into(), most.into()]).await?;
        let running = self.one(&RUNNING, &[number.into(), most.into()]).await?;
        let marked = self.one(&MARKED, &[number.into(), most.into()]).await?;
        let queued = self.queued(most).await?;
        let (paused, paused_failed) = self.two(&PAUSED, &[number.into(), most.into()]).await?;
        let spent = self.one(&SPENT, &[number.into(), attempts.into(), most.into()]).await?;
        let (open, old) = self.two(&OPEN, &limited).await?;
        let (final_errors, stopped) = self.two(&FINAL, &limited).await?;
        let newest = self.tx.row(&NEWEST, &[number.into()], |row| row.opt_int(0)).await?.flatten();
        let most = self.query.most;
        Ok(SourceGauges {
            success,
            pending: (queued + running + paused.saturating_sub(paused_failed)).min(most),
            failed: (spent + open + final_errors + marked + paused_failed).min(most),
            marked,
            exhausted: (spent + old + stopped).min(most),
            final_errors: final_errors.saturating_sub(stopped),
            newest_success: newest.map(|period| Period::from_row(period).date()).transpose()?,
        })
    }

    async fn queued(&mut self, most: i64) -> Result<u64> {
        let first = Scope::of_source(self.number);
        let mut queued = 0;
        for lane in Lane::ALL {
            let params =
                [lane.as_str().into(), first.number().into(), first.end_of_source().number().into(), most.into()];
            queued += self.one(&QUEUED, &params).await?;
        }
        Ok(queued)
    }

    async fn one(&mut self, sql: &Sql, params: &[Param<'_>]) -> Result<u64> {
        one(self.tx, sql, params).await
    }

    async fn two(&mut self, sql: &Sql, params: &[Param<'_>]) -> Result<(u64, u64)> {
        let row = self.tx.row(sql, params, |row| Ok((natural(row.int(0)?), natural(row.int(1)?)))).await?;
        Ok(row.unwrap_or_default())
    }
}

static WAITING: Sql = range!("waiting", "FROM run_waiting WHERE workload = ?1 AND state = 'waiting'", "?2");
static NOT_QUEUED: Sql = range!("not_queued", "FROM run_waiting WHERE workload = ?1", "?2");
static QUEUED_RUNS: Sql = range!("queued_runs", "FROM run_queue WHERE workload = ?1", "?2");
static RUNNING_RUNS: Sql = range!("running_runs", "FROM run_claims WHERE workload = ?1", "?2");
static DEAD: Sql = range!("dead", "FROM run_ends WHERE state = 'dead' AND workload = ?1", "?2");
static ENDED: Sql = range!("ended", "FROM run_ends WHERE workload = ?1", "?2");

/// All of these, for a test that looks at their plans.
pub(crate) static ALL: [&Sql; 17] = [
    &NUMBER,
    &overview::NEXT_SOURCE,
    &SUCCESS,
    &RUNNING,
    &MARKED,
    &QUEUED,
    &SPENT,
    &OPEN,
    &FINAL,
    &PAUSED,
    &NEWEST,
    &WAITING,
    &NOT_QUEUED,
    &QUEUED_RUNS,
    &RUNNING_RUNS,
    &DEAD,
    &ENDED,
];

async fn runs(tx: &mut Tx<'_>, most: u64) -> Result<Vec<RunCounts>> {
    let mut all = Vec::new();
    for &workload in Workload::ALL {
        let params = [workload.as_str().into(), whole(most).into()];
        let (waiting, dead) = (one(tx, &WAITING, &params).await?, one(tx, &DEAD, &params).await?);
        // No index has only those that are stored or done: all are counted, as far as it takes to see so many of them.
        let beyond = |others: u64| [workload.as_str().into(), whole(most + others).into()];
        let storing = one(tx, &NOT_QUEUED, &beyond(waiting)).await?.saturating_sub(waiting);
        let done = one(tx, &ENDED, &beyond(dead)).await?.saturating_sub(dead);
        let (queued, running) = (one(tx, &QUEUED_RUNS, &params).await?, one(tx, &RUNNING_RUNS, &params).await?);
        all.push(RunCounts { workload, storing, queued, running, waiting, done, dead });
    }
    Ok(all)
}

async fn one(tx: &mut Tx<'_>, sql: &Sql, params: &[Param<'_>]) -> Result<u64> {
    Ok(natural(tx.row(sql, params, |row| row.int(0)).await?.unwrap_or(0)))
}

fn natural(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn whole(most: u64) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
