//! Attempts as the invariants see them: of many partitions at once, and without the texts that runs carry.

use redrive_core::id::{RunId, TaskId};
use redrive_core::invariants::Attempt;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::time::Timestamp;

use crate::db::{Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::partitions::{self, Page};
use crate::runs;

macro_rules! attempt_columns {
    () => {
        "r.subject, r.run_id, r.task_id, r.attempt, r.state, r.verdict, r.lease_until, \
         (SELECT count(*) FROM run_failures f WHERE f.run_id = r.run_id)"
    };
}

fn read(row: &Row<'_>) -> Result<(String, Attempt)> {
    let wrong = |error: std::num::TryFromIntError| Error::row("runs", error);
    let attempt = Attempt {
        run_id: RunId::from_uuid(row.id(1)?),
        task_id: row.opt_id(2)?.map(TaskId::from_uuid),
        number: row.int(3)?.try_into().map_err(wrong)?,
        state: row.word(4)?,
        verdict: row.opt_word(5)?,
        lease_until: row.opt_int(6)?.map(Timestamp::from_micros),
        failures: row.int(7)?.try_into().map_err(wrong)?,
    };
    Ok((row.text(0)?, attempt))
}

const OF_PAGE: &str = concat!(
    "/* attempts::page */ SELECT ",
    attempt_columns!(),
    " FROM runs r WHERE r.workload = 'extract' AND r.subject IN ({subjects})"
);

/// A page of partitions in key order, each with its attempts of the same moment.
pub(crate) async fn page(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<(Partition, Vec<Attempt>)>> {
    let partitions = partitions::page(tx, page).await?;
    let subjects: Vec<String> = partitions.iter().map(|partition| runs::subject(&partition.state.key)).collect();
    let attempts = runs::by_subject(tx, OF_PAGE, &subjects, read).await?;
    Ok(partitions.into_iter().zip(attempts).collect())
}

/// A running extraction, and the partition that it is about if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub subject: String,
    pub key: Option<PartitionKey>,
    pub attempt: Attempt,
}

static RUNNING: Sql = Sql::new(concat!(
    "/* attempts::running */ SELECT ",
    attempt_columns!(),
    " FROM runs r WHERE r.workload = 'extract' AND r.state = 'running' AND r.subject > ?1 ORDER BY r.subject \
     LIMIT CAST(?2 AS BIGINT)"
));

/// Extractions that are under way, in the order of their subjects, after `after`.
pub(crate) async fn running(tx: &mut Tx<'_>, after: &str, limit: u32) -> Result<Vec<Running>> {
    let running = tx.rows(&RUNNING, &[after.into(), i64::from(limit).into()], read).await?;
    let keys: Vec<Option<PartitionKey>> = running.iter().map(|(subject, _)| runs::key_of(subject).ok()).collect();
    let there = partitions::get_many(tx, &keys.iter().flatten().cloned().collect::<Vec<_>>()).await?;
    let mut there = there.into_iter().map(|partition| partition.map(|partition| partition.state.key));
    let about = |((subject, attempt), key): ((String, Attempt), Option<PartitionKey>)| {
        let key = key.and_then(|_| there.next().flatten());
        Running { subject, key, attempt }
    };
    Ok(running.into_iter().zip(keys).map(about).collect())
}
