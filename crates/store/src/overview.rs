//! Counts for the overview, all of one snapshot. Each is a range of an index and ends at a bound, so that the answer takes as
//! long at a million partitions as at ten thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::hold::{Hold, HoldKind, HoldScope};
use redrive_core::key::{LogicalDate, Source};
use redrive_core::lane::Lane;
use redrive_core::outlook;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use crate::db::{Column, Cursor, Dialect, Kind, Lookup, Sql, Tx, render_lookup};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::partitions::{Period, QuerySpan, bands_of};
use crate::series::Scope;
use crate::source_ranges::{self, LimitedSource, counted, in_order};

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

impl OverviewQuery {
    fn policy_of(&self, source: &Source) -> &RetryPolicy {
        self.policies.get(source).unwrap_or(&self.otherwise)
    }
}

impl View {
    /// How the partitions of each source stand.
    pub async fn source_counts(&self, query: OverviewQuery) -> Result<BTreeMap<Source, SourceCounts>> {
        read!(self.read_by_index, "source counts", |tx, query| sources(tx, &query))
    }

    /// How the runs of each workload stand.
    pub async fn run_counts(&self) -> Result<Vec<RunCounts>> {
        read!(self.read_by_index, "run counts", |tx| runs(tx, BOUND))
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
    let (mut names, mut limited) = (Vec::new(), Vec::new());
    let mut after: Option<Source> = None;
    while let Some((source, source_no)) = next_source(tx, after.as_ref()).await? {
        if query.source.as_ref().is_none_or(|wanted| *wanted == source) {
            limited.push(LimitedSource::new(source_no, query.policy_of(&source), query.now));
            names.push(source.clone());
        }
        after = Some(source);
    }
    let ranges = source_ranges::ranges(tx, &limited, BOUND).await?;
    let mut found = BTreeMap::new();
    for ((source, LimitedSource { source_no, .. }), ranges) in names.into_iter().zip(&limited).zip(ranges) {
        let mut counts = SourceCounts {
            success: ranges.success,
            newest_success: ranges.newest.map(|period| Period::from_row(period).date()).transpose()?,
            running: ranges.running,
            paused_pending: ranges.paused.saturating_sub(ranges.paused_failed),
            final_errors: ranges.final_errors.saturating_sub(ranges.final_stopped),
            // What the policy has stopped is counted there, as everywhere: an error that is final is the lesser reason.
            exhausted: ranges.final_stopped,
            marked: ranges.marked,
            paused_failed: ranges.paused_failed,
            ..SourceCounts::default()
        };
        let mut counting = Counting { tx: &mut *tx, query, source: &source, source_no: *source_no };
        counting.queued(ranges.queued, &mut counts).await?;
        counting.failed(&mut counts).await?;
        found.insert(source, counts);
    }
    Ok(found)
}

static QUEUED: Sql = Sql::new(
    "/* overview::queued */
     SELECT count(*)
     FROM (
         SELECT 1
         FROM partition_control
         WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL
             AND lane = ?1 AND scope = CAST(?2 AS BIGINT)
             AND series_id >= CAST(?3 AS BIGINT) AND series_id <= CAST(?4 AS BIGINT)
         LIMIT 10001) counted",
);
static SCOPE: Sql = Sql::new(
    "/* overview::scope */
     SELECT scope, series_id
     FROM series
     WHERE source = ?1 AND customer_id = ?2 AND (?3 = '' OR query_name = ?3)
     ORDER BY query_name
     LIMIT 1",
);
/// Of a band those that failed longest ago, which come due first: how many there are, are too old, and are due.
static BAND: Lookup = Lookup::new(
    "/* overview::band */
     SELECT count(*),
         CAST(coalesce(sum(CASE WHEN f.created_at <= @created THEN 1 ELSE 0 END), 0) AS BIGINT),
         CAST(coalesce(sum(CASE WHEN f.created_at > @created AND f.updated_at <= @due_by
             AND NOT EXISTS (
                 SELECT 1
                 FROM partition_control c
                 WHERE c.series_id = f.series_id AND c.period = f.period AND c.not_before > @now)
             THEN 1 ELSE 0 END), 0) AS BIGINT)
     FROM (
         SELECT created_at, updated_at, series_id, period
         FROM partitions
         WHERE status = 'failed' AND held IS NULL AND error_class <> 'final'
             AND source_no = @source_no AND spent = @spent
         ORDER BY updated_at, series_id, period
         LIMIT 10001) f",
    &[
        ("source_no", Kind::Int),
        ("spent", Kind::Int),
        ("created", Kind::Int),
        ("due_by", Kind::Int),
        ("now", Kind::Int),
    ],
);

struct Counting<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    query: &'a OverviewQuery,
    source: &'a Source,
    source_no: i64,
}

impl Counting<'_, '_> {
    /// What waits for a worker, less what is held or cools down.
    async fn queued(&mut self, all: u64, counts: &mut SourceCounts) -> Result<()> {
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
                covered += self.in_scope(held, scope.query_name().map(|_| series)).await?;
            }
        }
        Ok(covered.min(all))
    }

    /// How many are queued of a customer, or of one series of a customer.
    async fn in_scope(&mut self, scope: Scope, series: Option<i64>) -> Result<u64> {
        let (least, most) = series.map_or((0, i64::MAX), |series| (series, series));
        let mut count = 0;
        for lane in Lane::ALL {
            let params = [lane.as_str().into(), scope.number().into(), least.into(), most.into()];
            count += natural(self.tx.row(&QUEUED, &params, |row| row.int(0)).await?.unwrap_or(0));
        }
        Ok(count.min(BOUND))
    }

    /// Failures that are neither final nor withheld, by how many attempts they have spent.
    async fn failed(&mut self, counts: &mut SourceCounts) -> Result<()> {
        let (policy, now) = (self.query.policy_of(self.source), self.query.now);
        let all_wait = self.query.holds.iter().any(|hold| hold.scope.covers_source(self.source));
        let bands = bands_of(self.tx, self.source_no).await?;
        let spent = |band: i64| u32::try_from(band).unwrap_or(u32::MAX);
        let due_by = |band: i64| match all_wait {
            true => Timestamp::MIN,
            false => outlook::surely_due(spent(band), policy, now),
        };
        let columns = [
            Column::ints(&bands, |_| Some(self.source_no)),
            Column::ints(&bands, |band| Some(*band)),
            Column::ints(&bands, |_| Some(outlook::age_limit(policy, now).micros())),
            Column::ints(&bands, |band| Some(due_by(*band).micros())),
            Column::ints(&bands, |_| Some(now.micros())),
        ];
        let read = |mut row: Cursor<'_>| Ok((row.count::<u64>()?, row.count::<u64>()?, row.count::<u64>()?));
        for (nth, (all, old, due)) in self.tx.lookup(&BAND, &columns, read).await? {
            if policy.is_spent(spent(bands[nth])) {
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

/// How many runs are looked at for each one that may be counted, where no index has only those.
const LOOKED_AT: u64 = 10;

/// The question how the runs of a workload stand.
fn runs_question(most: u64) -> String {
    let in_state =
        |table: &str, state: &str| counted(&format!("{table} WHERE state = '{state}' AND workload = @workload"), most);
    let all = |table: &str| counted(&format!("{table} WHERE workload = @workload"), most);
    let bundled = "(SELECT coalesce(sum(length(runs)), 0) / 16 FROM run_bundles WHERE @workload = 'process')";
    let looked_at = most.saturating_mul(LOOKED_AT);
    let ended = format!("(SELECT state FROM run_ends WHERE workload = @workload LIMIT {looked_at}) e");
    format!(
        "/* overview::runs */
         SELECT {} AS storing, {} AS queued, {} + {bundled} AS running, {} AS waiting, {} AS done, {} AS dead",
        in_state("run_waiting", "storing"),
        all("run_queue"),
        all("run_claims"),
        in_state("run_waiting", "waiting"),
        counted(&format!("{ended} WHERE e.state = 'done'"), most),
        in_state("run_ends", "dead"),
    )
}

const OF_WORKLOAD: [(&str, Kind); 1] = [("workload", Kind::Text)];

pub(crate) fn question_of_runs(dialect: Dialect) -> String {
    render_lookup(&runs_question(BOUND), &OF_WORKLOAD, dialect)
}

/// How the runs of each workload stand, no number beyond `most`.
pub(crate) async fn runs(tx: &mut Tx<'_>, most: u64) -> Result<Vec<RunCounts>> {
    let columns = [Column::texts(Workload::ALL, |workload| Some(workload.as_str()))];
    let question = runs_question(most);
    let found = tx.built_lookup(&question, &OF_WORKLOAD, &columns, |nth, mut row| {
        let counts = RunCounts {
            workload: Workload::ALL[nth],
            storing: row.count()?,
            queued: row.count()?,
            running: row.count::<u64>()?.min(most),
            waiting: row.count()?,
            done: row.count()?,
            dead: row.count()?,
        };
        Ok((nth, counts))
    });
    found.await.map(in_order)
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
