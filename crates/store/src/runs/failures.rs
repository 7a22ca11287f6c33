//! Every failed try of every run. Rows are added and never rewritten.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::fingerprint::{self, Fingerprint};
use redrive_core::id::RunId;
use redrive_core::run::{FailureRecord, Run, Workload};
use redrive_core::time::{Timestamp, whole_micros};

use crate::db::{Batch, Column, Effect, Kind, Row, Sql, Tx};
use crate::error::Result;
use crate::groups::{self, Seen};
use crate::handles::{View, read};

impl View {
    /// The failed tries of a run, oldest first.
    pub async fn run_failures(&self, id: RunId) -> Result<Vec<PastFailure>> {
        read!(self, "failures", |tx, id| of_run(tx, *id))
    }
}

static INSERT: Batch = Batch::new(
    "/* failures::insert */
     INSERT INTO run_failures (run_id, attempt, failed_at, error_class, error_group, error_message, error_traceback,
         worker, delay, stop)
     {values @run_id, @attempt, @failed_at, @error_class, @error_group, @error_message, @error_traceback, @worker, @delay,
         @stop}",
    &[
        ("run_id", Kind::Id),
        ("attempt", Kind::Int),
        ("failed_at", Kind::Int),
        ("error_class", Kind::Text),
        ("error_group", Kind::Int),
        ("error_message", Kind::Text),
        ("error_traceback", Kind::Text),
        ("worker", Kind::Text),
        ("delay", Kind::Int),
        ("stop", Kind::Text),
    ],
    Effect::All,
);

/// Adds failed tries, and notes them in their groups.
pub(super) async fn insert(tx: &mut Tx<'_>, failed: &[(&Run, &FailureRecord)]) -> Result<()> {
    let failed: Vec<(&Run, &FailureRecord, Fingerprint)> =
        failed.iter().map(|&(run, failure)| (run, failure, fingerprint::of_try(run, failure))).collect();
    let columns = [
        Column::ids(&failed, |(run, ..)| Some(run.run_id.uuid())),
        Column::ints(&failed, |(run, ..)| Some(i64::from(run.attempt))),
        Column::ints(&failed, |(_, failure, _)| Some(failure.at.micros())),
        Column::texts(&failed, |(_, failure, _)| Some(failure.class.as_str())),
        Column::ints(&failed, |(.., fingerprint)| Some(fingerprint.group.number())),
        Column::texts(&failed, |(_, failure, _)| Some(failure.message.as_str())),
        Column::texts(&failed, |(_, failure, _)| failure.trace.as_deref()),
        Column::texts(&failed, |(_, failure, _)| failure.worker.as_deref()),
        Column::ints(&failed, |(_, failure, _)| failure.delay.map(whole_micros)),
        Column::texts(&failed, |(_, failure, _)| failure.stop.map(|stop| stop.as_str())),
    ];
    tx.batch(&INSERT, &columns).await?;
    let seen: Vec<Seen<'_>> = failed
        .iter()
        .map(|(_, failure, fingerprint)| Seen {
            fingerprint: fingerprint.clone(),
            class: failure.class,
            message: &failure.message,
            at: failure.at,
        })
        .collect();
    groups::note(tx, &seen).await
}

/// A failed try, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastFailure {
    pub run_id: RunId,
    pub attempt: u32,
    pub record: FailureRecord,
}

fn read(row: &Row<'_>) -> Result<PastFailure> {
    let delay = row.opt_int(7)?.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
    Ok(PastFailure {
        run_id: RunId::from_uuid(row.id(0)?),
        attempt: u32::try_from(row.int(1)?).unwrap_or(u32::MAX),
        record: FailureRecord {
            at: Timestamp::from_micros(row.int(2)?),
            class: row.word(3)?,
            message: row.text(4)?,
            trace: row.opt_text(5)?,
            worker: row.opt_text(6)?,
            delay,
            stop: row.opt_word(8)?,
        },
    })
}

static OF_RUN: Sql = Sql::new(
    "/* failures::of_run */
     SELECT run_id, attempt, failed_at, error_class, error_message, error_traceback, worker, delay, stop
     FROM run_failures
     WHERE run_id = ?1
     ORDER BY failed_at, attempt",
);

async fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<PastFailure>> {
    tx.rows(&OF_RUN, &[run_id.uuid().into()], read).await
}

static RECENT: Sql = Sql::new(
    "/* failures::recent */
     SELECT f.run_id, f.attempt, f.failed_at, f.error_class, f.error_message, f.error_traceback, f.worker, f.delay,
         f.stop
     FROM run_failures f
     JOIN run_specs r ON r.run_id = f.run_id
     WHERE r.workload = ?1
     ORDER BY f.failed_at DESC
     LIMIT CAST(?2 AS BIGINT)",
);

/// The newest failed tries of a workload's runs, newest first.
pub(crate) async fn recent(tx: &mut Tx<'_>, workload: Workload, limit: u32) -> Result<Vec<PastFailure>> {
    tx.rows(&RECENT, &[workload.as_str().into(), i64::from(limit).into()], read).await
}
