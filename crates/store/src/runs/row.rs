//! A run in its table: the columns, what they say about its work, and reading one.

use std::borrow::Cow;

use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::run::{Run, Work, Workload};
use redrive_core::time::Timestamp;

use crate::db::{Row, Sql, Tx};
use crate::error::{Error, Result};

/// The columns that [`read`] expects.
macro_rules! run_columns {
    () => {
        "run_id, workload, category, subject, external_id, state, attempt, retry_count, submitted_at, next_retry_at, \
         error_class, error_message, error_traceback, task_id, worker, started_at, last_heartbeat, lease_until, \
         completed_at, ended_by, verdict, metrics"
    };
}
pub(crate) use run_columns;

/// How many columns [`read`] expects.
pub(crate) const READ_COLUMNS: usize = 22;

pub(super) fn read(row: &Row<'_>) -> Result<Run> {
    let mut columns = 0..READ_COLUMNS;
    let mut next = || columns.next().unwrap_or(READ_COLUMNS);
    let time = |nth| Ok::<_, Error>(row.opt_int(nth)?.map(Timestamp::from_micros));
    let count = |nth| row.int(nth)?.try_into().map_err(|error| Error::row("runs", error));
    Ok(Run {
        run_id: RunId::from_uuid(row.id(next())?),
        work: read_work(row, [next(), next(), next(), next()])?,
        state: row.word(next())?,
        attempt: count(next())?,
        retry_count: count(next())?,
        submitted_at: Timestamp::from_micros(row.int(next())?),
        next_retry_at: time(next())?,
        error_class: row.opt_word(next())?,
        error_message: row.opt_text(next())?,
        error_traceback: row.opt_text(next())?,
        task_id: row.opt_id(next())?.map(TaskId::from_uuid),
        worker: row.opt_text(next())?,
        started_at: time(next())?,
        last_heartbeat: time(next())?,
        lease_until: time(next())?,
        completed_at: time(next())?,
        ended_by: row.opt_word(next())?,
        verdict: row.opt_word(next())?,
        metrics: row.opt_text(next())?,
    })
}

fn read_work(row: &Row<'_>, [workload, category, subject, external_id]: [usize; 4]) -> Result<Work> {
    let subject = || row.opt_text(subject).map(Option::unwrap_or_default);
    Ok(match row.word(workload)? {
        Workload::Extract => Work::Extract(key_of(&subject()?)?),
        Workload::Ingest => Work::Ingest { upload: subject()? },
        Workload::Process => Work::Process { category: row.text(category)?, external_id: row.opt_text(external_id)? },
    })
}

/// A run's work as its columns keep it.
#[derive(Debug)]
pub(super) struct WorkColumns<'a> {
    pub(super) workload: &'static str,
    pub(super) category: &'a str,
    pub(super) subject: Option<Cow<'a, str>>,
    pub(super) external_id: Option<&'a str>,
}

impl<'a> WorkColumns<'a> {
    pub(super) fn of(work: &'a Work) -> Self {
        let subject = match work {
            Work::Extract(key) => Some(Cow::Owned(subject(key))),
            Work::Ingest { upload } => Some(Cow::Borrowed(upload.as_str())),
            Work::Process { .. } => None,
        };
        let workload = work.workload().as_str();
        Self { workload, category: work.category(), subject, external_id: work.external_id() }
    }
}

/// The subject of an extraction: its partition's key as a JSON array, which no two keys share.
pub(super) fn subject(key: &PartitionKey) -> String {
    let date = key.logical_date.to_string();
    serde_json::json!([key.source.as_str(), key.customer_id.as_str(), key.query_name.as_str(), date]).to_string()
}

/// The key that a subject was made of.
pub(super) fn key_of(text: &str) -> Result<PartitionKey> {
    let wrong = |error: &dyn std::fmt::Display| Error::row("runs", format!("subject {text:?} is no key: {error}"));
    let (source, customer, query, date): (String, String, String, String) =
        serde_json::from_str(text).map_err(|error| wrong(&error))?;
    PartitionKey::new(&source, &customer, &query, &date).map_err(|error| wrong(&error))
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
