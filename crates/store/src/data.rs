//! The data plane's handle: it can claim, beat, and record what happened. It has no way from failed to pending.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::{self, DataEvent, Event, InFlight, Judgement};
use redrive_core::refusal::Refused;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Fault, Run, Verdict, Workload};
use redrive_core::time::Timestamp;
use tokio::sync::watch;

use crate::cooldowns;
use crate::error::{Error, Result};
use crate::queue::{self, ClaimedRun, RunClaim};
use crate::store::Inner;
use crate::view::View;
use crate::{beats, expiry, partitions, runs};
use redrive_core::cooldown::Cooldown;

/// The data plane's handle.
///
/// It can judge an attempt:
///
/// ```
/// async fn judge(
///     data: redrive_store::DataStore, run: &redrive_core::run::Run, judgement: redrive_core::partition::Judgement,
/// ) -> redrive_store::Result<()> {
///     data.judge(run, judgement, None).await.map(drop)
/// }
/// ```
///
/// It cannot requeue a partition:
///
/// ```compile_fail
/// async fn requeue(
///     data: redrive_store::DataStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::ControlEvent<'_>)>,
/// ) -> redrive_store::Result<()> {
///     data.commit(operation, items).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct DataStore {
    pub(crate) inner: Arc<Inner>,
}

/// What a worker reports of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Completed {
        verdict: Verdict,
        metrics: Option<String>,
    },
    Failed {
        fault: Fault,
        metrics: Option<String>,
    },
    /// Given back untried.
    Released,
}

/// What became of a report.
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
    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    pub fn wakeups(&self) -> watch::Receiver<u64> {
        self.inner.db.wakeups()
    }

    /// Claims runs, oldest first.
    pub async fn claim_runs(&self, claim: RunClaim) -> Result<Vec<ClaimedRun>> {
        let now = self.inner.now();
        let task_id = self.inner.ids.task(now);
        let claim = Arc::new(claim);
        self.inner
            .db
            .write("claim runs", move |tx| {
                let claim = Arc::clone(&claim);
                Box::pin(async move { queue::claim(tx, &claim, task_id, now).await })
            })
            .await
    }

    /// Prolongs leases; says of each whether it is still held.
    pub async fn beat(&self, held: Vec<(RunId, TaskId)>, lease: Duration) -> Result<Vec<bool>> {
        let now = self.inner.now();
        let held = Arc::new(held);
        self.inner
            .db
            .write("beat", move |tx| {
                let held = Arc::clone(&held);
                Box::pin(async move { beats::beat(tx, &held, now, now.saturating_add(lease)).await })
            })
            .await
    }

    /// Records what became of ingest and process runs, all in one transaction; each stands for itself. The run is as
    /// its worker knows it, with the lease as last prolonged.
    pub async fn record(&self, reports: Vec<(Run, Report)>, policy: &RetryPolicy) -> Result<Vec<Recorded>> {
        let now = self.inner.now();
        let mut recorded = Vec::with_capacity(reports.len());
        let mut changes = Vec::with_capacity(reports.len());
        for (run, report) in reports {
            if run.workload == Workload::Extract {
                return Err(Error::Input { what: "an extraction's end", why: "it is judged with its partition" });
            }
            match run::apply(&run, event(&run, report)?, now, policy) {
                Ok(change) => {
                    changes.push(change);
                    recorded.push(Recorded::Lost);
                }
                Err(refused) => recorded.push(Recorded::Refused(refused)),
            }
        }
        if changes.is_empty() {
            return Ok(recorded);
        }
        let changes = Arc::new(changes);
        let inside = Arc::clone(&changes);
        let took = self
            .inner
            .db
            .write("record runs", move |tx| {
                let changes = Arc::clone(&inside);
                Box::pin(async move { runs::write(tx, &changes).await })
            })
            .await?;
        self.inner.db.announce();
        let changes = Arc::into_inner(changes).unwrap_or_default();
        let mut written = changes.into_iter().zip(took);
        for slot in recorded.iter_mut().filter(|slot| matches!(slot, Recorded::Lost)) {
            if let Some((change, true)) = written.next() {
                *slot = Recorded::As(change.after);
            }
        }
        Ok(recorded)
    }

    /// Records the validator's judgement of an attempt: partition, run and history in one transaction.
    pub async fn judge(&self, run: &Run, judgement: Judgement, metrics: Option<String>) -> Result<Recorded> {
        let report = match &judgement {
            Judgement::Accepted { .. } => Report::Completed { verdict: Verdict::Passed, metrics },
            Judgement::Rejected { class, message, .. } => {
                let fault = Fault { class: *class, message: message.clone(), trace: None, retry_after: None };
                Report::Failed { fault, metrics }
            }
        };
        let run_event = event(run, report)?;
        self.end_attempt("judge", run, run_event, move |attempt| DataEvent::Judged(attempt, judgement.clone())).await
    }

    /// Gives a claimed partition back untried; no attempt is counted. Where something of the worker's own failed, the
    /// run's row says what.
    pub async fn release(&self, run: &Run, why: Option<&str>) -> Result<Recorded> {
        let task_id = run.task_id.ok_or_else(|| unclaimed(run))?;
        let released = run::Event::Released { task_id, why: why.map(str::to_owned) };
        self.end_attempt("release", run, released, DataEvent::Released).await
    }

    async fn end_attempt(
        &self,
        name: &'static str,
        run: &Run,
        run_event: run::Event,
        data_event: impl Fn(InFlight) -> DataEvent + Send + Sync + 'static,
    ) -> Result<Recorded> {
        let now = self.inner.now();
        let key = runs::partition_of(run)?;
        let task_id = run.task_id.ok_or_else(|| unclaimed(run))?;
        let attempt = InFlight { run_id: run.run_id, task_id };
        let work = Arc::new((key, run_event, data_event(attempt)));
        let result = self
            .inner
            .db
            .write(name, move |tx| {
                let work = Arc::clone(&work);
                Box::pin(async move {
                    let (key, run_event, data_event) = &*work;
                    let absent = |what, id: String| Error::Absent { what, id };
                    // Runs are locked before partitions everywhere, so that no two transactions wait for each other.
                    let run = runs::get_locked(tx, attempt.run_id).await?;
                    let run = run.ok_or_else(|| absent("run", attempt.run_id.to_string()))?;
                    let partition = partitions::get_many_locked(tx, std::slice::from_ref(key))
                        .await?
                        .remove(0)
                        .ok_or_else(|| absent("partition", key.to_string()))?;
                    let run_change = run::apply(&run, run_event.clone(), now, &RetryPolicy::partitions())?;
                    let change = partition::apply(&partition, Event::Data(data_event.clone()), now)?;
                    let both = partitions::write(tx, std::slice::from_ref(&change)).await? == [true]
                        && runs::write(tx, std::slice::from_ref(&run_change)).await? == [true];
                    // Both were read under a lock, so this cannot be; if it were, half of it must not stay.
                    if !both {
                        return Err(Error::Statement { name, why: "a locked row changed".to_owned() });
                    }
                    tx.notify().await?;
                    Ok(run_change.after)
                })
            })
            .await;
        match result {
            Ok(run) => {
                self.inner.db.announce();
                Ok(Recorded::As(run))
            }
            Err(Error::Refused(refused)) => Ok(Recorded::Refused(refused)),
            Err(error) => Err(error),
        }
    }

    /// Ends runs whose lease has passed; gives them as they are now.
    pub async fn expire(
        &self,
        limit: u32,
        policy: impl Fn(&Run) -> RetryPolicy + Send + Sync + 'static,
    ) -> Result<Vec<Run>> {
        let now = self.inner.now();
        let policy = Arc::new(policy);
        let ended = self
            .inner
            .db
            .write("expire leases", move |tx| {
                let policy = Arc::clone(&policy);
                Box::pin(async move { expiry::expire(tx, now, limit, &*policy).await })
            })
            .await?;
        if !ended.is_empty() {
            self.inner.db.announce();
        }
        Ok(ended)
    }

    /// Holds back a source, or one customer of it, until then.
    pub async fn cool_down(&self, cooldown: Cooldown) -> Result<()> {
        let cooldown = Arc::new(cooldown);
        self.inner
            .db
            .write("cool down", move |tx| {
                let cooldown = Arc::clone(&cooldown);
                Box::pin(async move { cooldowns::set(tx, &cooldown).await })
            })
            .await
    }

    /// The key of the partition that an extraction is about.
    pub fn key_of(&self, run: &Run) -> Result<PartitionKey> {
        runs::partition_of(run)
    }
}

fn event(run: &Run, report: Report) -> Result<run::Event> {
    let task_id = run.task_id.ok_or_else(|| unclaimed(run))?;
    Ok(match report {
        Report::Completed { verdict, metrics } => run::Event::Completed { task_id, verdict, metrics },
        Report::Failed { fault, metrics } => run::Event::Failed { task_id, fault, metrics },
        Report::Released => run::Event::Released { task_id, why: None },
    })
}

fn unclaimed(run: &Run) -> Error {
    Error::Absent { what: "claim of run", id: run.run_id.to_string() }
}
