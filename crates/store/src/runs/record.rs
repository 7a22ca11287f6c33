//! What became of runs: written under the fence's guard, together with their failures and, for an extraction, its
//! partition.

use std::sync::Arc;

use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::{self, DataEvent, InFlight, Judgement};
use redrive_core::refusal::Refused;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Change, End, Event, Fault, Run, State, Verdict, Workload};
use redrive_core::time::Timestamp;

use super::failures;
use super::row::get_locked;
use crate::db::{Batch, Column, Effect, Kind, Tx};
use crate::error::{Error, Result};
use crate::handles::ControlStore;
use crate::handles::DataStore;
use crate::partitions;

/// What became of a worker's report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every answer is the large one")]
pub enum Recorded {
    As(Run),
    /// It came from a claim that is no longer the current one, or too late; nothing was changed.
    Refused(Refused),
    /// The run was taken from this worker in the meantime; nothing was changed.
    Lost,
}

impl DataStore {
    /// Records how workers ended ingest and process runs, all in one transaction; each stands for itself. The run is as
    /// its worker knows it, with the lease as last prolonged.
    pub async fn record(&self, ends: Vec<(Run, End)>) -> Result<Vec<Recorded>> {
        let now = self.inner.now();
        let mut changes = Vec::with_capacity(ends.len());
        let mut decided = Vec::with_capacity(ends.len());
        for (run, end) in ends {
            if run.workload() == Workload::Extract {
                return Err(Error::Input { what: "an extraction's end", why: "it is judged with its partition" });
            }
            let event = Event::Ended { task_id: claim_of(&run)?, end };
            decided.push(run::apply(&run, event, now).map(|change| changes.push(change)));
        }
        let mut written = self.write_runs("record runs", changes).await?.into_iter();
        let recorded = decided.into_iter().map(|decided| match decided {
            Ok(()) => written.next().flatten().map_or(Recorded::Lost, Recorded::As),
            Err(refused) => Recorded::Refused(refused),
        });
        Ok(recorded.collect())
    }

    /// Writes changes in one transaction; gives each run whose change took effect.
    async fn write_runs(&self, name: &'static str, changes: Vec<Change>) -> Result<Vec<Option<Run>>> {
        if changes.is_empty() {
            return Ok(vec![]);
        }
        let changes = Arc::new(changes);
        let inside = Arc::clone(&changes);
        let took = self
            .inner
            .db
            .write(name, move |tx| {
                let changes = Arc::clone(&inside);
                Box::pin(async move { write(tx, &changes).await })
            })
            .await?;
        let changes = Arc::unwrap_or_clone(changes);
        Ok(changes.into_iter().zip(took).map(|(change, took)| took.then_some(change.after)).collect())
    }

    /// Records the validator's judgement of an attempt: partition, run and history in one transaction.
    pub async fn judge(&self, run: &Run, judgement: Judgement, metrics: Option<String>) -> Result<Recorded> {
        let end = judged(&judgement, metrics);
        self.end_attempt("judge", run, end, move |attempt| DataEvent::Judged(attempt, judgement.clone())).await
    }

    /// Gives a claimed partition back untried; no attempt is counted. Where something on the worker's side failed, the
    /// run's row says what.
    pub async fn release(&self, run: &Run, why: Option<&str>) -> Result<Recorded> {
        let end = End::Released { why: why.map(str::to_owned) };
        self.end_attempt("release", run, end, DataEvent::Released).await
    }

    async fn end_attempt(
        &self,
        name: &'static str,
        run: &Run,
        end: End,
        data_event: impl Fn(InFlight) -> DataEvent,
    ) -> Result<Recorded> {
        let now = self.inner.now();
        let attempt = InFlight { run_id: run.run_id, task_id: claim_of(run)? };
        let no_partition = Error::Input { what: "an attempt", why: "the run is of no partition" };
        let key = run.key().cloned().ok_or(no_partition)?;
        let ending = Arc::new(Ending { name, key, attempt, end, data_event: data_event(attempt), now });
        let result = self
            .inner
            .db
            .write(name, move |tx| {
                let ending = Arc::clone(&ending);
                Box::pin(async move { ending.write(tx).await })
            })
            .await;
        match result {
            Ok(run) => Ok(Recorded::As(run)),
            Err(Error::Refused(refused)) => Ok(Recorded::Refused(refused)),
            Err(error) => Err(error),
        }
    }
}

/// What a judgement means for the attempt's run.
pub(super) fn judged(judgement: &Judgement, metrics: Option<String>) -> End {
    match judgement {
        Judgement::Accepted { .. } => End::Completed { verdict: Verdict::Passed, metrics },
        Judgement::Rejected { class, message, .. } => {
            let fault = Fault { class: *class, message: message.clone(), trace: None, retry_after: None };
            // Any policy does: only the control plane retries a partition.
            End::Failed { fault, metrics, policy: RetryPolicy::partitions() }
        }
    }
}

/// The end of an attempt, for its run and its partition.
struct Ending {
    name: &'static str,
    key: PartitionKey,
    attempt: InFlight,
    end: End,
    data_event: DataEvent,
    now: Timestamp,
}

impl Ending {
    async fn write(&self, tx: &mut Tx<'_>) -> Result<Run> {
        let absent = |what, id: String| Error::Absent { what, id };
        let InFlight { run_id, task_id } = self.attempt;
        // Runs are locked before partitions everywhere, so that no two transactions wait for each other.
        let run = get_locked(tx, run_id).await?.ok_or_else(|| absent("run", run_id.to_string()))?;
        let partition = partitions::get_many_locked(tx, std::slice::from_ref(&self.key)).await?;
        let partition =
            partition.into_iter().flatten().next().ok_or_else(|| absent("partition", self.key.to_string()))?;
        let run_change = run::apply(&run, Event::Ended { task_id, end: self.end.clone() }, self.now)?;
        let change = partition::apply(&partition, partition::Event::Data(self.data_event.clone()), self.now)?;
        let both = partitions::write(tx, std::slice::from_ref(&change)).await? == [true]
            && write(tx, std::slice::from_ref(&run_change)).await? == [true];
        // Both were read under a lock, so this cannot be; if it were, half of it must not stay.
        if !both {
            return Err(Error::Statement { name: self.name, why: "a locked row changed".to_owned() });
        }
        tx.wake();
        Ok(run_change.after)
    }
}

impl ControlStore {
    /// Grants a dead run one more attempt.
    pub async fn retry_run(&self, id: RunId) -> Result<Run> {
        self.move_run("retry run", id, Event::RetryRequested).await
    }

    /// Ends a run that is not finished; its worker's result will be refused.
    pub async fn cancel_run(&self, id: RunId, by: &str) -> Result<Run> {
        self.move_run("cancel run", id, Event::Cancelled { by: by.to_owned() }).await
    }

    async fn move_run(&self, name: &'static str, id: RunId, event: Event) -> Result<Run> {
        let now = self.inner.now();
        self.inner
            .db
            .write(name, move |tx| {
                let event = event.clone();
                Box::pin(async move {
                    let absent = || Error::Absent { what: "run", id: id.to_string() };
                    let run = get_locked(tx, id).await?.ok_or_else(absent)?;
                    let change = run::apply(&run, event, now)?;
                    write(tx, std::slice::from_ref(&change)).await?;
                    Ok(change.after)
                })
            })
            .await
    }
}

/// The fence of the claim under which a worker speaks.
fn claim_of(run: &Run) -> Result<TaskId> {
    run.task_id.ok_or_else(|| Error::Absent { what: "claim of run", id: run.run_id.to_string() })
}

pub(crate) static UPDATE: Batch = Batch::new(
    "/* runs::write */
     UPDATE runs
     SET state = @state, attempt = @attempt, retry_count = @retry_count, next_retry_at = @next_retry_at,
         error_class = @error_class, error_message = @error_message, error_traceback = @error_traceback,
         task_id = @task_id, worker = @worker, started_at = @started_at, last_heartbeat = @last_heartbeat,
         lease_until = @lease_until, completed_at = @completed_at, verdict = @verdict, metrics = @metrics,
         ended_by = @ended_by
     {from}
     WHERE run_id = @run_id
       AND state = @expect_state
       AND task_id IS NOT DISTINCT FROM @expect_task",
    &[
        ("run_id", Kind::Id),
        ("expect_state", Kind::Text),
        ("expect_task", Kind::Id),
        ("state", Kind::Text),
        ("attempt", Kind::Int),
        ("retry_count", Kind::Int),
        ("next_retry_at", Kind::Int),
        ("error_class", Kind::Text),
        ("error_message", Kind::Text),
        ("error_traceback", Kind::Text),
        ("task_id", Kind::Id),
        ("worker", Kind::Text),
        ("started_at", Kind::Int),
        ("last_heartbeat", Kind::Int),
        ("lease_until", Kind::Int),
        ("completed_at", Kind::Int),
        ("verdict", Kind::Text),
        ("metrics", Kind::Text),
        ("ended_by", Kind::Text),
    ],
    Effect::Row,
);

/// How many values [`UPDATE`] takes for each run.
pub(crate) const UPDATE_COLUMNS: usize = 19;

/// Writes changes whose run is still as it was, with their failures; says of each whether it was.
pub(super) async fn write(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<bool>> {
    let columns: [_; UPDATE_COLUMNS] = [
        Column::ids(changes, |change| Some(change.after.run_id.uuid())),
        Column::texts(changes, |change| Some(change.expect_state.as_str())),
        Column::ids(changes, |change| change.expect_task.map(TaskId::uuid)),
        Column::texts(changes, |change| Some(change.after.state.as_str())),
        Column::ints(changes, |change| Some(i64::from(change.after.attempt))),
        Column::ints(changes, |change| Some(i64::from(change.after.retry_count))),
        Column::ints(changes, |change| change.after.next_retry_at.map(Timestamp::micros)),
        Column::texts(changes, |change| change.after.error_class.map(|class| class.as_str())),
        Column::texts(changes, |change| change.after.error_message.as_deref()),
        Column::texts(changes, |change| change.after.error_traceback.as_deref()),
        Column::ids(changes, |change| change.after.task_id.map(TaskId::uuid)),
        Column::texts(changes, |change| change.after.worker.as_deref()),
        Column::ints(changes, |change| change.after.started_at.map(Timestamp::micros)),
        Column::ints(changes, |change| change.after.last_heartbeat.map(Timestamp::micros)),
        Column::ints(changes, |change| change.after.lease_until.map(Timestamp::micros)),
        Column::ints(changes, |change| change.after.completed_at.map(Timestamp::micros)),
        Column::texts(changes, |change| change.after.verdict.map(|verdict| verdict.as_str())),
        Column::texts(changes, |change| change.after.metrics.as_deref()),
        Column::texts(changes, |change| change.after.ended_by.map(|by| by.as_str())),
    ];
    let took = tx.batch(&UPDATE, &columns).await?;
    let failed: Vec<_> = changes
        .iter()
        .zip(&took)
        .filter(|(_, took)| **took)
        .filter_map(|(change, _)| change.failure.as_ref().map(|failure| (&change.after, failure)))
        .collect();
    failures::insert(tx, &failed).await?;
    if changes.iter().zip(&took).any(|(change, took)| *took && change.after.state == State::Queued) {
        tx.wake();
    }
    Ok(took)
}
