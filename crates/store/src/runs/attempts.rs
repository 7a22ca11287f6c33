//! Attempts at partitions: beginning them, and reading those of many partitions at once, whole or as the invariants see
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use redrive_core::id::{RunId, TaskId};
use redrive_core::invariants::AttemptFacts;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_core::run::Run;
use redrive_core::time::Timestamp;

use super::row::{self, WorkColumns, key_of, run_columns, subject};
use crate::db::{Batch, Column, Effect, Kind, Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::partitions::{self, Page};
use crate::view::{View, read};

/// How many partitions' attempts are asked for by one statement; each is a parameter of it.
const SUBJECTS: usize = 1000;

impl View {
    /// Every attempt of a partition, oldest first.
    pub async fn attempts(&self, key: &PartitionKey) -> Result<Vec<Run>> {
        let key = key.clone();
        read!(self, "attempts", |tx, key| of_partition(tx, &key))
    }

    /// The same of many partitions, each with its own in the order of the keys. A key stands there once.
    pub async fn attempts_of(&self, keys: Vec<PartitionKey>) -> Result<Vec<Vec<Run>>> {
        read!(self.read_by_index, "attempts of many", |tx, keys| of_partitions(tx, &keys))
    }

    /// A page of partitions in key order, each with what the invariants ask of its attempts.
    pub async fn partitions_with_attempts(&self, asked: Page) -> Result<Vec<(Partition, Vec<AttemptFacts>)>> {
        read!(self.read_by_index, "partitions with attempts", |tx, asked| page(tx, &asked))
    }

    /// Extractions that are under way, in the order of their subjects, after subject `after`.
    pub async fn running_attempts(&self, after: String, limit: u32) -> Result<Vec<Running>> {
        read!(self.read_by_index, "running attempts", |tx, after, limit| running(tx, &after, *limit))
    }
}

static OF_PARTITION: Sql = Sql::new(concat!(
    "/* runs::of_partition */
     SELECT ",
    run_columns!(),
    "
     FROM runs
     WHERE workload = 'extract'
       AND subject = ?1
     ORDER BY run_id"
));

async fn of_partition(tx: &mut Tx<'_>, key: &PartitionKey) -> Result<Vec<Run>> {
    tx.rows(&OF_PARTITION, &[subject(key).as_str().into()], row::read).await
}

const OF_PARTITIONS: &str = concat!(
    "/* runs::of_partitions */
     SELECT ",
    run_columns!(),
    "
     FROM runs
     WHERE workload = 'extract'
       AND subject IN ({subjects})
     ORDER BY run_id"
);

async fn of_partitions(tx: &mut Tx<'_>, keys: &[PartitionKey]) -> Result<Vec<Vec<Run>>> {
    let subjects: Vec<String> = keys.iter().map(subject).collect();
    by_subject(tx, OF_PARTITIONS, &subjects, |row| row::read(row).map(|run| (run.key().map(subject), run))).await
}

/// What there is of each of these subjects. The statement says `{subjects}` where they are to stand, and `make` gives
/// each row's own.
async fn by_subject<T>(
    tx: &mut Tx<'_>,
    sql: &str,
    subjects: &[String],
    make: impl Fn(&Row<'_>) -> Result<(Option<String>, T)>,
) -> Result<Vec<Vec<T>>> {
    let mut found: HashMap<String, Vec<T>> = HashMap::new();
    for some in subjects.chunks(SUBJECTS) {
        let marks: Vec<String> = (1..=some.len()).map(|nth| format!("?{nth}")).collect();
        let params: Vec<Param<'_>> = some.iter().map(Param::from).collect();
        let sql = sql.replace("{subjects}", &marks.join(", "));
        for (subject, row) in tx.built_rows(&sql, &params, &make).await? {
            found.entry(subject.unwrap_or_default()).or_default().push(row);
        }
    }
    Ok(subjects.iter().map(|subject| found.remove(subject).unwrap_or_default()).collect())
}

static INSERT_ATTEMPTS: Batch = Batch::new(
    "/* runs::insert_attempts */
     INSERT INTO runs (run_id, workload, category, subject, state, attempt, submitted_at, task_id, worker, started_at,
         last_heartbeat, lease_until)
     {values @run_id, 'extract', '', @subject, 'running', @attempt, @submitted_at, @task_id, @worker, @started_at,
         @started_at, @lease_until}",
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

/// Inserts the runs of claimed partitions, which begin as running.
pub(crate) async fn insert_attempts(tx: &mut Tx<'_>, runs: &[Run]) -> Result<()> {
    let rows: Vec<_> = runs.iter().map(|run| (run, WorkColumns::of(&run.work))).collect();
    let columns = [
        Column::ids(&rows, |(run, _)| Some(run.run_id.uuid())),
        Column::texts(&rows, |(_, work)| work.subject.as_deref()),
        Column::ints(&rows, |(run, _)| Some(i64::from(run.attempt))),
        Column::ints(&rows, |(run, _)| Some(run.submitted_at.micros())),
        Column::ids(&rows, |(run, _)| run.task_id.map(TaskId::uuid)),
        Column::texts(&rows, |(run, _)| run.worker.as_deref()),
        Column::ints(&rows, |(run, _)| run.started_at.map(Timestamp::micros)),
        Column::ints(&rows, |(run, _)| run.lease_until.map(Timestamp::micros)),
    ];
    tx.batch(&INSERT_ATTEMPTS, &columns).await.map(drop)
}

macro_rules! attempt_columns {
    () => {
        "r.subject, r.run_id, r.task_id, r.attempt, r.state, r.verdict, r.lease_until,
         (SELECT count(*) FROM run_failures f WHERE f.run_id = r.run_id)"
    };
}

fn read_facts(row: &Row<'_>) -> Result<(Option<String>, AttemptFacts)> {
    let wrong = |error: std::num::TryFromIntError| Error::row("runs", error);
    let attempt = AttemptFacts {
        run_id: RunId::from_uuid(row.id(1)?),
        task_id: row.opt_id(2)?.map(TaskId::from_uuid),
        number: row.int(3)?.try_into().map_err(wrong)?,
        state: row.word(4)?,
        verdict: row.opt_word(5)?,
        lease_until: row.opt_int(6)?.map(Timestamp::from_micros),
        failures: row.int(7)?.try_into().map_err(wrong)?,
    };
    Ok((row.opt_text(0)?, attempt))
}

const OF_PAGE: &str = concat!(
    "/* runs::facts_of_partitions */
     SELECT ",
    attempt_columns!(),
    "
     FROM runs r
     WHERE r.workload = 'extract'
       AND r.subject IN ({subjects})"
);

/// A page of partitions in key order, each with its attempts of the same moment.
async fn page(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<(Partition, Vec<AttemptFacts>)>> {
    let partitions = partitions::page(tx, page).await?;
    let subjects: Vec<String> = partitions.iter().map(|partition| subject(&partition.state.key)).collect();
    let attempts = by_subject(tx, OF_PAGE, &subjects, read_facts).await?;
    Ok(partitions.into_iter().zip(attempts).collect())
}

/// A running extraction, and the partition that it is about if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub subject: String,
    pub key: Option<PartitionKey>,
    pub attempt: AttemptFacts,
}

static RUNNING: Sql = Sql::new(concat!(
    "/* runs::running */
     SELECT ",
    attempt_columns!(),
    "
     FROM runs r
     WHERE r.workload = 'extract'
       AND r.state = 'running'
       AND r.subject > ?1
     ORDER BY r.subject
     LIMIT CAST(?2 AS BIGINT)"
));

async fn running(tx: &mut Tx<'_>, after: &str, limit: u32) -> Result<Vec<Running>> {
    let running = tx.rows(&RUNNING, &[after.into(), i64::from(limit).into()], read_facts).await?;
    let running: Vec<_> = running.into_iter().map(|(subject, facts)| (subject.unwrap_or_default(), facts)).collect();
    let keys: Vec<Option<PartitionKey>> = running.iter().map(|(subject, _)| key_of(subject).ok()).collect();
    let there = partitions::get_many(tx, &keys.iter().flatten().cloned().collect::<Vec<_>>()).await?;
    let mut there = there.into_iter().map(|partition| partition.map(|partition| partition.state.key));
    let about = |((subject, attempt), key): ((String, AttemptFacts), Option<PartitionKey>)| {
        let key = key.and_then(|_| there.next().flatten());
        Running { subject, key, attempt }
    };
    Ok(running.into_iter().zip(keys).map(about).collect())
}
