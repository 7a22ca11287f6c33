//! Claiming runs: oldest submission first, new runs and due retries together, only the categories asked for.
//!
//! What has come due is queued first (`promote`). A claim then takes the oldest from `run_queue` (`Event::Claimed`); how many come from
//! each category is decided by a look at their oldest, so that age decides across categories too. It never looks at what has ended.
//! What was taken goes to `run_claims`, but many jobs that were never claimed before go to bundles (`bundle`).
//!
//! Taking rows stands here twice. PostgreSQL picks rows that no other transaction holds, and is asked for their specs afterwards;
//! SQLite has one writer, and reads both at once before it removes the rows.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Run, State, Work, Workload};
use redrive_core::share;
use redrive_core::time::Timestamp;

use super::bundle;
use super::counted;
use super::limit::{InFlightLimit, room};
use super::promote::promote;
use super::row::{span, upload};
use super::specs::{self, Spec, Wanted, spec_columns};
use super::standing;
use crate::db::{Cursor, Dialect, Param, Sql, Tx};
use crate::error::{Error, Result};
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

/// The first categories that have something queued, one step down the index for each.
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
     WHERE category IS NOT NULL
     LIMIT CAST(?2 AS BIGINT)",
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

/// What [`Past::read`] expects.
macro_rules! past_columns {
    () => {
        "version, attempt, retry_count, rate_limit_waited, error_class, error_message, error_traceback, metrics"
    };
}

pub(crate) const TAKE_ON_POSTGRES: &str = concat!(
    "/* runs::take_oldest */
     WITH picked AS MATERIALIZED (
         SELECT ctid
         FROM run_queue
         WHERE workload = ?1
           AND category = ?2
         ORDER BY run_id
         LIMIT CAST(?3 AS BIGINT)
         FOR UPDATE SKIP LOCKED
     )
     DELETE FROM run_queue
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
     RETURNING run_id, ",
    past_columns!()
);
static TAKE: Sql = Sql::new(TAKE_ON_POSTGRES);

pub(crate) const NEXT_ON_SQLITE: &str = concat!(
    "/* runs::next */
     SELECT q.run_id, ",
    spec_columns!("s"),
    ", ",
    past_columns!(),
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

pub(crate) const LEAVE_ON_SQLITE: &str = "/* runs::leave_queue */
     DELETE FROM run_queue
     WHERE workload = ?1
       AND category = ?2
       AND run_id <= ?3";
static LEAVE: Sql = Sql::new(LEAVE_ON_SQLITE);

/// Where [`NEXT_ON_SQLITE`] and [`super::specs::SIDE_BY_SIDE_ON_POSTGRES`] answer the payload.
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

    fn place(&self) -> [Param<'_>; 2] {
        [self.asked.workload.as_str().into(), self.category.into()]
    }

    async fn take(&self, tx: &mut Tx<'_>) -> Result<Vec<ClaimedRun>> {
        let claimed = match tx.dialect() {
            Dialect::Postgres => self.take_on_postgres(tx).await?,
            Dialect::Sqlite => self.take_on_sqlite(tx).await?,
        };
        self.hold(tx, &claimed).await?;
        Ok(claimed)
    }

    async fn take_on_postgres(&self, tx: &mut Tx<'_>) -> Result<Vec<ClaimedRun>> {
        let [workload, category] = self.place();
        let params = [workload, category, i64::from(self.limit).into()];
        let mut taken = tx.rows(&TAKE, &params, |row| Past::read_with_id(&mut row.cursor())).await?;
        taken.sort_unstable_by_key(|(run_id, _)| *run_id);
        let wanted = |(run_id, past): &(RunId, Past)| Wanted { run_id: *run_id, is_new: past.attempt == 0 };
        let wanted: Vec<Wanted> = taken.iter().map(wanted).collect();
        let specs = specs::of(tx, (self.asked.workload, self.category), &wanted).await?;
        taken.into_iter().zip(specs).map(|((id, past), spec)| self.claimed(id, spec, past)).collect()
    }

    async fn take_on_sqlite(&self, tx: &mut Tx<'_>) -> Result<Vec<ClaimedRun>> {
        let [workload, category] = self.place();
        let params = [workload, category, i64::from(self.limit).into()];
        let claimed = tx.rows(&NEXT, &params, |row| self.read(&mut row.cursor())).await?;
        if let Some(last) = claimed.last() {
            let [workload, category] = self.place();
            tx.execute(&LEAVE, &[workload, category, last.run.run_id.uuid().into()]).await?;
        }
        Ok(claimed)
    }

    /// Says of what was taken that it runs.
    async fn hold(&self, tx: &mut Tx<'_>, claimed: &[ClaimedRun]) -> Result<()> {
        let runs = || claimed.iter().map(|claimed| &claimed.run);
        let (first_time, again): (Vec<&Run>, Vec<&Run>) = runs().partition(bundle::is_first_claim);
        if first_time.len() < self.fewest_bundled() {
            return standing::hold(tx, &runs().collect::<Vec<_>>()).await;
        }
        bundle::put(tx, &first_time).await?;
        standing::hold(tx, &again).await
    }

    fn read(&self, row: &mut Cursor<'_>) -> Result<ClaimedRun> {
        let (run_id, spec) = (RunId::from_uuid(row.id()?), Spec::read(row)?);
        self.claimed(run_id, spec, Past::read(row)?)
    }

    /// A run as this claim leaves it.
    fn claimed(&self, run_id: RunId, spec: Spec, past: Past) -> Result<ClaimedRun> {
        let Spec { submitted_at, not_before, max_attempts, subject, external_id, payload } = spec;
        let work = match self.asked.workload {
            Workload::Process => Work::Process { category: self.category.to_owned(), external_id },
            Workload::Ingest => Work::Ingest { upload: upload(subject)? },
            Workload::Extract => return Err(Error::row("run_queue", "an extraction, which is never queued")),
        };
        let run = Run {
            not_before,
            max_attempts,
            version: past.version.saturating_add(1),
            attempt: past.attempt.saturating_add(1),
            retry_count: past.retry_count,
            rate_limit_waited: past.rate_limit_waited,
            error_class: past.error_class,
            error_message: past.error_message,
            error_traceback: past.error_traceback,
            metrics: past.metrics,
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

/// How far a run had come before it was claimed.
struct Past {
    version: u64,
    attempt: u32,
    retry_count: u32,
    rate_limit_waited: Duration,
    error_class: Option<ErrorClass>,
    error_message: Option<String>,
    error_traceback: Option<String>,
    metrics: Option<String>,
}

impl Past {
    fn read(row: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            version: row.count()?,
            attempt: row.count()?,
            retry_count: row.count()?,
            rate_limit_waited: span(row)?,
            error_class: row.opt_word()?,
            error_message: row.opt_text()?,
            error_traceback: row.opt_text()?,
            metrics: row.opt_text()?,
        })
    }

    fn read_with_id(row: &mut Cursor<'_>) -> Result<(RunId, Self)> {
        Ok((RunId::from_uuid(row.id()?), Self::read(row)?))
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
        None => tx.rows(&CATEGORIES, &[workload.into(), i64::MAX.into()], |row| row.text(0)).await?,
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
