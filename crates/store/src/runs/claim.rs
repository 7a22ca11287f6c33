//! Claiming runs: oldest submission first, new runs and due retries together, only the categories asked for.
//!
//! What has come due is queued first (`promote`). A claim then takes the oldest from `run_queue` (`Event::Claimed`); how many come from
//! each category is decided by a look at their oldest, so that age decides across categories too. It never looks at what has ended.
//! What was taken goes to `run_claims`, but many jobs that were never claimed before go to bundles (`bundle`).
//!
//! The move stands here twice. PostgreSQL does it with one statement, which picks rows that no other transaction holds;
//! SQLite knows no statement that moves rows, and needs none that picks, because it has one writer.

use std::time::Duration;

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Run, State, Work, Workload};
use redrive_core::share;
use redrive_core::time::Timestamp;

use super::bundle;
use super::counted;
use super::limit::{InFlightLimit, room};
use super::promote::promote;
use super::row::{opt_count, span};
use crate::db::{Cursor, Dialect, Param, Sql, Tx};
use crate::error::Result;
use crate::handles::{DataStore, transact};

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct RunClaim {
    pub workload: Workload,
    /// Only these; none means all.
    pub categories: Option<Vec<String>>,
    /// No more than can be started now.
    pub limit: u32,
    pub max_in_flight: Option<InFlightLimit>,
    pub worker: String,
    pub lease: Duration,
}

impl RunClaim {
    /// A claim of runs of any category, without a limit but its own.
    pub fn new(workload: Workload, worker: impl Into<String>, limit: u32, lease: Duration) -> Self {
        Self { workload, categories: None, limit, max_in_flight: None, worker: worker.into(), lease }
    }
}

/// A run that was claimed, with its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRun {
    pub run: Run,
    pub payload: Option<String>,
}

impl DataStore {
    /// Claims runs, oldest first.
    pub async fn claim_runs(&self, asked: RunClaim) -> Result<Vec<ClaimedRun>> {
        let (workload, task_id) = (asked.workload, self.inner.ids.task(self.inner.now()));
        let claimed = transact!(self.inner, "claim runs", |tx, asked| {
            claim(tx, &asked, Rows::Bundled, task_id, tx.now()).await
        });
        self.recalled(claimed, workload, task_id).await
    }
}

/// The categories that have something queued, one step down the index for each.
pub(super) static CATEGORIES: Sql = Sql::new(
    "/* runs::categories */
     WITH RECURSIVE found(category) AS (
         SELECT min(category)
         FROM run_queue
         WHERE workload = ?1
         UNION ALL
         SELECT (
             SELECT min(q.category)
             FROM run_queue q
             WHERE q.workload = ?1
               AND q.category > found.category
         )
         FROM found
         WHERE found.category IS NOT NULL
     )
     SELECT category
     FROM found
     WHERE category IS NOT NULL",
);

static OLDEST: Sql = Sql::new(
    "/* runs::oldest */
     SELECT run_id
     FROM run_queue
     WHERE workload = ?1
       AND category = ?2
     ORDER BY run_id
     LIMIT CAST(?3 AS BIGINT)",
);

/// What [`read_claimed`] expects of a run that is queued.
macro_rules! claimed_columns {
    ($queue:literal) => {
        concat!(
            "s.run_id, s.submitted_at, s.not_before, s.max_attempts, s.subject, s.external_id, s.payload, ",
            $queue,
            ".version, ",
            $queue,
            ".attempt, ",
            $queue,
            ".retry_count, ",
            $queue,
            ".rate_limit_waited, ",
            $queue,
            ".error_class, ",
            $queue,
            ".error_message, ",
            $queue,
            ".error_traceback, ",
            $queue,
            ".metrics"
        )
    };
}

/// What a claim makes of a row of the queue.
macro_rules! claim_columns {
    () => {
        "workload, category, run_id, lease_until, version, attempt, retry_count, rate_limit_waited, started_at,
         last_heartbeat, task_id, error_class, error_message, error_traceback, worker, metrics"
    };
}
macro_rules! claim_values {
    () => {
        "workload, category, run_id, CAST(?7 AS BIGINT), version + 1, attempt + 1, retry_count, rate_limit_waited,
         CAST(?6 AS BIGINT), CAST(?6 AS BIGINT), ?4, error_class, error_message, error_traceback, ?5, metrics"
    };
}

/// Where there are at least so many (?8) that were never claimed before, those get no rows here: they go to bundles.
pub(crate) const START_ON_POSTGRES: &str = concat!(
    "/* runs::start */
     WITH picked AS MATERIALIZED (
         SELECT ctid
         FROM run_queue
         WHERE workload = ?1
           AND category = ?2
         ORDER BY run_id
         LIMIT CAST(?3 AS BIGINT)
         FOR UPDATE SKIP LOCKED
     ), gone AS (
         DELETE FROM run_queue
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
         RETURNING *
     ), started AS (
         INSERT INTO run_claims (",
    claim_columns!(),
    ")
         SELECT ",
    claim_values!(),
    "
         FROM gone
         WHERE version > 1
            OR (SELECT count(*) FROM gone WHERE version = 1) < CAST(?8 AS BIGINT)
     )
     SELECT ",
    claimed_columns!("gone"),
    "
     FROM gone
     JOIN run_specs s ON s.run_id = gone.run_id"
);
static START: Sql = Sql::new(START_ON_POSTGRES);

pub(crate) const NEXT_ON_SQLITE: &str = concat!(
    "/* runs::next */
     SELECT ",
    claimed_columns!("q"),
    "
     FROM run_queue q
     CROSS JOIN run_specs s
     WHERE q.workload = ?1
       AND q.category = ?2
       AND s.run_id = q.run_id
     ORDER BY q.run_id
     LIMIT ?3"
);
static NEXT: Sql = Sql::new(NEXT_ON_SQLITE);

/// Of the runs up to the last that was picked; where the first claims among them go to bundles, only of those of a higher version.
static BEGIN: Sql = Sql::new(concat!(
    "/* runs::begin */
     INSERT OR FAIL INTO run_claims (",
    claim_columns!(),
    ")
     SELECT ",
    claim_values!(),
    "
     FROM run_queue
     WHERE workload = ?1
       AND category = ?2
       AND run_id <= ?3
       AND version > ?8"
));

pub(crate) const LEAVE_ON_SQLITE: &str = "/* runs::leave_queue */
     DELETE FROM run_queue
     WHERE workload = ?1
       AND category = ?2
       AND run_id <= ?3";
static LEAVE: Sql = Sql::new(LEAVE_ON_SQLITE);

/// Where [`START_ON_POSTGRES`] and [`NEXT_ON_SQLITE`] answer the payload.
pub(crate) const PAYLOAD_COLUMN: usize = 6;

/// How a claim holds jobs that were never claimed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// In bundles, where they are many.
    Bundled,
    /// Each in a row of its own, which has room for what outside workers say.
    Single,
}

/// A claim that is about to take runs of one category.
struct Start<'a> {
    asked: &'a RunClaim,
    rows: Rows,
    category: &'a str,
    limit: u32,
    task_id: TaskId,
    now: Timestamp,
    lease_until: Timestamp,
}

impl Start<'_> {
    /// From how many on jobs that were never claimed before go to bundles.
    fn fewest_bundled(&self) -> usize {
        match (self.rows, self.asked.workload) {
            (Rows::Bundled, Workload::Process) => bundle::FEWEST,
            (Rows::Single, _) | (_, Workload::Extract | Workload::Ingest) => usize::MAX,
        }
    }

    /// The parameters of a statement that picks or moves; `which` says how many runs, or which is the last, and `bundled` which of
    /// them go to bundles.
    fn params<'p>(&'p self, which: Param<'p>, bundled: i64) -> [Param<'p>; 8] {
        [
            self.asked.workload.as_str().into(),
            self.category.into(),
            which,
            self.task_id.uuid().into(),
            (&self.asked.worker).into(),
            self.now.micros().into(),
            self.lease_until.micros().into(),
            bundled.into(),
        ]
    }

    async fn take(&self, tx: &mut Tx<'_>) -> Result<Vec<ClaimedRun>> {
        let (limit, fewest) = (i64::from(self.limit).into(), self.fewest_bundled());
        let mut claimed = match tx.dialect() {
            Dialect::Postgres => {
                let params = self.params(limit, i64::try_from(fewest).unwrap_or(i64::MAX));
                tx.rows(&START, &params, |row| self.read(row.cursor())).await?
            }
            Dialect::Sqlite => tx.rows(&NEXT, &self.params(limit, 0)[..3], |row| self.read(row.cursor())).await?,
        };
        claimed.sort_unstable_by_key(|claimed| claimed.run.run_id);
        let first_time: Vec<&Run> = claimed.iter().map(|claimed| &claimed.run).filter(bundle::is_first_claim).collect();
        let is_bundled = first_time.len() >= fewest;
        if let (Dialect::Sqlite, Some(last)) = (tx.dialect(), claimed.last()) {
            let params = self.params(last.run.run_id.uuid().into(), i64::from(is_bundled));
            if !is_bundled || first_time.len() < claimed.len() {
                tx.execute(&BEGIN, &params).await?;
            }
            tx.execute(&LEAVE, &params[..3]).await?;
        }
        if is_bundled {
            bundle::put(tx, &first_time).await?;
        }
        Ok(claimed)
    }

    /// Reads a run as this claim leaves it.
    fn read(&self, mut row: Cursor<'_>) -> Result<ClaimedRun> {
        let run_id = RunId::from_uuid(row.id()?);
        let (submitted_at, not_before, max_attempts) = (row.time()?, row.opt_time()?, opt_count(&mut row)?);
        let (subject, external_id, payload) = (row.opt_text()?, row.opt_text()?, row.opt_text()?);
        let work = match self.asked.workload {
            Workload::Process => Work::Process { category: self.category.to_owned(), external_id },
            // An extraction is never queued.
            Workload::Ingest | Workload::Extract => Work::Ingest { upload: subject.unwrap_or_default() },
        };
        let run = Run {
            not_before,
            max_attempts,
            version: row.count::<u64>()?.saturating_add(1),
            attempt: row.count::<u32>()?.saturating_add(1),
            retry_count: row.count()?,
            rate_limit_waited: span(&mut row)?,
            error_class: row.opt_word()?,
            error_message: row.opt_text()?,
            error_traceback: row.opt_text()?,
            metrics: row.opt_text()?,
            task_id: Some(self.task_id),
            worker: Some(self.asked.worker.clone()),
            started_at: Some(self.now),
            last_heartbeat: Some(self.now),
            lease_until: Some(self.lease_until),
            ..Run::new(run_id, work, State::Running, submitted_at)
        };
        Ok(ClaimedRun { run, payload })
    }
}

pub(super) async fn claim(
    tx: &mut Tx<'_>,
    asked: &RunClaim,
    rows: Rows,
    task_id: TaskId,
    now: Timestamp,
) -> Result<Vec<ClaimedRun>> {
    promote(tx, asked, now).await?;
    let limit = room(tx, asked).await?;
    let (mut claimed, lease_until) = (Vec::new(), tx.lease_from().saturating_add(asked.lease));
    for (category, limit) in shares(tx, asked, limit).await? {
        claimed.extend(Start { asked, rows, category: &category, limit, task_id, now, lease_until }.take(tx).await?);
    }
    claimed.sort_by_key(|claimed| claimed.run.run_id);
    claimed.iter().filter_map(|claimed| counted::of_claim(&claimed.run, now)).for_each(|event| tx.count(event));
    Ok(claimed)
}

/// How many runs are to be started of each category.
async fn shares(tx: &mut Tx<'_>, asked: &RunClaim, limit: u32) -> Result<Vec<(String, u32)>> {
    let workload = asked.workload.as_str();
    if limit == 0 {
        return Ok(vec![]);
    }
    let mut categories = match &asked.categories {
        Some(categories) => categories.clone(),
        None => tx.rows(&CATEGORIES, &[workload.into()], |row| row.text(0)).await?,
    };
    categories.sort_unstable();
    categories.dedup();
    if categories.len() <= 1 {
        return Ok(categories.into_iter().map(|category| (category, limit)).collect());
    }
    let mut queues = Vec::with_capacity(categories.len());
    for category in &categories {
        let params = [workload.into(), category.into(), i64::from(limit).into()];
        queues.push(tx.rows(&OLDEST, &params, |row| row.id(0)).await?);
    }
    let shares = share::by_age(&queues, limit);
    Ok(categories.into_iter().zip(shares).filter(|(_, share)| *share > 0).collect())
}
