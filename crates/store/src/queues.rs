//! How long queues are and how old what waits in them is, for metrics. Every count ends at a bound.

use redrive_core::lane::Lane;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};

/// A queue, and what waits in it for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState<Q> {
    pub queue: Q,
    /// Counted to [`crate::BOUND`], or to less where there are many queues.
    pub depth: u64,
    /// Since when the oldest of those that were counted has been waiting.
    pub oldest: Option<Timestamp>,
}

/// How many categories are looked at; names beyond would be too many series.
const CATEGORIES: usize = 50;

/// How far the queues of all categories together are counted, and each at the least and at the most.
const COUNTED: usize = 60_000;
const LEAST: usize = 1_000;
const MOST: usize = 10_001;

impl View {
    /// The lanes of partitions.
    pub async fn lane_queues(&self) -> Result<Vec<QueueState<Lane>>> {
        read!(self.read_by_index, "lane queues", |tx| lanes(tx))
    }

    /// The queues of jobs, by category, and of uploads, as `ingest`.
    pub async fn category_queues(&self) -> Result<Vec<QueueState<String>>> {
        read!(self.read_by_index, "category queues", |tx| categories(tx))
    }
}

static LANE: Sql = Sql::new(
    "/* queues::lane */
     SELECT count(*), min(queued_at)
     FROM (
         SELECT queued_at
         FROM partition_control
         WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL AND lane = ?1
         LIMIT 10001) waiting",
);

async fn lanes(tx: &mut Tx<'_>) -> Result<Vec<QueueState<Lane>>> {
    let mut all = Vec::new();
    for &queue in Lane::ALL {
        let row = tx.row(&LANE, &[queue.as_str().into()], |row| Ok((row.int(0)?, row.opt_int(1)?))).await?;
        let (depth, oldest) = row.unwrap_or((0, None));
        let depth = u64::try_from(depth).unwrap_or(0);
        all.push(QueueState { queue, depth, oldest: oldest.map(Timestamp::from_micros) });
    }
    Ok(all)
}

static NEXT_CATEGORY: Sql = Sql::new(
    "/* queues::next_category */
     SELECT category
     FROM run_queue
     WHERE workload = ?1 AND category > ?2
     ORDER BY category
     LIMIT 1",
);
static WAITING: Sql = Sql::new(
    "/* queues::waiting */
     SELECT count(*)
     FROM (
         SELECT 1
         FROM run_queue
         WHERE workload = ?1 AND category = ?2
         LIMIT CAST(?3 AS BIGINT)) waiting",
);
static OLDEST: Sql = Sql::new(
    "/* queues::oldest */
     SELECT s.submitted_at
     FROM (
         SELECT run_id
         FROM run_queue
         WHERE workload = ?1 AND category = ?2
         ORDER BY run_id
         LIMIT 1) q
     JOIN run_specs s ON s.run_id = q.run_id",
);

async fn categories(tx: &mut Tx<'_>) -> Result<Vec<QueueState<String>>> {
    let mut names: Vec<String> = Vec::new();
    while names.len() < CATEGORIES {
        let after = names.last().map_or("", String::as_str);
        let params = [Workload::Process.as_str().into(), after.into()];
        let Some(next) = tx.row(&NEXT_CATEGORY, &params, |row| row.text(0)).await? else { break };
        names.push(next);
    }
    let most = (COUNTED / (names.len() + 1)).clamp(LEAST, MOST);
    let mut all = vec![queue(tx, Workload::Ingest, "", most).await?];
    for name in &names {
        all.push(queue(tx, Workload::Process, name, most).await?);
    }
    Ok(all)
}

async fn queue(tx: &mut Tx<'_>, workload: Workload, category: &str, most: usize) -> Result<QueueState<String>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let depth = tx.row(&WAITING, &[workload.as_str().into(), category.into(), most.into()], |row| row.int(0)).await?;
    let depth = depth.unwrap_or(0);
    let oldest = tx.row(&OLDEST, &[workload.as_str().into(), category.into()], |row| row.int(0)).await?;
    let name = if category.is_empty() { workload.as_str() } else { category };
    let depth = u64::try_from(depth).unwrap_or(0);
    Ok(QueueState { queue: name.to_owned(), depth, oldest: oldest.map(Timestamp::from_micros) })
}
