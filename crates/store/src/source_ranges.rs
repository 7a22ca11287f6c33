//! How the partitions of sources stand, as far as ranges of indexes tell it: what the overview and the gauges have in common. Each range
//! is counted to a bound, and all sources are asked about at once.

use redrive_core::lane::Lane;
use redrive_core::retry::RetryPolicy;
use redrive_core::time::Timestamp;

use crate::db::{Column, Dialect, Kind, Tx, render_lookup};
use crate::error::Result;
use crate::partitions::AttemptLimits;
use crate::series::Scope;

/// A source by its number, and the limits of its policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitedSource {
    pub(crate) source_no: i64,
    limits: AttemptLimits,
}

impl LimitedSource {
    pub(crate) fn new(source_no: i64, policy: &RetryPolicy, now: Timestamp) -> Self {
        Self { source_no, limits: AttemptLimits::of(policy, now) }
    }
}

/// How many partitions of a source each range has, up to the bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranges {
    pub(crate) success: u64,
    /// The latest period that has succeeded.
    pub(crate) newest: Option<i64>,
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) marked: u64,
    pub(crate) paused: u64,
    /// Of those that are paused.
    pub(crate) paused_failed: u64,
    pub(crate) final_errors: u64,
    /// Of those with a final error: the policy would allow no further attempt anyway.
    pub(crate) final_stopped: u64,
}

/// Failures of a source that are neither final nor withheld, up to the bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retryable {
    /// Have spent their attempts.
    pub(crate) spent: u64,
    /// Have attempts left.
    pub(crate) open: u64,
    /// Of those with attempts left: too old for another.
    pub(crate) old: u64,
}

const COLUMNS: [(&str, Kind); 5] = [
    ("source_no", Kind::Int),
    ("attempts", Kind::Int),
    ("created", Kind::Int),
    ("first_scope", Kind::Int),
    ("last_scope", Kind::Int),
];

fn columns(sources: &[LimitedSource]) -> [Column<'_>; 5] {
    let scope = |source: &LimitedSource| Scope::of_source(source.source_no);
    [
        Column::ints(sources, |source| Some(source.source_no)),
        Column::ints(sources, |source| Some(source.limits.attempts.into())),
        Column::ints(sources, |source| Some(source.limits.created.micros())),
        Column::ints(sources, |source| Some(scope(source).number())),
        Column::ints(sources, |source| Some(scope(source).end_of_source().number())),
    ]
}

/// How many rows a range has, up to the bound.
pub(crate) fn counted(range: &str, most: u64) -> String {
    format!("(SELECT count(*) FROM (SELECT 1 FROM {range} LIMIT {most}) counted)")
}

/// The question for [`Ranges`], which is put to each source.
fn ranges_question(most: u64) -> String {
    let success = counted("partitions WHERE status = 'success' AND source_no = @source_no", most);
    let running = counted("partition_control WHERE active_run_id IS NOT NULL AND source_no = @source_no", most);
    let marked = counted(
        "partition_control WHERE terminal_at IS NOT NULL AND paused_at IS NULL AND source_no = @source_no",
        most,
    );
    let queued = Lane::ALL.iter().map(|lane| {
        let lane = lane.as_str();
        let range = format!(
            "partition_control
             WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL
                 AND lane = '{lane}' AND scope >= @first_scope AND scope <= @last_scope"
        );
        counted(&range, most)
    });
    let queued = queued.collect::<Vec<_>>().join(" + ");
    format!(
        "/* ranges::of_source */
         SELECT {success} AS success,
             (SELECT max(period) FROM partitions WHERE status = 'success' AND source_no = @source_no) AS newest,
             {queued} AS queued,
             {running} AS running,
             {marked} AS marked,
             paused.n AS paused,
             paused.failed AS paused_failed,
             final_errors.n AS final_errors,
             final_errors.stopped AS final_stopped
         FROM (
             SELECT count(*) AS n, CAST(coalesce(sum(CASE WHEN p.status = 'failed' THEN 1 ELSE 0 END), 0) AS BIGINT) AS failed
             FROM (
                 SELECT series_id, period
                 FROM partition_control
                 WHERE paused_at IS NOT NULL AND source_no = @source_no
                 LIMIT {most}) c
             CROSS JOIN partitions p
             WHERE p.series_id = c.series_id AND p.period = c.period) paused
         CROSS JOIN (
             SELECT count(*) AS n, CAST(coalesce(sum(
                 CASE WHEN f.spent >= @attempts OR f.created_at <= @created THEN 1 ELSE 0 END), 0) AS BIGINT) AS stopped
             FROM (
                 SELECT spent, created_at
                 FROM partitions
                 WHERE status = 'failed' AND held IS NULL AND error_class = 'final' AND source_no = @source_no
                 LIMIT {most}) f) final_errors"
    )
}

/// Counts the ranges of each source.
pub(crate) async fn ranges(tx: &mut Tx<'_>, sources: &[LimitedSource], most: u64) -> Result<Vec<Ranges>> {
    let (question, columns) = (ranges_question(most), columns(sources));
    let found = tx.built_lookup(&question, &COLUMNS, &columns, |nth, mut row| {
        let ranges = Ranges {
            success: row.count()?,
            newest: row.opt_int()?,
            queued: row.count::<u64>()?.min(most),
            running: row.count()?,
            marked: row.count()?,
            paused: row.count()?,
            paused_failed: row.count()?,
            final_errors: row.count()?,
            final_stopped: row.count()?,
        };
        Ok((nth, ranges))
    });
    found.await.map(in_order)
}

/// The answers to a question that has one for each row, in the order of the rows.
pub(crate) fn in_order<T>(mut answers: Vec<(usize, T)>) -> Vec<T> {
    answers.sort_by_key(|(nth, _)| *nth);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The question for [`Retryable`], which is put to each source.
fn retryable_question(most: u64) -> String {
    let failed = "partitions
                 WHERE status = 'failed' AND held IS NULL AND error_class <> 'final' AND source_no = @source_no";
    let spent = counted(&format!("{failed} AND spent >= @attempts"), most);
    format!(
        "/* ranges::retryable */
         SELECT {spent} AS spent, count(*) AS open,
             CAST(coalesce(sum(CASE WHEN f.created_at <= @created THEN 1 ELSE 0 END), 0) AS BIGINT) AS old
         FROM (SELECT created_at FROM {failed} AND spent < @attempts LIMIT {most}) f"
    )
}

/// Counts the failures of each source that are neither final nor withheld.
pub(crate) async fn retryable(tx: &mut Tx<'_>, sources: &[LimitedSource], most: u64) -> Result<Vec<Retryable>> {
    let (question, columns) = (retryable_question(most), columns(sources));
    let found = tx.built_lookup(&question, &COLUMNS[..3], &columns[..3], |nth, mut row| {
        Ok((nth, Retryable { spent: row.count()?, open: row.count()?, old: row.count()? }))
    });
    found.await.map(in_order)
}

/// Both questions, for a test that looks at their plans.
pub(crate) fn questions(dialect: Dialect) -> [String; 2] {
    let most = 10_001;
    [
        render_lookup(&ranges_question(most), &COLUMNS, dialect),
        render_lookup(&retryable_question(most), &COLUMNS[..3], dialect),
    ]
}
