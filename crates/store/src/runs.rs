//! The table of runs: submitting, claiming, and committing what became of them.

use std::collections::HashMap;

use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::run::{Change, Run, State, Workload};
use redrive_core::time::Timestamp;

use crate::db::{Batch, Column, Effect, Kind, Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::failures;

/// The columns that [`read`] expects.
macro_rules! run_columns {
    () => {
        "run_id, workload, category, subject, state, attempt, retry_count, submitted_at, next_retry_at, error_class, \
         error_message, error_traceback, task_id, worker, started_at, last_heartbeat, lease_until, completed_at, \
         verdict, metrics"
    };
}
pub(crate) use run_columns;

pub(crate) fn read(row: &Row<'_>) -> Result<Run> {
    let time = |nth| Ok::<_, Error>(row.opt_int(nth)?.map(Timestamp::from_micros));
    let count = |nth| row.int(nth)?.try_into().map_err(|error| Error::row("runs", error));
    Ok(Run {
        run_id: RunId::from_uuid(row.id(0)?),
        workload: row.word(1)?,
        category: row.text(2)?,
        subject: row.opt_text(3)?,
        state: row.word(4)?,
        attempt: count(5)?,
        retry_count: count(6)?,
        submitted_at: Timestamp::from_micros(row.int(7)?),
        next_retry_at: time(8)?,
        error_class: row.opt_word(9)?,
        error_message: row.opt_text(10)?,
        error_traceback: row.opt_text(11)?,
        task_id: row.opt_id(12)?.map(TaskId::from_uuid),
        worker: row.opt_text(13)?,
        started_at: time(14)?,
        last_heartbeat: time(15)?,
        lease_until: time(16)?,
        completed_at: time(17)?,
        verdict: row.opt_word(18)?,
        metrics: row.opt_text(19)?,
    })
}

/// A job to be done. Submitting one with an `external_id` that is there already gives the run it made then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    pub workload: Workload,
    pub category: String,
    pub subject: Option<String>,
    pub external_id: Option<String>,
    /// JSON, kept verbatim.
    pub payload: Option<String>,
    pub submitted_at: Timestamp,
    /// Waits for [`redrive_core::run::Event::Stored`] before anybody may claim it.
    pub awaits_input: bool,
}

impl NewRun {
    pub fn job(category: impl Into<String>, payload: Option<String>, submitted_at: Timestamp) -> Self {
        Self {
            workload: Workload::Process,
            category: category.into(),
            subject: None,
            external_id: None,
            payload,
            submitted_at,
            awaits_input: false,
        }
    }
}

/// The longest external id, which has to fit into an index.
const MAX_EXTERNAL_ID: usize = 1024;

impl NewRun {
    /// Refuses what one of the databases could not keep.
    pub(crate) fn check(&self) -> Result<()> {
        let texts = [
            ("category", Some(&self.category)),
            ("subject", self.subject.as_ref()),
            ("external id", self.external_id.as_ref()),
            ("payload", self.payload.as_ref()),
        ];
        for (what, text) in texts {
            if text.is_some_and(|text| text.contains('\0')) {
                return Err(Error::Input { what, why: "it holds a NUL character" });
            }
        }
        if self.external_id.as_ref().is_some_and(|id| id.len() > MAX_EXTERNAL_ID) {
            return Err(Error::Input { what: "external id", why: "it is longer than 1,024 bytes" });
        }
        Ok(())
    }
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    pub run_id: RunId,
    /// It was there already, by its external id.
    pub existing: bool,
}

pub(crate) static INSERT: Batch = Batch::new(
    "/* runs::insert */ INSERT INTO runs (run_id, workload, category, subject, external_id, payload, state, submitted_at) \
     {values @run_id, @workload, @category, @subject, @external_id, @payload, @state, @submitted_at} \
     ON CONFLICT DO NOTHING",
    &[
        ("run_id", Kind::Id),
        ("workload", Kind::Text),
        ("category", Kind::Text),
        ("subject", Kind::Text),
        ("external_id", Kind::Text),
        ("payload", Kind::Text),
        ("state", Kind::Text),
        ("submitted_at", Kind::Int),
    ],
    Effect::Inserted(&["run_id"]),
);

static BY_EXTERNAL_ID: Sql = Sql::new(
    "/* runs::by_external_id */ SELECT run_id FROM runs WHERE workload = ?1 AND category = ?2 AND external_id = ?3 \
     AND external_id IS NOT NULL",
);

pub(crate) async fn insert(tx: &mut Tx<'_>, runs: &[(RunId, NewRun)]) -> Result<Vec<Submitted>> {
    let columns = [
        Column::ids(runs, |(id, _)| Some(id.uuid())),
        Column::texts(runs, |(_, run)| Some(run.workload.as_str())),
        Column::texts(runs, |(_, run)| Some(run.category.as_str())),
        Column::texts(runs, |(_, run)| run.subject.as_deref()),
        Column::texts(runs, |(_, run)| run.external_id.as_deref()),
        Column::texts(runs, |(_, run)| run.payload.as_deref()),
        Column::texts(runs, |(_, run)| Some(if run.awaits_input { State::Waiting } else { State::Queued }.as_str())),
        Column::ints(runs, |(_, run)| Some(run.submitted_at.micros())),
    ];
    let new = tx.batch(&INSERT, &columns).await?;
    let mut submitted = Vec::with_capacity(runs.len());
    for ((run_id, run), new) in runs.iter().zip(new) {
        if new {
            submitted.push(Submitted { run_id: *run_id, existing: false });
            continue;
        }
        let params = [run.workload.as_str().into(), (&run.category).into(), run.external_id.as_ref().into()];
        let found = tx.row(&BY_EXTERNAL_ID, &params, |row| row.id(0)).await?;
        let found = found.ok_or_else(|| Error::Absent { what: "run", id: run_id.to_string() })?;
        submitted.push(Submitted { run_id: RunId::from_uuid(found), existing: true });
    }
    tx.notify().await?;
    Ok(submitted)
}

static GET: Sql = Sql::new(concat!("/* runs::get */ SELECT ", run_columns!(), " FROM runs WHERE run_id = ?1"));
static GET_LOCKED: Sql =
    Sql::new(concat!("/* runs::get_locked */ SELECT ", run_columns!(), " FROM runs WHERE run_id = ?1 {lock}"));

pub(crate) async fn get(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Run>> {
    tx.row(&GET, &[id.uuid().into()], read).await
}

pub(crate) async fn get_locked(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Run>> {
    tx.row(&GET_LOCKED, &[id.uuid().into()], read).await
}

/// The subject of an extraction: its partition's key as a JSON array, which no two keys share.
pub(crate) fn subject(key: &PartitionKey) -> String {
    let parts = [key.source.as_str(), key.customer_id.as_str(), key.query_name.as_str()];
    let date = key.logical_date.to_string();
    serde_json::json!([parts[0], parts[1], parts[2], date]).to_string()
}

/// The partition an extraction is about.
pub(crate) fn partition_of(run: &Run) -> Result<PartitionKey> {
    key_of(run.subject.as_deref().unwrap_or_default())
}

/// The key that a subject was made of.
pub(crate) fn key_of(text: &str) -> Result<PartitionKey> {
    let wrong = |error: &dyn std::fmt::Display| Error::row("runs", format!("subject {text:?} is no key: {error}"));
    let (source, customer, query, date): (String, String, String, String) =
        serde_json::from_str(text).map_err(|error| wrong(&error))?;
    PartitionKey::new(&source, &customer, &query, &date).map_err(|error| wrong(&error))
}

static OF_PARTITION: Sql = Sql::new(concat!(
    "/* runs::of_partition */ SELECT ",
    run_columns!(),
    " FROM runs WHERE workload = 'extract' AND subject = ?1 ORDER BY run_id"
));

/// Every attempt of a partition, oldest first.
pub(crate) async fn of_partition(tx: &mut Tx<'_>, key: &PartitionKey) -> Result<Vec<Run>> {
    tx.rows(&OF_PARTITION, &[subject(key).as_str().into()], read).await
}

/// How many partitions' attempts are asked for by one statement; each is a parameter of it.
const SUBJECTS: usize = 1000;

/// What there is of each of these subjects. The statement says `{subjects}` where they are to stand, and `make` gives
/// each row's own.
pub(crate) async fn by_subject<T>(
    tx: &mut Tx<'_>,
    sql: &str,
    subjects: &[String],
    make: impl Fn(&Row<'_>) -> Result<(String, T)>,
) -> Result<Vec<Vec<T>>> {
    let mut found: HashMap<String, Vec<T>> = HashMap::new();
    for some in subjects.chunks(SUBJECTS) {
        let marks: Vec<String> = (1..=some.len()).map(|nth| format!("?{nth}")).collect();
        let params: Vec<Param<'_>> = some.iter().map(Param::from).collect();
        let sql = sql.replace("{subjects}", &marks.join(", "));
        for (subject, row) in tx.built_rows(&sql, &params, &make).await? {
            found.entry(subject).or_default().push(row);
        }
    }
    Ok(subjects.iter().map(|subject| found.remove(subject).unwrap_or_default()).collect())
}

const OF_PARTITIONS: &str = concat!(
    "/* runs::of_partitions */ SELECT ",
    run_columns!(),
    " FROM runs WHERE workload = 'extract' AND subject IN ({subjects}) ORDER BY run_id"
);

/// Every attempt of each of these partitions, oldest first.
pub(crate) async fn of_partitions(tx: &mut Tx<'_>, keys: &[PartitionKey]) -> Result<Vec<Vec<Run>>> {
    let subjects: Vec<String> = keys.iter().map(subject).collect();
    by_subject(tx, OF_PARTITIONS, &subjects, |row| read(row).map(|run| (run.subject.clone().unwrap_or_default(), run)))
        .await
}

static INSERT_ATTEMPTS: Batch = Batch::new(
    "/* runs::insert_attempts */ INSERT INTO runs (run_id, workload, category, subject, state, attempt, submitted_at, \
     task_id, worker, started_at, last_heartbeat, lease_until) {values @run_id, 'extract', '', @subject, 'running', \
     @attempt, @submitted_at, @task_id, @worker, @started_at, @started_at, @lease_until}",
    &[
        ("run_id", Kind::Id),
        ("subject", Kind::Text),
        ("attempt", Kind::Int),
        ("submitted_at", Kind::Int),
        ("task_id", Kind::Id),
        ("worker", Kind::Text),
        ("started_at", Kind::Int),
        ("lease_until", Kind::Int),
    ],
    Effect::All,
);

/// The runs of claimed partitions, which begin as running.
pub(crate) async fn insert_attempts(tx: &mut Tx<'_>, runs: &[Run]) -> Result<()> {
    let columns = [
        Column::ids(runs, |run| Some(run.run_id.uuid())),
        Column::texts(runs, |run| run.subject.as_deref()),
        Column::ints(runs, |run| Some(i64::from(run.attempt))),
        Column::ints(runs, |run| Some(run.submitted_at.micros())),
        Column::ids(runs, |run| run.task_id.map(TaskId::uuid)),
        Column::texts(runs, |run| run.worker.as_deref()),
        Column::ints(runs, |run| run.started_at.map(Timestamp::micros)),
        Column::ints(runs, |run| run.lease_until.map(Timestamp::micros)),
    ];
    tx.batch(&INSERT_ATTEMPTS, &columns).await.map(drop)
}

pub(crate) static UPDATE: Batch = Batch::new(
    "/* runs::write */ UPDATE runs SET state = @state, attempt = @attempt, retry_count = @retry_count, \
     next_retry_at = @next_retry_at, error_class = @error_class, error_message = @error_message, \
     error_traceback = @error_traceback, task_id = @task_id, worker = @worker, started_at = @started_at, \
     last_heartbeat = @last_heartbeat, lease_until = @lease_until, completed_at = @completed_at, verdict = @verdict, \
     metrics = @metrics {from} WHERE run_id = @run_id AND state = @expect_state \
     AND task_id IS NOT DISTINCT FROM @expect_task",
    &[
        ("run_id", Kind::Id),
        ("expect_state", Kind::Text),
        ("expect_task", Kind::Id),
        ("state", Kind::Text),
        ("attempt", Kind::Int),
        ("retry_count", Kind::Int),
        ("next_retry_at", Kind::Int),
        ("error_class", Kind::Text),
        ("error_message", Kind::Text),
        ("error_traceback", Kind::Text),
        ("task_id", Kind::Id),
        ("worker", Kind::Text),
        ("started_at", Kind::Int),
        ("last_heartbeat", Kind::Int),
        ("lease_until", Kind::Int),
        ("completed_at", Kind::Int),
        ("verdict", Kind::Text),
        ("metrics", Kind::Text),
    ],
    Effect::Row,
);

/// Writes changes whose run is still as it was, with their failures; says of each whether it was.
pub(crate) async fn write(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<bool>> {
    let columns = [
        Column::ids(changes, |change| Some(change.after.run_id.uuid())),
        Column::texts(changes, |change| Some(change.expect_state.as_str())),
        Column::ids(changes, |change| change.expect_task.map(TaskId::uuid)),
        Column::texts(changes, |change| Some(change.after.state.as_str())),
        Column::ints(changes, |change| Some(i64::from(change.after.attempt))),
        Column::ints(changes, |change| Some(i64::from(change.after.retry_count))),
        Column::ints(changes, |change| change.after.next_retry_at.map(Timestamp::micros)),
        Column::texts(changes, |change| change.after.error_class.map(|class| class.as_str())),
        Column::texts(changes, |change| change.after.error_message.as_deref()),
        Column::texts(changes, |change| change.after.error_traceback.as_deref()),
        Column::ids(changes, |change| change.after.task_id.map(TaskId::uuid)),
        Column::texts(changes, |change| change.after.worker.as_deref()),
        Column::ints(changes, |change| change.after.started_at.map(Timestamp::micros)),
        Column::ints(changes, |change| change.after.last_heartbeat.map(Timestamp::micros)),
        Column::ints(changes, |change| change.after.lease_until.map(Timestamp::micros)),
        Column::ints(changes, |change| change.after.completed_at.map(Timestamp::micros)),
        Column::texts(changes, |change| change.after.verdict.map(|verdict| verdict.as_str())),
        Column::texts(changes, |change| change.after.metrics.as_deref()),
    ];
    let took = tx.batch(&UPDATE, &columns).await?;
    let failed: Vec<_> = changes
        .iter()
        .zip(&took)
        .filter(|(_, took)| **took)
        .filter_map(|(change, _)| change.failure.as_ref().map(|failure| (&change.after, failure)))
        .collect();
    failures::insert(tx, &failed).await?;
    if changes.iter().zip(&took).any(|(change, took)| *took && change.after.state == State::Queued) {
        tx.notify().await?;
    }
    Ok(took)
}

/// Which runs a listing means.
#[derive(Debug, Clone, Default)]
pub struct RunPage {
    pub workload: Option<Workload>,
    pub category: Option<String>,
    pub state: Option<State>,
    /// Newest first; the last one seen.
    pub before: Option<RunId>,
    pub limit: u32,
}

pub(crate) async fn page(tx: &mut Tx<'_>, page: &RunPage) -> Result<Vec<Run>> {
    let mut conditions = Vec::new();
    let mut params: Vec<Param<'_>> = Vec::new();
    let mut add = |text: &str, param| {
        params.push(param);
        conditions.push(format!("{text} ?{}", params.len()));
    };
    if let Some(workload) = page.workload {
        add("workload =", workload.as_str().into());
    }
    if let Some(category) = &page.category {
        add("category =", category.into());
    }
    if let Some(state) = page.state {
        add("state =", state.as_str().into());
    }
    if let Some(before) = page.before {
        add("run_id <", before.uuid().into());
    }
    let filter = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    let sql = format!(
        concat!("/* runs::page */ SELECT ", run_columns!(), " FROM runs {} ORDER BY run_id DESC LIMIT {}"),
        filter, page.limit
    );
    tx.built_rows(&sql, &params, read).await
}
