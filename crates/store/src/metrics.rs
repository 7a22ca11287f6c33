//! Counts and averages of runs, for the metrics pages.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::run::{State, Workload};

use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};
use crate::runs::{self, PastFailure};

impl View {
    /// How a workload is doing, with its newest failures.
    pub async fn run_metrics(&self, workload: Workload, failures: u32) -> Result<RunMetrics> {
        read!(self, "run metrics", |tx, workload, failures| runs(tx, *workload, *failures))
    }
}

/// How a workload is doing. Each state is counted up to [`BOUND`](crate::BOUND); retries and durations are those of the newest runs of
/// each table, as many as that.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMetrics {
    pub by_state: Vec<(State, u64)>,
    pub retried_runs: u64,
    pub total_retries: u64,
    pub max_retries: u64,
    pub average_duration: Option<Duration>,
    pub recent_failures: Vec<PastFailure>,
}

static BY_STATE: Sql = Sql::new(
    "/* metrics::by_state */
     SELECT state, CAST(sum(runs) AS BIGINT)
     FROM (
         SELECT state, 1 AS runs FROM (SELECT state FROM run_waiting WHERE workload = ?1 LIMIT 10001) waiting
         UNION ALL
         SELECT 'queued', 1 FROM (SELECT 1 FROM run_queue WHERE workload = ?1 LIMIT 10001) queued
         UNION ALL
         SELECT 'running', 1 FROM (SELECT 1 FROM run_claims WHERE workload = ?1 LIMIT 10001) running
         UNION ALL
         SELECT 'running', length(runs) / 16 FROM (SELECT runs FROM run_bundles WHERE ?1 = 'process' LIMIT 10001) bundled
         UNION ALL
         SELECT state, 1 FROM (SELECT state FROM run_ends WHERE workload = ?1 LIMIT 10001) ended WHERE state = 'done'
         UNION ALL
         SELECT 'dead', 1 FROM (SELECT 1 FROM run_ends WHERE state = 'dead' AND workload = ?1 LIMIT 10001) dead
     ) standing
     GROUP BY state
     ORDER BY state",
);
static RETRIES: Sql = Sql::new(
    "/* metrics::retries */
     SELECT count(*), CAST(coalesce(sum(attempt - 1), 0) AS BIGINT), coalesce(max(attempt - 1), 0)
     FROM (
         SELECT attempt FROM (SELECT attempt FROM run_waiting WHERE workload = ?1 LIMIT 10001) waiting
         UNION ALL
         SELECT attempt FROM (SELECT attempt FROM run_queue WHERE workload = ?1 LIMIT 10001) queued
         UNION ALL
         SELECT attempt FROM (SELECT attempt FROM run_claims WHERE workload = ?1 LIMIT 10001) running
         UNION ALL
         SELECT attempt
         FROM (
             SELECT attempt
             FROM run_ends
             WHERE workload = ?1
             ORDER BY workload DESC, category DESC, run_id DESC
             LIMIT 10001) ended
     ) standing
     WHERE attempt > 1",
);
static DURATION: Sql = Sql::new(
    "/* metrics::duration */
     SELECT CAST(sum(completed_at - started_at) AS BIGINT) / nullif(count(*), 0)
     FROM (
         SELECT state, completed_at, started_at
         FROM run_ends
         WHERE workload = ?1
         ORDER BY workload DESC, category DESC, run_id DESC
         LIMIT 10001) ended
     WHERE state = 'done' AND started_at IS NOT NULL",
);

fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

async fn runs(tx: &mut Tx<'_>, workload: Workload, failures: u32) -> Result<RunMetrics> {
    let params = [workload.as_str().into()];
    let by_state = tx.rows(&BY_STATE, &params, |row| Ok((row.word(0)?, count(row.int(1)?)))).await?;
    let retries =
        tx.row(&RETRIES, &params, |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?))).await?.unwrap_or((0, 0, 0));
    let average = tx.row(&DURATION, &params, |row| row.opt_int(0)).await?.flatten();
    Ok(RunMetrics {
        by_state,
        retried_runs: count(retries.0),
        total_retries: count(retries.1),
        max_retries: count(retries.2),
        average_duration: average.map(|micros| Duration::from_micros(count(micros))),
        recent_failures: runs::recent_failures(tx, workload, failures).await?,
    })
}
