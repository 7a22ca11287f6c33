//! Leases that ran out: their runs failed without a word, and are treated as if they had said so.

use redrive_core::partition::{self, DataEvent, Event, InFlight, Judgement};
use redrive_core::refusal::Refused;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Fault, Run, Workload};
use redrive_core::time::Timestamp;

use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::partitions;
use crate::runs::{self, run_columns};

macro_rules! overdue {
    ($name:literal, $lock:literal) => {
        Sql::new(concat!(
            $name,
            " SELECT ",
            run_columns!(),
            " FROM runs WHERE state = 'running' AND lease_until <= CAST(?1 AS BIGINT) ORDER BY lease_until \
             LIMIT CAST(?2 AS BIGINT) ",
            $lock
        ))
    };
}

static OVERDUE: Sql = overdue!("/* expiry::overdue */", "");
static EXPIRED: Sql = overdue!("/* expiry::expired */", "{skip_locked}");

/// Runs whose lease has passed and that nobody has ended yet.
pub(crate) async fn overdue(tx: &mut Tx<'_>, now: Timestamp, limit: u32) -> Result<Vec<Run>> {
    tx.rows(&OVERDUE, &[now.micros().into(), i64::from(limit).into()], runs::read).await
}

/// Ends up to `limit` runs whose lease has passed; gives them as they are now.
pub(crate) async fn expire(
    tx: &mut Tx<'_>,
    now: Timestamp,
    limit: u32,
    policy: &(dyn Fn(&Run) -> RetryPolicy + Send + Sync),
) -> Result<Vec<Run>> {
    let expired = tx.rows(&EXPIRED, &[now.micros().into(), i64::from(limit).into()], runs::read).await?;
    let mut changes = Vec::with_capacity(expired.len());
    for run in &expired {
        let change = run::apply(run, run::Event::LeaseExpired, now, &policy(run))?;
        match run.workload {
            // The validator rejects an abandoned attempt, so that a partition that kills workers runs out of attempts.
            Workload::Extract => abandon(tx, run, now).await?,
            Workload::Ingest | Workload::Process => {}
        }
        changes.push(change);
    }
    let took = runs::write(tx, &changes).await?;
    Ok(changes.into_iter().zip(took).filter_map(|(change, took)| took.then_some(change.after)).collect())
}

async fn abandon(tx: &mut Tx<'_>, run: &Run, now: Timestamp) -> Result<()> {
    let Some(task_id) = run.task_id else { return Ok(()) };
    let found = partitions::get_many_locked(tx, &[runs::partition_of(run)?]).await?;
    let Some(partition) = found.into_iter().flatten().next() else { return Ok(()) };
    let Fault { class, message, .. } = Fault::lease_expired();
    let attempt = InFlight { run_id: run.run_id, task_id };
    let judged = DataEvent::Judged(attempt, Judgement::Rejected { class, message, not_before: None });
    match partition::apply(&partition, Event::Data(judged), now) {
        Ok(change) => partitions::write(tx, &[change]).await.map(drop),
        // The partition has moved on without this run; only the run's own row is left to end.
        Err(Refused::NoOp(_) | Refused::Rule(_)) => Ok(()),
    }
}
