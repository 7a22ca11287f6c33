//! One heartbeat for all runs of a worker: prolongs their leases, and says which of them are cancelled or lost.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::{RunId, TaskId};
use redrive_core::text;
use redrive_store::{HeartbeatAnswer, HeldByWorker};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::slip::{MAX_RUNS, check_name};
use super::{Caller, OutsideWorkers, Slip, timeout};
use crate::error::Result;

/// The longest that is kept of what a worker says of its progress, in bytes.
const MAX_PROGRESS: usize = 1024;

/// A run that a worker says it has.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldRun {
    pub run_id: RunId,
    pub task_id: TaskId,
    /// How far the worker is, in whatever form it likes.
    pub progress: Option<Value>,
}

impl From<HeldRun> for HeldByWorker {
    fn from(held: HeldRun) -> Self {
        let progress = held.progress.map(|said| text::cut(&said.to_string(), MAX_PROGRESS));
        Self { run_id: held.run_id, task_id: held.task_id, progress }
    }
}

/// What a worker is told of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    Ok,
    /// A person has cancelled it: stop, and report nothing.
    Cancel,
    /// It is no longer this worker's: stop, and report nothing.
    LeaseLost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaidOf {
    pub run_id: RunId,
    pub say: Say,
    /// How long the lease lasts now; nothing where it is lost.
    pub lease: Duration,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beats {
    pub runs: Vec<SaidOf>,
    pub drain: bool,
}

impl OutsideWorkers {
    /// Prolongs the leases of a worker, whether or not the worker is known.
    pub async fn heartbeat(&self, worker: &str, held: Vec<HeldRun>, caller: &Caller) -> Result<Result<Beats, Slip>> {
        if let Err(slip) = check_name("worker", worker) {
            return Ok(Err(slip));
        }
        if held.len() > MAX_RUNS {
            return Ok(Err(Slip::TooMany));
        }
        let drain = self.meet(worker, caller, None).await?;
        let (sections, lease, allowed) = (Arc::clone(&self.sections), self.lease, caller.clone());
        let until = move |run: &redrive_core::run::Run, now| {
            run.prolonged(now, lease, timeout(&sections, run)).filter(|_| allowed.may_touch(run))
        };
        let held = held.into_iter().map(HeldByWorker::from).collect();
        let beats = self.data.beat_outside(held, until).await?;
        let now = self.data.now();
        let said = |beat: redrive_store::OutsideBeat| SaidOf {
            run_id: beat.run_id,
            say: match beat.answer {
                HeartbeatAnswer::Held => Say::Ok,
                HeartbeatAnswer::Cancelled => Say::Cancel,
                HeartbeatAnswer::Lost => Say::LeaseLost,
            },
            lease: beat.until.map_or(Duration::ZERO, |until| until.since(now)),
        };
        Ok(Ok(Beats { runs: beats.into_iter().map(said).collect(), drain }))
    }
}
