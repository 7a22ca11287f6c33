//! Claiming runs: oldest submission first, new runs and due retries together, only the categories asked for.
//!
//! A retry that has come due is first moved back to queued (`Event::Due`), so that one index holds everything that can
//! start now and waiting ones are never in its way. Picking and starting is one statement for each category; how many
//! come from each is decided by a look at their oldest, so that age decides across categories too.

use std::time::Duration;

use redrive_core::id::TaskId;
use redrive_core::run::{Run, Workload};
use redrive_core::time::Timestamp;

use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::runs::{self, run_columns};

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

/// A run that was claimed, with what it is to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRun {
    pub run: Run,
    pub payload: Option<String>,
    pub external_id: Option<String>,
}

pub(crate) const PROMOTE: &str = "/* queue::promote */ WITH due AS {materialized} (SELECT run_id FROM runs WHERE state = 'waiting' AND workload = ?1 \
     AND next_retry_at <= CAST(?2 AS BIGINT) ORDER BY next_retry_at LIMIT CAST(?3 AS BIGINT) {skip_locked}) \
     UPDATE runs SET state = 'queued' WHERE run_id IN (SELECT run_id FROM due)";
static PROMOTE_SQL: Sql = Sql::new(PROMOTE);

/// The categories that have something queued, one step down the index for each.
static CATEGORIES: Sql = Sql::new(
    "/* queue::categories */ WITH RECURSIVE found(category) AS (SELECT min(category) FROM runs WHERE state = 'queued' \
     AND workload = ?1 UNION ALL SELECT (SELECT min(r.category) FROM runs r WHERE r.state = 'queued' AND r.workload = ?1 \
     AND r.category > found.category) FROM found WHERE found.category IS NOT NULL) \
     SELECT category FROM found WHERE category IS NOT NULL",
);

static OLDEST: Sql = Sql::new(
    "/* queue::oldest */ SELECT submitted_at FROM runs WHERE state = 'queued' AND workload = ?1 AND category = ?2 \
     ORDER BY submitted_at, run_id LIMIT CAST(?3 AS BIGINT)",
);

pub(crate) const START: &str = concat!(
    "/* queue::start */ WITH picked AS {materialized} (SELECT run_id FROM runs WHERE state = 'queued' AND workload = ?1 \
     AND category = ?2 ORDER BY submitted_at, run_id LIMIT CAST(?3 AS BIGINT) {skip_locked}) \
     UPDATE runs SET state = 'running', attempt = attempt + 1, next_retry_at = NULL, task_id = ?4, worker = ?5, \
     started_at = ?6, last_heartbeat = ?6, lease_until = ?7 WHERE run_id IN (SELECT run_id FROM picked) \
     RETURNING ",
    run_columns!(),
    ", payload, external_id"
);
static START_SQL: Sql = Sql::new(START);

pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    claim: &RunClaim,
    task_id: TaskId,
    now: Timestamp,
) -> Result<Vec<ClaimedRun>> {
    let workload = claim.workload.as_str();
    let params = [workload.into(), now.micros().into(), PROMOTED.into()];
    tx.execute(&PROMOTE_SQL, &params).await?;
    let categories = match &claim.categories {
        Some(categories) => categories.clone(),
        None => tx.rows(&CATEGORIES, &[workload.into()], |row| row.text(0)).await?,
    };
    let mut claimed = Vec::new();
    for (category, limit) in share_by_age(tx, workload, categories, claim.limit).await? {
        let params = [
            workload.into(),
            (&category).into(),
            i64::from(limit).into(),
            task_id.uuid().into(),
            (&claim.worker).into(),
            now.micros().into(),
            now.saturating_add(claim.lease).micros().into(),
        ];
        claimed.extend(
            tx.rows(&START_SQL, &params, |row| {
                Ok(ClaimedRun { run: runs::read(row)?, payload: row.opt_text(20)?, external_id: row.opt_text(21)? })
            })
            .await?,
        );
    }
    claimed.sort_by_key(|claimed| (claimed.run.submitted_at, claimed.run.run_id));
    Ok(claimed)
}

/// How many of the oldest runs lie in each category.
async fn share_by_age(
    tx: &mut Tx<'_>,
    workload: &str,
    mut categories: Vec<String>,
    limit: u32,
) -> Result<Vec<(String, u32)>> {
    categories.sort_unstable();
    categories.dedup();
    if categories.len() <= 1 {
        return Ok(categories.into_iter().map(|category| (category, limit)).collect());
    }
    let mut ages: Vec<(i64, usize)> = Vec::new();
    for (nth, category) in categories.iter().enumerate() {
        let params = [workload.into(), category.into(), i64::from(limit).into()];
        ages.extend(tx.rows(&OLDEST, &params, |row| Ok((row.int(0)?, nth))).await?);
    }
    ages.sort_unstable();
    let mut shares = vec![0u32; categories.len()];
    for &(_, nth) in ages.iter().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        shares[nth] += 1;
    }
    Ok(categories.into_iter().zip(shares).filter(|(_, share)| *share > 0).collect())
}
