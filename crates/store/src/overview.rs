//! Counts for the overview, all of one snapshot. Each is a range of an index and ends at a bound, so that the answer takes as
//! long at a million partitions as at ten thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::hold::{Hold, HoldKind, HoldScope};
use redrive_core::key::{LogicalDate, Source};
use redrive_core::outlook;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use crate::db::{Column, Kind, Lookup, Param, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::partitions::{AttemptLimits, Period, QuerySpan};
use crate::series::Scope;

/// A count that reaches this is at least one less.
pub const BOUND: u64 = 10_001;

/// What the counts go by.
#[derive(Debug, Clone)]
pub struct OverviewQuery {
    /// Only this source.
    pub source: Option<Source>,
    /// The policies of the sources that have one of their own.
    pub policies: BTreeMap<Source, RetryPolicy>,
    /// Of every other source.
    pub otherwise: RetryPolicy,
    /// The holds in force: what they cover is not queued, and not due.
    pub holds: Vec<Hold>,
    pub now: Timestamp,
}

/// How the partitions of a source stand; no number is above [`BOUND`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceCounts {
    pub success: u64,
    /// The latest day that has succeeded.
    pub newest_success: Option<LogicalDate>,
    /// Waits for a worker, successes that were asked for again included.
    pub queued: u64,
    pub running: u64,
    pub cooling_down: u64,
    pub held: u64,
    pub paused_pending: u64,
    /// Backoff or the source's hint holds them.
    pub waiting: u64,
    /// Backoff has let them go.
    pub due: u64,
    pub final_errors: u64,
    /// The policy allows no further attempt.
    pub exhausted: u64,
    pub marked: u64,
    pub paused_failed: u64,
}

/// How the runs of a workload stand; no number is above [`BOUND`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCounts {
    pub workload: Workload,
    pub storing: u64,
    pub queued: u64,
    pub running: u64,
    pub waiting: u64,
    pub done: u64,
    pub dead: u64,
}

impl View {
    /// How the partitions of each source stand.
    pub async fn source_counts(&self, query: OverviewQuery) -> Result<BTreeMap<Source, SourceCounts>> {
        read!(self.read_by_index, "source counts", |tx, query| sources(tx, &query))
    }

    /// How the runs of each workload stand.
    pub async fn run_counts(&self) -> Result<Vec<RunCounts>> {
        read!(self.read_by_index, "run counts", |tx| runs(tx))
    }

    /// How many partitions there are in each of these spans.
    pub async fn count_days(&self, spans: Vec<QuerySpan>) -> Result<Vec<u64>> {
        read!(self.read_by_index, "count days", |tx, spans| count_days(tx, &spans))
    }
}

pub(crate) static NEXT_SOURCE: Sql = Sql::new(
    "/* overview::next_source */
     SELECT source, source_no
     FROM series
     WHERE source > ?1
     ORDER BY source, customer_id, query_name
     LIMIT 1",
);

/// The source after this one by name, with its number; the first of all after none.
pub(crate) async fn next_source(tx: &mut Tx<'_>, after: Option<&Source>) -> Result<Option<(Source, i64)>> {
    let after = after.map_or("", Source::as_str);
    let next = tx.row(&NEXT_SOURCE, &[after.into()], |row| Ok((row.text(0)?, row.int(1)?))).await?;
    next.map(|(name, number)| Ok((name.parse().map_err(|error| Error::row("series", error))?, number))).transpose()
}

async fn sources(tx: &mut Tx<'_>, query: &OverviewQuery) -> Result<BTreeMap<Source, SourceCounts>> {
    let mut found = BTreeMap::new();
    let mut after: Option<Source> = None;
    while let Some((source, source_no)) = next_source(tx, after.as_ref()).await? {
        if query.source.as_ref().is_none_or(|wanted| *wanted == source) {
            let counts = Counting { tx: &mut *tx, query, source: &source, source_no }.all().await?;
            found.insert(source.clone(), counts);
        }
        after = Some(source);
    }
    Ok(found)
}

/// A range of an index, counted to the bound.
macro_rules! bounded {
    ($name:literal, $range:literal) => {
        Sql::new(concat!(
            "/* overview::",
            $name,
            " */
     SELECT count(*)
     FROM (
         SELECT 1
         ",
            $range,
            "
         LIMIT 10001) counted"
        ))
    };
}

static SUCCESS: Sql =
    bounded!("success", "FROM partitions WHERE status = 'success' AND source_no = CAST(?1 AS BIGINT)");
static NEWEST: Sql = Sql::new(
    "/* overview::newest */
     SELECT max(period)
     FROM partitions
     WHERE status = 'success' AND source_no = CAST(?1 AS BIGINT)",
);
/// Final errors: how many there are, and of how many the policy would allow no further attempt anyway.
static FINAL: Sql = Sql::new(
    "/* overview::final_errors */
     SELECT count(*), CAST(coalesce(sum(
         CASE WHEN f.spent >= CAST(?2 AS BIGINT) OR f.created_at <= CAST(?3 AS BIGINT) THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (
         SELECT spent, created_at
         FROM partitions
         WHERE status = 'failed' AND held = 0 AND error_class = 'final' AND source_no = CAST(?1 AS BIGINT)
         LIMIT 10001) f",
);
static RUNNING: Sql =
    bounded!("running", "FROM partition_control WHERE active_run_id IS NOT NULL AND source_no = CAST(?1 AS BIGINT)");
static MARKED: Sql = bounded!(
    "marked",
    "FROM partition_control
         WHERE terminal_at IS NOT NULL AND paused_at IS NULL AND source_no = CAST(?1 AS BIGINT)"
);
static QUEUED: Sql = bounded!(
    "queued",
    "FROM partition_control
         WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL
             AND lane = ?1 AND scope >= CAST(?2 AS BIGINT) AND scope <= CAST(?3 AS BIGINT)
             AND series_id >= CAST(?4 AS BIGINT) AND series_id <= CAST(?5 AS BIGINT)"
);
static PAUSED: Sql = Sql::new(
    "/* overview::paused */
     SELECT p.status, count(*)
     FROM (
         SELECT series_id, period
         FROM partition_control
         WHERE paused_at IS NOT NULL AND source_no = CAST(?1 AS BIGINT)
         LIMIT 10001) c
     CROSS JOIN partitions p
     WHERE p.series_id = c.series_id AND p.period = c.period
     GROUP BY p.status",
);
static SCOPE: Sql = Sql::new(
    "/* overview::scope */
     SELECT scope, series_id
     FROM series
     WHERE source = ?1 AND customer_id = ?2 AND (?3 = '' OR query_name = ?3)
     ORDER BY query_name
     LIMIT 1",
);
static NEXT_BAND: Sql = Sql::new(
    "/* overview::next_band */
     SELECT spent
     FROM partitions
     WHERE status = 'failed' AND held = 0 AND error_class <> 'final'
         AND source_no = CAST(?1 AS BIGINT) AND spent > CAST(?2 AS BIGINT)
     ORDER BY source_no, spent
     LIMIT 1",
);
/// Of a band those that failed longest ago, which come due first: how many there are, are too old, and are due.
static BAND: Sql = Sql::new(
    "/* overview::band */
     SELECT count(*),
         CAST(coalesce(sum(CASE WHEN f.created_at <= CAST(?3 AS BIGINT) THEN 1 ELSE 0 END), 0) AS BIGINT),
         CAST(coalesce(sum(CASE WHEN f.created_at > CAST(?3 AS BIGINT) AND f.updated_at <= CAST(?4 AS BIGINT)
             AND NOT EXISTS (
                 SELECT 1
                 FROM partition_control c
                 WHERE c.series_id = f.series_id AND c.period = f.period AND c.not_before > CAST(?5 AS BIGINT))
             THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (
         SELECT created_at, updated_at, series_id, period
         FROM partitions
         WHERE status = 'failed' AND held = 0 AND error_class <> 'final'
             AND source_no = CAST(?1 AS BIGINT) AND spent = CAST(?2 AS BIGINT)
         ORDER BY updated_at, series_id, period
         LIMIT 10001) f",
);

struct Counting<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    query: &'a OverviewQuery,
    source: &'a Source,
    source_no: i64,
}

impl Counting<'_, '_> {
    async fn all(mut self) -> Result<SourceCounts> {
        let mut counts = SourceCounts {
            success: self.one(&SUCCESS).await?,
            running: self.one(&RUNNING).await?,
            marked: self.one(&MARKED).await?,
            ..SourceCounts::default()
        };
        let newest = self.tx.row(&NEWEST, &[self.source_no.into()], |row| row.opt_int(0)).await?.flatten();
        counts.newest_success = newest.map(|period| Period::from_row(period).date()).transpose()?;
        self.queued(&mut counts).await?;
        self.paused(&mut counts).await?;
        self.final_errors(&mut counts).await?;
        self.failed(&mut counts).await?;
        Ok(counts)
    }

    /// What the policy has stopped is counted there, as everywhere: an error that is final is the lesser reason.
    async fn final_errors(&mut self, counts: &mut SourceCounts) -> Result<()> {
        let policy = self.query.policies.get(self.source).unwrap_or(&self.query.otherwise);
        let limits = AttemptLimits::of(policy, self.query.now);
        let params = [self.source_no.into(), i64::from(limits.attempts).into(), limits.created.micros().into()];
        let found = self.tx.row(&FINAL, &params, |row| Ok((natural(row.int(0)?), natural(row.int(1)?)))).await?;
        let (all, stopped) = found.unwrap_or_default();
        counts.final_errors = all.saturating_sub(stopped);
        counts.exhausted += stopped;
        Ok(())
    }

    async fn one(&mut self, sql: &Sql) -> Result<u64> {
        let count = self.tx.row(sql, &[self.source_no.into()], |row| row.int(0)).await?;
        Ok(natural(count.unwrap_or(0)))
    }

    /// What waits for a worker, less what is held or cools down.
    async fn queued(&mut self, counts: &mut SourceCounts) -> Result<()> {
        let whole = Scope::of_source(self.source_no);
        let all = self.in_scopes(whole, whole.end_of_source(), None).await?;
        let cooling = |hold: &Hold| hold.kind() == HoldKind::Cooldown;
        counts.held = self.covered(|hold| !cooling(hold), all).await?;
        let left = all.saturating_sub(counts.held);
        counts.cooling_down = self.covered(cooling, left).await?;
        counts.queued = left.saturating_sub(counts.cooling_down);
        Ok(())
    }

    /// How many of those that are queued these holds cover, at most all.
    async fn covered(&mut self, which: impl Fn(&Hold) -> bool, all: u64) -> Result<u64> {
        let (query, source) = (self.query, self.source);
        let scopes: BTreeSet<&HoldScope> = query.holds.iter().filter(|h| which(h)).map(|h| &h.scope).collect();
        if scopes.iter().any(|scope| scope.covers_source(source)) {
            return Ok(all);
        }
        // What is inside a wider hold is counted with that.
        let widest = scopes.iter().filter(|one| !scopes.iter().any(|other| other != *one && other.contains(one)));
        let mut covered = 0;
        for scope in widest.filter(|scope| scope.source() == source) {
            let Some(customer) = scope.customer_id() else { continue };
            let query = scope.query_name().map_or("", |query| query.as_str());
            let params = [source.as_str().into(), customer.as_str().into(), query.into()];
            let found = self.tx.row(&SCOPE, &params, |row| Ok((Scope::from_row(row.int(0)?), row.int(1)?))).await?;
            if let Some((held, series)) = found {
                covered += self.in_scopes(held, held, scope.query_name().map(|_| series)).await?;
            }
        }
        Ok(covered.min(all))
    }

    /// How many are queued of a range of customers, or of one series of a customer.
    async fn in_scopes(&mut self, first: Scope, last: Scope, series: Option<i64>) -> Result<u64> {
        let mut count = 0;
        for lane in redrive_core::lane::Lane::ALL {
            let (least, most) = series.map_or((0, i64::MAX), |series| (series, series));
            let params: [Param<'_>; 5] =
                [lane.as_str().into(), first.number().into(), last.number().into(), least.into(), most.into()];
            count += natural(self.tx.row(&QUEUED, &params, |row| row.int(0)).await?.unwrap_or(0));
        }
        Ok(count.min(BOUND))
    }

    async fn paused(&mut self, counts: &mut SourceCounts) -> Result<()> {
        let rows = self.tx.rows(&PAUSED, &[self.source_no.into()], |row| Ok((row.text(0)?, row.int(1)?))).await?;
        for (status, count) in rows {
            match status.as_str() {
                "failed" => counts.paused_failed += natural(count),
                _ => counts.paused_pending += natural(count),
            }
        }
        Ok(())
    }

    /// Failures that are neither final nor withheld, by how many attempts they have spent.
    async fn failed(&mut self, counts: &mut SourceCounts) -> Result<()> {
        let policy = self.query.policies.get(self.source).unwrap_or(&self.query.otherwise);
        let now = self.query.now;
        let all_wait = self.query.holds.iter().any(|hold| hold.scope.covers_source(self.source));
        let mut last = -1;
        loop {
            let next = self.tx.row(&NEXT_BAND, &[self.source_no.into(), last.into()], |row| row.int(0)).await?;
            let Some(band) = next else { break };
            last = band;
            let spent = u32::try_from(band).unwrap_or(u32::MAX);
            let due_by = if all_wait { Timestamp::MIN } else { outlook::surely_due(spent, policy, now) };
            let params: [Param<'_>; 5] = [
                self.source_no.into(),
                band.into(),
                outlook::age_limit(policy, now).micros().into(),
                due_by.micros().into(),
                now.micros().into(),
            ];
            let row = self.tx.row(&BAND, &params, |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?))).await?;
            let (all, old, due) = row.map_or((0, 0, 0), |(all, old, due)| (natural(all), natural(old), natural(due)));
            if policy.is_spent(spent) {
                counts.exhausted += all;
            } else {
                counts.exhausted += old;
                counts.due += due;
                counts.waiting += all.saturating_sub(old + due);
            }
        }
        for count in [&mut counts.exhausted, &mut counts.due, &mut counts.waiting] {
            *count = (*count).min(BOUND);
        }
        Ok(())
    }
}

fn natural(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

static WAITING: Sql = Sql::new(
    "/* overview::waiting_runs */
     SELECT count(*), CAST(coalesce(sum(CASE WHEN state = 'storing' THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (SELECT state FROM run_waiting WHERE workload = ?1 LIMIT 10001) counted",
);
static QUEUED_RUNS: Sql = bounded!("queued_runs", "FROM run_queue WHERE workload = ?1");
static RUNNING_RUNS: Sql = bounded!("running_runs", "FROM run_claims WHERE workload = ?1");
static DEAD_RUNS: Sql = bounded!("dead_runs", "FROM run_ends WHERE state = 'dead' AND workload = ?1");
static ENDED_RUNS: Sql = Sql::new(
    "/* overview::ended_runs */
     SELECT CAST(coalesce(sum(CASE WHEN state = 'done' THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (SELECT state FROM run_ends WHERE workload = ?1 LIMIT 10001) counted",
);

async fn runs(tx: &mut Tx<'_>) -> Result<Vec<RunCounts>> {
    let mut all = Vec::new();
    for &workload in Workload::ALL {
        let params = [workload.as_str().into()];
        let waiting = tx.row(&WAITING, &params, |row| Ok((row.int(0)?, row.int(1)?))).await?;
        let (waiting, storing) = waiting.map_or((0, 0), |(all, storing)| (natural(all), natural(storing)));
        let mut one = Vec::new();
        for sql in [&QUEUED_RUNS, &RUNNING_RUNS, &DEAD_RUNS, &ENDED_RUNS] {
            one.push(natural(tx.row(sql, &params, |row| row.int(0)).await?.unwrap_or(0)));
        }
        let [queued, running, dead, done] = one[..] else { continue };
        let waiting = waiting.saturating_sub(storing);
        all.push(RunCounts { workload, storing, queued, running, waiting, done, dead });
    }
    Ok(all)
}

static COUNT_DAYS: Lookup = Lookup::new(
    "/* overview::count_days */
     SELECT count(*)
     FROM partitions
     WHERE series_id = (
             SELECT series_id
             FROM series
             WHERE source = @source AND customer_id = @customer_id AND query_name = @query_name)
         AND period >= @since AND period <= @until",
    &[
        ("source", Kind::Text),
        ("customer_id", Kind::Text),
        ("query_name", Kind::Text),
        ("since", Kind::Int),
        ("until", Kind::Int),
    ],
);

async fn count_days(tx: &mut Tx<'_>, spans: &[QuerySpan]) -> Result<Vec<u64>> {
    let columns = [
        Column::texts(spans, |span| Some(span.source.as_str())),
        Column::texts(spans, |span| Some(span.customer_id.as_str())),
        Column::texts(spans, |span| Some(span.query_name.as_str())),
        Column::ints(spans, |span| Some(Period::of(span.since).number())),
        Column::ints(spans, |span| Some(Period::of(span.until).number())),
    ];
    let mut counts = vec![0; spans.len()];
    for (nth, count) in tx.lookup(&COUNT_DAYS, &columns, |mut row| row.count()).await? {
        counts[nth] = count;
    }
    Ok(counts)
}
