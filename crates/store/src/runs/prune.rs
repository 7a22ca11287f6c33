//! Forgetting runs that ended long ago: found on a reader, page by page, and forgotten in small transactions that look again.

use std::sync::Arc;

use redrive_core::count;
use redrive_core::id::RunId;
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
use uuid::Uuid;

use super::list::categories_of;
use super::standing::Table;
use super::submit::NOTED_EVERY;
use crate::audit::{self, Operation};
use crate::db::{Batch, Column, Effect, Kind, Lookup, Sql, Tx};
use crate::error::Result;
use crate::handles::{ControlStore, View, read, transact};
use crate::uploads;

/// Which runs are forgotten: those of a workload that ended before a moment. One with an external id is kept while its submitter names it:
/// it would be made, and worked on, a second time. When it was named is noted to the hour, so that an hour more must have passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruning {
    pub workload: Workload,
    /// Only these; none means all.
    pub categories: Option<Vec<String>>,
    pub ended_before: Timestamp,
}

impl Pruning {
    /// Until when the latest note may be that a run was named.
    fn named_before(&self) -> Timestamp {
        self.ended_before.saturating_sub(NOTED_EVERY)
    }
}

/// Runs of one category that a [`Pruning`] means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prunable {
    pub category: String,
    /// In the order of their submission.
    pub runs: Vec<RunId>,
}

impl View {
    /// Finds at most `limit` runs to forget, after those of an earlier page; none when all were found.
    pub async fn prunable_runs(
        &self,
        pruning: Pruning,
        after: Option<Prunable>,
        limit: u32,
    ) -> Result<Option<Prunable>> {
        read!(self.read_by_index, "prunable runs", |tx, pruning, after, limit| page(
            tx,
            &pruning,
            Option::as_ref(&after),
            *limit
        ))
    }
}

impl ControlStore {
    /// Forgets runs with their failures and payloads, where they are still to be forgotten; gives how many were. Nothing that is queued,
    /// running or waiting is touched. The external id of a run that is forgotten is free again. A person's operation has a row in the
    /// audit trail; the daemon's pruning has none. What was parsed of an upload is left to [`ControlStore::forget_uploads`].
    pub async fn prune_runs(&self, operation: Option<&Operation>, pruning: Pruning, prunable: Prunable) -> Result<u64> {
        let (operation, now) = (operation.cloned(), self.inner.now());
        transact!(self.inner, "prune runs", |tx, operation, pruning, prunable| {
            let pruned = forget(tx, &pruning, &prunable, now).await?;
            if let Some(operation) = (*operation).as_ref().filter(|_| pruned > 0) {
                audit::record_alone(tx, operation).await?;
            }
            Ok(pruned)
        })
    }
}

/// How many ends one statement looks at, at the least: most of them may be kept, because their submitters name them.
const LOOKED_AT: u32 = 1000;

/// Ends in the order of their submission, each with the time when its submitter last named it.
static ENDED: Sql = Sql::new(
    "/* runs::ended_before */
     SELECT ended.run_id, (
         SELECT coalesce(s.named_at, s.submitted_at)
         FROM run_specs s
         WHERE s.run_id = ended.run_id
           AND s.external_id IS NOT NULL)
     FROM (
         SELECT run_id
         FROM run_ends
         WHERE workload = ?1
           AND category = ?2
           AND run_id > ?3
           AND run_id < ?4
           AND completed_at < CAST(?5 AS BIGINT)
         ORDER BY run_id
         LIMIT CAST(?6 AS BIGINT)) ended
     ORDER BY ended.run_id",
);

async fn page(tx: &mut Tx<'_>, pruning: &Pruning, after: Option<&Prunable>, limit: u32) -> Result<Option<Prunable>> {
    let mut categories = match &pruning.categories {
        Some(asked) => asked.clone(),
        None => categories_of(tx, Table::Ends, pruning.workload).await?,
    };
    categories.sort_unstable();
    // A run ends no sooner than it is submitted, so that no younger id is looked at; but whose submission is still to come may have
    // ended long ago.
    let bound = RunId::first_of(pruning.ended_before).uuid();
    let to_come = RunId::first_of(pruning.ended_before.max(tx.now())).uuid();
    for category in categories {
        let from = match after {
            Some(after) if category < after.category => continue,
            Some(after) if category == after.category => after.runs.last().copied(),
            Some(_) | None => None,
        };
        let from = from.map_or_else(Uuid::nil, RunId::uuid);
        for (from, to) in [(from, bound), (from.max(to_come), Uuid::max())] {
            let runs = first_between(tx, pruning, &category, (from, to), limit).await?;
            if !runs.is_empty() {
                return Ok(Some(Prunable { category, runs }));
            }
        }
    }
    Ok(None)
}

/// The first that are to be forgotten of those whose ids lie between two others.
async fn first_between(
    tx: &mut Tx<'_>,
    pruning: &Pruning,
    category: &str,
    (mut from, to): (Uuid, Uuid),
    limit: u32,
) -> Result<Vec<RunId>> {
    let (ended_before, named_before) = (pruning.ended_before.micros(), pruning.named_before().micros());
    let looked_at = limit.max(LOOKED_AT);
    loop {
        let params = [
            pruning.workload.as_str().into(),
            category.into(),
            from.into(),
            to.into(),
            ended_before.into(),
            i64::from(looked_at).into(),
        ];
        let ended = tx.rows(&ENDED, &params, |row| Ok((row.id(0)?, row.opt_int(1)?))).await?;
        let unnamed = ended.iter().filter(|(_, named)| named.is_none_or(|at| at < named_before));
        let runs: Vec<RunId> =
            unnamed.map(|(run, _)| RunId::from_uuid(*run)).take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
        let is_last = count::of(ended.len()) < u64::from(looked_at);
        match ended.last() {
            Some((last, _)) if runs.is_empty() && !is_last => from = *last,
            _ => return Ok(runs),
        }
    }
}

/// Those that their submitters do not name, locked: who names one of them meanwhile waits, and finds it gone.
static UNNAMED: Lookup = Lookup::new(
    "/* runs::unnamed */
     SELECT run_id
     FROM run_specs
     WHERE run_specs.run_id = @run_id
       AND (external_id IS NULL OR coalesce(named_at, submitted_at) < @named_before)
     {lock}",
    &[("run_id", Kind::Id), ("named_before", Kind::Int)],
);

static FORGET_END: Batch = Batch::new(
    "/* runs::forget_end */
     DELETE FROM run_ends
     {using}
     WHERE workload = @workload
       AND category = @category
       AND run_id = @run_id
       AND completed_at < @ended_before",
    &[("workload", Kind::Text), ("category", Kind::Text), ("run_id", Kind::Id), ("ended_before", Kind::Int)],
    Effect::Row,
);
/// Takes what a table has of runs away.
macro_rules! forget {
    ($table:literal) => {
        Batch::new(
            concat!(
                "/* runs::forget ",
                $table,
                " */
     DELETE FROM ",
                $table,
                "
     {using}
     WHERE ",
                $table,
                ".run_id = @run_id"
            ),
            &[("run_id", Kind::Id)],
            Effect::All,
        )
    };
}
static FORGET: [Batch; 3] = [forget!("run_specs"), forget!("run_failures"), forget!("run_incidents")];

async fn forget(
    tx: &mut Tx<'_>,
    pruning: &Pruning,
    Prunable { category, runs }: &Prunable,
    now: Timestamp,
) -> Result<u64> {
    let specs =
        [Column::ids(runs, |id| Some(id.uuid())), Column::ints(runs, |_| Some(pruning.named_before().micros()))];
    let unnamed = tx.lookup(&UNNAMED, &specs, |mut row| row.id().map(RunId::from_uuid)).await?;
    let unnamed: Vec<RunId> = unnamed.into_iter().map(|(_, run)| run).collect();
    let ends = [
        Column::texts(&unnamed, |_| Some(pruning.workload.as_str())),
        Column::texts(&unnamed, |_| Some(category.as_str())),
        Column::ids(&unnamed, |id| Some(id.uuid())),
        Column::ints(&unnamed, |_| Some(pruning.ended_before.micros())),
    ];
    let took = tx.batch(&FORGET_END, &ends).await?;
    let forgotten: Vec<RunId> = unnamed.into_iter().zip(took).filter(|(_, took)| *took).map(|(run, _)| run).collect();
    let by_id = [Column::ids(&forgotten, |id| Some(id.uuid()))];
    for sql in &FORGET {
        tx.batch(sql, &by_id).await?;
    }
    if pruning.workload == Workload::Ingest {
        uploads::mark_forgotten(tx, &forgotten, now).await?;
    }
    Ok(count::of(forgotten.len()))
}
