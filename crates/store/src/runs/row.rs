//! A run in its table: the columns, what they say about its work, and reading one.

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Run, Work, Workload};

use crate::db::{Cursor, Row, Sql, Tx};
use crate::error::Result;
use crate::partitions::{KEY_COLUMNS, read_key};

/// The columns that [`read`] expects. Runs that come from a queue have no partition, and none is looked up for them.
macro_rules! run_columns {
    () => {
        run_columns!(
            of "(SELECT source FROM series WHERE series.series_id = runs.series_id),
         (SELECT customer_id FROM series WHERE series.series_id = runs.series_id),
         (SELECT query_name FROM series WHERE series.series_id = runs.series_id), period"
        )
    };
    (queued) => {
        run_columns!(of "NULL, NULL, NULL, NULL")
    };
    (of $key:literal) => {
        concat!(
            "run_id, workload, category, subject, external_id, ",
            $key,
            ", state, attempt, retry_count, submitted_at, next_retry_at, error_class, error_message,
         error_traceback, task_id, worker, started_at, last_heartbeat, lease_until, completed_at, ended_by, verdict,
         metrics"
        )
    };
}
pub(crate) use run_columns;

/// How many columns [`read`] expects.
pub(crate) const READ_COLUMNS: usize = 22 + KEY_COLUMNS;

pub(super) fn read(row: &Row<'_>) -> Result<Run> {
    read_from(&mut row.cursor())
}

pub(super) fn read_from(row: &mut Cursor<'_>) -> Result<Run> {
    Ok(Run {
        run_id: RunId::from_uuid(row.id()?),
        work: read_work(row)?,
        state: row.word()?,
        attempt: row.count()?,
        retry_count: row.count()?,
        submitted_at: row.time()?,
        next_retry_at: row.opt_time()?,
        error_class: row.opt_word()?,
        error_message: row.opt_text()?,
        error_traceback: row.opt_text()?,
        task_id: row.opt_id()?.map(TaskId::from_uuid),
        worker: row.opt_text()?,
        started_at: row.opt_time()?,
        last_heartbeat: row.opt_time()?,
        lease_until: row.opt_time()?,
        completed_at: row.opt_time()?,
        ended_by: row.opt_word()?,
        verdict: row.opt_word()?,
        metrics: row.opt_text()?,
    })
}

fn read_work(row: &mut Cursor<'_>) -> Result<Work> {
    let workload = row.word()?;
    let (category, subject, external_id) = (row.text()?, row.opt_text()?, row.opt_text()?);
    Ok(match workload {
        Workload::Extract => Work::Extract(read_key(row)?),
        Workload::Ingest => {
            row.skip(KEY_COLUMNS);
            Work::Ingest { upload: subject.unwrap_or_default() }
        }
        Workload::Process => {
            row.skip(KEY_COLUMNS);
            Work::Process { category, external_id }
        }
    })
}

/// The work of a run that is submitted to a queue, as its columns keep it.
#[derive(Debug)]
pub(super) struct WorkColumns<'a> {
    pub(super) workload: &'static str,
    pub(super) category: &'a str,
    pub(super) subject: Option<&'a str>,
    pub(super) external_id: Option<&'a str>,
}

impl<'a> WorkColumns<'a> {
    pub(super) fn of(work: &'a Work) -> Self {
        let subject = match work {
            Work::Ingest { upload } => Some(upload.as_str()),
            Work::Extract(_) | Work::Process { .. } => None,
        };
        let workload = work.workload().as_str();
        Self { workload, category: work.category(), subject, external_id: work.external_id() }
    }
}

static GET: Sql = Sql::new(concat!(
    "/* runs::get */
     SELECT ",
    run_columns!(),
    "
     FROM runs
     WHERE run_id = ?1"
));

static GET_LOCKED: Sql = Sql::new(concat!(
    "/* runs::get_locked */
     SELECT ",
    run_columns!(),
    "
     FROM runs
     WHERE run_id = ?1
     {lock}"
));

pub(super) async fn get(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Run>> {
    tx.row(&GET, &[id.uuid().into()], read).await
}

pub(super) async fn get_locked(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Run>> {
    tx.row(&GET_LOCKED, &[id.uuid().into()], read).await
}
