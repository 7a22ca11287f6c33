//! How a run lies in its tables: what never changes in `run_specs`, where it stands in one of four others, and reading both as
//! one from the view `runs`.

use std::time::Duration;

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Run, Work, Workload};
use redrive_core::time::{Timestamp, whole_micros};

use crate::db::columns::{Field, Named, columns, join, named};
use crate::db::{Column, Cursor, Kind, Lookup, Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::partitions::{KEY_COLUMNS, read_key};

/// Where a run's row lies, whichever table it is in.
pub(super) const PLACE: [Field<Run>; 3] = [
    Field::text("workload", |run| run.workload().as_str().into()),
    Field::text("category", |run| run.work.category().into()),
    Field::id("run_id", |run| run.run_id.uuid().into()),
];
pub(super) const PLACE_NAMES: [Named; 3] = named(&PLACE);

/// How far a run has come: columns that each of the four tables has.
pub(super) const PROGRESS: [Field<Run>; 13] = [
    Field::int("version", |run| i64::try_from(run.version).unwrap_or(i64::MAX).into()),
    Field::int("attempt", |run| i64::from(run.attempt).into()),
    Field::int("retry_count", |run| i64::from(run.retry_count).into()),
    Field::int("rate_limit_waited", |run| whole_micros(run.rate_limit_waited).into()),
    Field::int("next_retry_at", |run| run.next_retry_at.map(Timestamp::micros).into()),
    Field::int("started_at", |run| run.started_at.map(Timestamp::micros).into()),
    Field::int("last_heartbeat", |run| run.last_heartbeat.map(Timestamp::micros).into()),
    Field::id("task_id", |run| run.task_id.map(TaskId::uuid).into()),
    Field::text("error_class", |run| run.error_class.map(|class| class.as_str()).into()),
    Field::text("error_message", |run| run.error_message.as_deref().into()),
    Field::text("error_traceback", |run| run.error_traceback.as_deref().into()),
    Field::text("worker", |run| run.worker.as_deref().into()),
    Field::text("metrics", |run| run.metrics.as_deref().into()),
];
pub(super) const STANDING_NAMES: [Named; 16] = join(PLACE_NAMES, named(&PROGRESS));

/// The names of [`PROGRESS`], for a statement that moves rows from one table to another.
macro_rules! progress {
    () => {
        "version, attempt, retry_count, rate_limit_waited, next_retry_at, started_at, last_heartbeat, task_id,
         error_class, error_message, error_traceback, worker, metrics"
    };
}
pub(super) use progress;

/// The columns that [`read`] expects, of the view `runs`.
macro_rules! run_columns {
    () => {
        "run_id, workload, category, subject, external_id,
         (SELECT source FROM series WHERE series.series_id = runs.series_id),
         (SELECT customer_id FROM series WHERE series.series_id = runs.series_id),
         (SELECT query_name FROM series WHERE series.series_id = runs.series_id),
         period, submitted_at, not_before, max_attempts, state, version, attempt, retry_count, rate_limit_waited,
         next_retry_at, started_at, last_heartbeat, task_id, error_class, error_message, error_traceback, worker,
         metrics, lease_until, awaits_ack, completed_at, ended_by, verdict"
    };
}
pub(super) use run_columns;

pub(super) fn read(row: &Row<'_>) -> Result<Run> {
    read_from(&mut row.cursor())
}

pub(super) fn read_from(row: &mut Cursor<'_>) -> Result<Run> {
    Ok(Run {
        run_id: RunId::from_uuid(row.id()?),
        work: read_work(row)?,
        submitted_at: row.time()?,
        not_before: row.opt_time()?,
        max_attempts: opt_count(row)?,
        state: row.word()?,
        version: row.count()?,
        attempt: row.count()?,
        retry_count: row.count()?,
        rate_limit_waited: span(row)?,
        next_retry_at: row.opt_time()?,
        started_at: row.opt_time()?,
        last_heartbeat: row.opt_time()?,
        task_id: row.opt_id()?.map(TaskId::from_uuid),
        error_class: row.opt_word()?,
        error_message: row.opt_text()?,
        error_traceback: row.opt_text()?,
        worker: row.opt_text()?,
        metrics: row.opt_text()?,
        lease_until: row.opt_time()?,
        awaits_ack: row.int()? != 0,
        completed_at: row.opt_time()?,
        ended_by: row.opt_word()?,
        verdict: row.opt_word()?,
    })
}

pub(super) fn opt_count(row: &mut Cursor<'_>) -> Result<Option<u32>> {
    row.opt_int()?.map(u32::try_from).transpose().map_err(|error| Error::row("runs", error))
}

pub(super) fn span(row: &mut Cursor<'_>) -> Result<Duration> {
    row.count().map(Duration::from_micros)
}

fn read_work(row: &mut Cursor<'_>) -> Result<Work> {
    let workload = row.word()?;
    let (category, subject, external_id) = (row.text()?, row.opt_text()?, row.opt_text()?);
    Ok(match workload {
        Workload::Extract => Work::Extract(read_key(row)?),
        Workload::Ingest => {
            row.skip(KEY_COLUMNS);
            Work::Ingest { upload: upload(subject)? }
        }
        Workload::Process => {
            row.skip(KEY_COLUMNS);
            Work::Process { category, external_id }
        }
    })
}

/// The name of an upload, which every ingestion has.
pub(super) fn upload(subject: Option<String>) -> Result<String> {
    subject.ok_or_else(|| Error::row("runs", "an ingestion without the name of its upload"))
}

/// The values of some runs in their standing's columns.
pub(super) fn standing_columns<'r>(runs: &[&'r Run]) -> Vec<Column<'r>> {
    let mut values = columns(&PLACE, runs);
    values.extend(columns(&PROGRESS, runs));
    values
}

static GET: Sql = Sql::new(concat!(
    "/* runs::get */
     SELECT ",
    run_columns!(),
    "
     FROM runs
     WHERE run_id = ?1"
));

pub(super) async fn get(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Run>> {
    tx.row(&GET, &[id.uuid().into()], read).await
}

static GET_MANY: Lookup = Lookup::new(
    concat!(
        "/* runs::get_many */
     SELECT ",
        run_columns!(),
        "
     FROM runs
     WHERE run_id = @run_id"
    ),
    &[("run_id", Kind::Id)],
);

/// Reads runs by their ids, in the order of the ids; those that are not there are left out.
pub(super) async fn get_many(tx: &mut Tx<'_>, ids: &[RunId]) -> Result<Vec<Run>> {
    let values = [Column::ids(ids, |id| Some(id.uuid()))];
    let mut found = tx.lookup(&GET_MANY, &values, |mut row| read_from(&mut row)).await?;
    found.sort_by_key(|(nth, _)| *nth);
    Ok(found.into_iter().map(|(_, run)| run).collect())
}

static LOCK_CLAIM: Sql = Sql::new(
    "/* runs::lock_claim */
     SELECT task_id
     FROM run_claims
     WHERE workload = ?1
       AND category = ?2
       AND run_id = ?3
     {lock}",
);

/// Reads a run. While it runs nobody else ends its claim until this transaction is over.
pub(super) async fn get_locked(tx: &mut Tx<'_>, work: (Workload, &str), id: RunId) -> Result<Option<Run>> {
    let place: [Param<'_>; 3] = [work.0.as_str().into(), work.1.into(), id.uuid().into()];
    tx.rows(&LOCK_CLAIM, &place, |_| Ok(())).await?;
    get(tx, id).await
}
