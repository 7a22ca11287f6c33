//! How far outside workers say they are with their runs, for people who look.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::run::{Run, Workload};
use redrive_core::time::Timestamp;

use super::deliver::HeldByWorker;
use crate::db::{Batch, Column, Effect, Kind, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};

impl View {
    /// How far the worker of a run says it is, while it is at it.
    pub async fn run_progress(&self, run: &Run) -> Result<Option<String>> {
        let (workload, category, id) = (run.workload(), run.work.category().to_owned(), run.run_id);
        read!(self.read_by_index, "progress", |tx, workload, category, id| progress(tx, *workload, &category, *id))
    }
}

static NOTE_PROGRESS: Batch = Batch::new(
    "/* runs::note_progress */
     UPDATE run_claims
     SET progress = @progress
     {from}
     WHERE workload = (SELECT workload FROM run_specs s WHERE s.run_id = @run_id)
       AND category = (SELECT category FROM run_specs s WHERE s.run_id = @run_id)
       AND run_id = @run_id
       AND task_id = @task_id",
    &[("progress", Kind::Text), ("run_id", Kind::Id), ("task_id", Kind::Id)],
    Effect::All,
);

/// Keeps how far the worker says it is, of the runs of which it says so.
pub(super) async fn note_progress(tx: &mut Tx<'_>, alive: &[(&HeldByWorker, Timestamp)]) -> Result<()> {
    let told: Vec<&HeldByWorker> = alive.iter().map(|(held, _)| *held).filter(|held| held.progress.is_some()).collect();
    if told.is_empty() {
        return Ok(());
    }
    let columns = [
        Column::texts(&told, |held| held.progress.as_deref()),
        Column::ids(&told, |held| Some(held.run_id.uuid())),
        Column::ids(&told, |held| Some(held.task_id.uuid())),
    ];
    tx.batch(&NOTE_PROGRESS, &columns).await.map(drop)
}

static PROGRESS: Sql = Sql::new(
    "/* runs::progress */
     SELECT progress
     FROM run_claims
     WHERE workload = ?1
       AND category = ?2
       AND run_id = ?3",
);

async fn progress(tx: &mut Tx<'_>, workload: Workload, category: &str, id: RunId) -> Result<Option<String>> {
    let params = [workload.as_str().into(), category.into(), id.uuid().into()];
    Ok(tx.row(&PROGRESS, &params, |row| row.opt_text(0)).await?.flatten())
}
