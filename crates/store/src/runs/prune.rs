//! Forgetting runs that ended long ago, in small transactions.

use std::sync::Arc;

use redrive_core::count;
use redrive_core::id::RunId;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;

use super::list::categories_of;
use super::standing::Table;
use crate::audit::{self, Operation};
use crate::db::{Batch, Column, Effect, Kind, Param, Sql, Tx};
use crate::error::Result;
use crate::handles::{ControlStore, View, read, transact};
use crate::uploads;

impl View {
    /// How many ended runs [`ControlStore::prune_runs`] would forget, counted up to `most`.
    pub async fn prunable_runs(
        &self,
        workload: Workload,
        categories: Option<Vec<String>>,
        ended_before: Timestamp,
        most: u32,
    ) -> Result<u64> {
        read!(self.read_by_index, "prunable runs", |tx, workload, categories, ended_before, most| count(
            tx,
            *workload,
            Option::as_deref(&categories),
            *ended_before,
            *most
        ))
    }
}

impl ControlStore {
    /// Forgets at most `limit` runs of a workload that ended before a moment, with their failures and payloads; gives how many
    /// there were. Nothing that is queued, running or waiting is touched, nor a run whose external id was submitted again since
    /// that moment. The external id of a run that is forgotten is free again. The caller comes again until nothing is left, so
    /// that each transaction stays small. What was parsed of an upload is left to [`ControlStore::forget_uploads`].
    /// A person's operation has a row in the audit trail; the daemon's pruning has none.
    pub async fn prune_runs(
        &self,
        operation: Option<&Operation>,
        workload: Workload,
        categories: Option<Vec<String>>,
        ended_before: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        let (operation, now) = (operation.cloned(), self.inner.now());
        transact!(self.inner, "prune runs", |tx, operation, categories| {
            let pruned = prune(tx, workload, (*categories).as_deref(), ended_before, limit, now).await?;
            if let Some(operation) = (*operation).as_ref().filter(|_| pruned > 0) {
                audit::record_alone(tx, operation).await?;
            }
            Ok(pruned)
        })
    }
}

static ENDED: Sql = Sql::new(
    "/* runs::ended_before */
     SELECT run_id
     FROM run_ends
     WHERE workload = ?1
       AND category = ?2
       AND completed_at < CAST(?3 AS BIGINT)
       AND run_id < ?5
       AND NOT EXISTS (
           SELECT 1
           FROM run_specs s
           WHERE s.run_id = run_ends.run_id
             AND s.named_at >= CAST(?3 AS BIGINT)
       )
     ORDER BY run_id
     LIMIT CAST(?4 AS BIGINT)
     {skip_locked}",
);

static FORGET_END: Batch = Batch::new(
    "/* runs::forget_end */
     DELETE FROM run_ends
     {using}
     WHERE workload = @workload
       AND category = @category
       AND run_id = @run_id",
    &[("workload", Kind::Text), ("category", Kind::Text), ("run_id", Kind::Id)],
    Effect::All,
);
static FORGET_SPEC: Batch = Batch::new(
    "/* runs::forget_spec */
     DELETE FROM run_specs
     {using}
     WHERE run_specs.run_id = @run_id",
    &[("run_id", Kind::Id)],
    Effect::All,
);
static FORGET_FAILURES: Batch = Batch::new(
    "/* runs::forget_failures */
     DELETE FROM run_failures
     {using}
     WHERE run_failures.run_id = @run_id",
    &[("run_id", Kind::Id)],
    Effect::All,
);

async fn categories(tx: &mut Tx<'_>, workload: Workload, asked: Option<&[String]>) -> Result<Vec<String>> {
    match asked {
        Some(asked) => Ok(asked.to_vec()),
        None => categories_of(tx, Table::Ends, workload).await,
    }
}

async fn prune(
    tx: &mut Tx<'_>,
    workload: Workload,
    asked: Option<&[String]>,
    ended_before: Timestamp,
    limit: u32,
    now: Timestamp,
) -> Result<u64> {
    let mut pruned = 0;
    for category in categories(tx, workload, asked).await? {
        let left = u64::from(limit).saturating_sub(pruned);
        let ids = ended(tx, &ENDED, (workload, &category), ended_before, left).await?;
        let places = [
            Column::texts(&ids, |_| Some(workload.as_str())),
            Column::texts(&ids, |_| Some(category.as_str())),
            Column::ids(&ids, |id| Some(id.uuid())),
        ];
        tx.batch(&FORGET_END, &places).await?;
        let by_id = [Column::ids(&ids, |id| Some(id.uuid()))];
        tx.batch(&FORGET_FAILURES, &by_id).await?;
        tx.batch(&FORGET_SPEC, &by_id).await?;
        if workload == Workload::Ingest {
            uploads::mark_forgotten(tx, &ids, now).await?;
        }
        pruned += count::of(ids.len());
    }
    Ok(pruned)
}

/// A run ends no sooner than it is submitted, so that no younger id is looked at.
fn place<'p>(workload: Workload, category: &'p str, ended_before: Timestamp, limit: i64) -> [Param<'p>; 5] {
    let bound = RunId::first_of(ended_before);
    [workload.as_str().into(), category.into(), ended_before.micros().into(), limit.into(), bound.uuid().into()]
}

async fn ended(
    tx: &mut Tx<'_>,
    sql: &Sql,
    (workload, category): (Workload, &str),
    ended_before: Timestamp,
    limit: u64,
) -> Result<Vec<RunId>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params = place(workload, category, ended_before, limit);
    tx.rows(sql, &params, |row| row.id(0).map(RunId::from_uuid)).await
}

static COUNT: Sql = Sql::new(
    "/* runs::count_ended_before */
     SELECT count(*)
     FROM (
         SELECT 1
         FROM run_ends
         WHERE workload = ?1
           AND category = ?2
           AND completed_at < CAST(?3 AS BIGINT)
           AND run_id < ?5
           AND NOT EXISTS (
               SELECT 1
               FROM run_specs s
               WHERE s.run_id = run_ends.run_id
                 AND s.named_at >= CAST(?3 AS BIGINT)
           )
         LIMIT CAST(?4 AS BIGINT)
     ) counted",
);

async fn count(
    tx: &mut Tx<'_>,
    workload: Workload,
    asked: Option<&[String]>,
    ended_before: Timestamp,
    most: u32,
) -> Result<u64> {
    let mut counted = 0;
    for category in categories(tx, workload, asked).await? {
        let left = i64::from(most).saturating_sub(i64::try_from(counted).unwrap_or(i64::MAX));
        let params = place(workload, &category, ended_before, left);
        let count = tx.row(&COUNT, &params, |row| row.int(0)).await?.unwrap_or(0);
        counted += u64::try_from(count).unwrap_or(0);
    }
    Ok(counted)
}
