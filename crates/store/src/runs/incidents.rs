//! What the history of runs keeps beside failed tries: answers to claims that were lost, results that came too late. Rows are added
//! and never rewritten.

use std::sync::Arc;

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Change, Incident};
use redrive_core::time::Timestamp;

use crate::db::{Batch, Column, Effect, Kind, Row, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};

impl View {
    /// The incidents of a run, oldest first.
    pub async fn run_incidents(&self, id: RunId) -> Result<Vec<PastIncident>> {
        read!(self, "incidents", |tx, id| of_run(tx, *id))
    }

    /// How many incidents of a kind there were since a moment, counted up to `most`.
    pub async fn count_incidents(&self, incident: Incident, since: Timestamp, most: u32) -> Result<u64> {
        read!(self.read_by_index, "count incidents", |tx, incident, since, most| count(tx, *incident, *since, *most))
    }
}

/// An incident, and what is kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastIncident {
    pub run_id: RunId,
    pub task_id: TaskId,
    pub at: Timestamp,
    pub incident: Incident,
    pub worker: Option<String>,
    /// What the worker said, as JSON.
    pub detail: Option<String>,
}

/// An incident that is to be kept.
pub(super) struct Noted<'a> {
    pub(super) run_id: RunId,
    pub(super) task_id: TaskId,
    pub(super) at: Timestamp,
    pub(super) incident: Incident,
    pub(super) worker: Option<&'a str>,
    pub(super) detail: Option<&'a str>,
}

impl<'a> Noted<'a> {
    /// The incident of a change, where it has one.
    pub(super) fn of(change: &'a Change, at: Timestamp) -> Option<Self> {
        Some(Self {
            run_id: change.after.run_id,
            task_id: change.expect_task?,
            at,
            incident: change.incident?,
            worker: change.after.worker.as_deref(),
            detail: None,
        })
    }
}

/// The same incident of the same claim is kept once, however often it is told.
static INSERT: Batch = Batch::new(
    "/* incidents::insert */
     INSERT INTO run_incidents (run_id, task_id, at, incident, worker, detail)
     {values @run_id, @task_id, @at, @incident, @worker, @detail}
     ON CONFLICT (run_id, task_id, incident) DO NOTHING",
    &[
        ("run_id", Kind::Id),
        ("task_id", Kind::Id),
        ("at", Kind::Int),
        ("incident", Kind::Text),
        ("worker", Kind::Text),
        ("detail", Kind::Text),
    ],
    Effect::All,
);

pub(super) async fn insert(tx: &mut Tx<'_>, incidents: &[Noted<'_>]) -> Result<()> {
    let columns = [
        Column::ids(incidents, |noted| Some(noted.run_id.uuid())),
        Column::ids(incidents, |noted| Some(noted.task_id.uuid())),
        Column::ints(incidents, |noted| Some(noted.at.micros())),
        Column::texts(incidents, |noted| Some(noted.incident.as_str())),
        Column::texts(incidents, |noted| noted.worker),
        Column::texts(incidents, |noted| noted.detail),
    ];
    tx.batch(&INSERT, &columns).await.map(drop)
}

static OF_RUN: Sql = Sql::new(
    "/* incidents::of_run */
     SELECT run_id, task_id, at, incident, worker, detail
     FROM run_incidents
     WHERE run_id = ?1
     ORDER BY at, task_id, incident",
);

async fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<PastIncident>> {
    tx.rows(&OF_RUN, &[run_id.uuid().into()], read_row).await
}

fn read_row(row: &Row<'_>) -> Result<PastIncident> {
    let mut row = row.cursor();
    Ok(PastIncident {
        run_id: RunId::from_uuid(row.id()?),
        task_id: TaskId::from_uuid(row.id()?),
        at: row.time()?,
        incident: row.word()?,
        worker: row.opt_text()?,
        detail: row.opt_text()?,
    })
}

static COUNT: Sql = Sql::new(
    "/* incidents::count */
     SELECT count(*)
     FROM (
         SELECT 1
         FROM run_incidents
         WHERE incident = ?1
           AND at >= CAST(?2 AS BIGINT)
         LIMIT CAST(?3 AS BIGINT)
     ) AS counted",
);

async fn count(tx: &mut Tx<'_>, incident: Incident, since: Timestamp, most: u32) -> Result<u64> {
    let params = [incident.as_str().into(), since.micros().into(), i64::from(most).into()];
    let counted = tx.row(&COUNT, &params, |row| row.int(0)).await?;
    Ok(u64::try_from(counted.unwrap_or(0)).unwrap_or(0))
}
