//! Claiming runs: oldest submission first, new runs and due retries together, only the categories asked for.
//!
//! A retry that has come due is first moved back to queued (`Event::Due`), so that one index holds everything that can
//! start now and waiting ones are never in its way. Picking and starting is one statement for each category; how many
//! come from each is decided by a look at their oldest, so that age decides across categories too.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::TaskId;
use redrive_core::run::{Run, Workload};
use redrive_core::share;
use redrive_core::time::Timestamp;

use super::row::{READ_COLUMNS, read, run_columns};
use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::handles::DataStore;

/// The most retries that one claim moves back to the queue. Each is moved once, so that a backlog costs its first claim; as
/// long as no more than this come due at once, age alone decides among them.
const PROMOTED: i64 = 100_000;

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct RunClaim {
    pub workload: Workload,
    /// Only these; none means all.
    pub categories: Option<Vec<String>>,
    /// No more than can be started now.
    pub limit: u32,
    pub worker: String,
    pub lease: Duration,
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
        let now = self.inner.now();
        let task_id = self.inner.ids.task(now);
        let asked = Arc::new(asked);
        self.inner
            .db
            .write("claim runs", move |tx| {
                let asked = Arc::clone(&asked);
                Box::pin(async move { claim(tx, &asked, task_id, now).await })
            })
            .await
    }
}

pub(crate) const PROMOTE: &str = "/* runs::promote */
     WITH due AS {materialized} (
         SELECT run_id
         FROM runs
         WHERE state = 'waiting'
           AND workload = ?1
           AND next_retry_at <= CAST(?2 AS BIGINT)
         ORDER BY next_retry_at
         LIMIT CAST(?3 AS BIGINT)
         {skip_locked}
     )
     UPDATE runs
     SET state = 'queued'
     WHERE run_id IN (SELECT run_id FROM due)";
static PROMOTE_SQL: Sql = Sql::new(PROMOTE);

/// The categories that have something queued, one step down the index for each.
static CATEGORIES: Sql = Sql::new(
    "/* runs::categories */
     WITH RECURSIVE found(category) AS (
         SELECT min(category)
         FROM runs
         WHERE state = 'queued'
           AND workload = ?1
         UNION ALL
         SELECT (
             SELECT min(r.category)
             FROM runs r
             WHERE r.state = 'queued'
               AND r.workload = ?1
               AND r.category > found.category
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
     SELECT submitted_at
     FROM runs
     WHERE state = 'queued'
       AND workload = ?1
       AND category = ?2
     ORDER BY submitted_at, run_id
     LIMIT CAST(?3 AS BIGINT)",
);

pub(crate) const START: &str = concat!(
    "/* runs::start */
     WITH picked AS {materialized} (
         SELECT run_id
         FROM runs
         WHERE state = 'queued'
           AND workload = ?1
           AND category = ?2
         ORDER BY submitted_at, run_id
         LIMIT CAST(?3 AS BIGINT)
         {skip_locked}
     )
     UPDATE runs
     SET state = 'running', attempt = attempt + 1, next_retry_at = NULL, task_id = ?4, worker = ?5, started_at = ?6,
         last_heartbeat = ?6, lease_until = ?7
     WHERE run_id IN (SELECT run_id FROM picked)
     RETURNING ",
    run_columns!(queued),
    ", payload"
);
static START_SQL: Sql = Sql::new(START);

async fn claim(tx: &mut Tx<'_>, asked: &RunClaim, task_id: TaskId, now: Timestamp) -> Result<Vec<ClaimedRun>> {
    let workload = asked.workload.as_str();
    tx.execute(&PROMOTE_SQL, &[workload.into(), now.micros().into(), PROMOTED.into()]).await?;
    let mut claimed = Vec::new();
    for (category, limit) in shares(tx, asked).await? {
        let params = [
            workload.into(),
            (&category).into(),
            i64::from(limit).into(),
            task_id.uuid().into(),
            (&asked.worker).into(),
            now.micros().into(),
            now.saturating_add(asked.lease).micros().into(),
        ];
        let started = tx
            .rows(&START_SQL, &params, |row| Ok(ClaimedRun { run: read(row)?, payload: row.opt_text(READ_COLUMNS)? }));
        claimed.extend(started.await?);
    }
    claimed.sort_by_key(|claimed| (claimed.run.submitted_at, claimed.run.run_id));
    Ok(claimed)
}

/// How many runs are to be started of each category.
async fn shares(tx: &mut Tx<'_>, asked: &RunClaim) -> Result<Vec<(String, u32)>> {
    let workload = asked.workload.as_str();
    let mut categories = match &asked.categories {
        Some(categories) => categories.clone(),
        None => tx.rows(&CATEGORIES, &[workload.into()], |row| row.text(0)).await?,
    };
    categories.sort_unstable();
    categories.dedup();
    if categories.len() <= 1 {
        return Ok(categories.into_iter().map(|category| (category, asked.limit)).collect());
    }
    let mut queues = Vec::with_capacity(categories.len());
    for category in &categories {
        let params = [workload.into(), category.into(), i64::from(asked.limit).into()];
        queues.push(tx.rows(&OLDEST, &params, |row| row.int(0).map(Timestamp::from_micros)).await?);
    }
    let shares = share::by_age(&queues, asked.limit);
    Ok(categories.into_iter().zip(shares).filter(|(_, share)| *share > 0).collect())
}
