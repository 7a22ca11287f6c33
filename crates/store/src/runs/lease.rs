//! Leases: heartbeats prolong them, and a run whose lease ran out fails as if its worker had said so.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::breaker::{BreakerPolicy, StreakVerdict};
use redrive_core::clock;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::{self, DataEvent, InFlight, Judgement};
use redrive_core::refusal::Refused;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Event, Fault, Run, Workload};
use redrive_core::time::{Timestamp, whole_micros};

use super::bundle;
use super::counted;
use super::record::write_expired;
use super::row::get_many;
use crate::db::{Batch, Column, Effect, Kind, Sql, Tx};
use crate::error::Result;
use crate::handles::{DataStore, View, read, transact};
use crate::holds::{self, NotedVerdict};
use crate::partitions;

/// What a heartbeat found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    pub at: Timestamp,
    /// Until when the leases that are held last now.
    pub until: Timestamp,
    pub answers: Vec<HeartbeatAnswer>,
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatAnswer {
    Held,
    /// An operator has cancelled the run.
    Cancelled,
    /// The lease has passed, or the run is no longer this worker's.
    Lost,
}

/// By what a run is judged that has outlived its lease.
#[derive(Debug, Clone)]
pub struct Terms {
    pub policy: RetryPolicy,
    /// How long an attempt may take, where its lease lasts no longer.
    pub limit: Option<Duration>,
}

impl From<RetryPolicy> for Terms {
    fn from(policy: RetryPolicy) -> Self {
        Self { policy, limit: None }
    }
}

impl View {
    /// Runs of a workload whose lease has passed and that no worker has ended yet, longest ago first.
    pub async fn overdue(&self, workload: Workload, limit: u32) -> Result<Vec<Run>> {
        read!(self.read_by_index, "overdue", |tx, workload, limit| overdue(
            tx,
            (&OVERDUE, &bundle::OVERDUE),
            *workload,
            tx.now(),
            *limit
        ))
    }
}

impl DataStore {
    /// Prolongs leases; answers for each run in the order of the question.
    pub async fn beat(&self, held: Vec<(RunId, TaskId)>, lease: Duration) -> Result<Heartbeat> {
        transact!(self.inner, "beat", |tx, held| {
            let at = tx.now();
            let until = tx.lease_from().saturating_add(lease);
            // A lease that no worker has ended is there. Whether it has passed cannot be said while its end may be told by the
            // time from before the clock was set.
            let is_unsure = clock::may_be_of_before(tx.since_clock_was_set(), lease);
            let passed = if is_unsure { Timestamp::from_micros(i64::MIN) } else { at };
            Ok(Heartbeat { at, until, answers: beat(tx, &held, passed, at, until).await? })
        })
    }

    /// Ends runs of a workload whose lease has passed, each by the terms that the caller gives for it; gives them as
    /// they are now.
    pub async fn expire<T: Into<Terms>>(
        &self,
        workload: Workload,
        limit: u32,
        terms: impl Fn(&Run) -> T + Send + Sync + 'static,
    ) -> Result<Vec<Run>> {
        let terms = move |run: &Run| -> Terms { terms(run).into() };
        let inner = Arc::clone(&self.inner);
        transact!(self.inner, "expire leases", |tx, inner, terms| {
            let now = tx.now();
            let ended = expire(tx, workload, now, limit, &*terms).await?;
            let noted: Vec<_> = ended.iter().filter_map(abandoned).collect();
            holds::note(tx, &inner.ids, &noted, now).await?;
            Ok(ended)
        })
    }
}

/// A run that no worker has ended, as it is judged by the clock. While the end of its lease may be told by the time from before the
/// server's clock was set, nobody can say that the lease has passed.
pub(super) fn by_the_clock(tx: &Tx<'_>, run: Run) -> Run {
    let length = match (run.lease_until, run.last_heartbeat) {
        (Some(until), Some(beaten)) => until.since(beaten),
        (None, _) | (_, None) => Duration::ZERO,
    };
    let is_unsure = clock::may_be_of_before(tx.since_clock_was_set(), length);
    if is_unsure { Run { lease_until: None, ..run } } else { run }
}

/// The one write that is not worth reading a run for. It agrees with `Event::Beat`; a test compares them.
pub(super) static BEAT: Batch = Batch::new(
    "/* runs::beat */
     UPDATE run_claims
     SET last_heartbeat = @now, lease_until = @until, awaits_ack = 0
     {from}
     WHERE workload = (SELECT workload FROM run_specs s WHERE s.run_id = @run_id)
       AND category = (SELECT category FROM run_specs s WHERE s.run_id = @run_id)
       AND run_id = @run_id
       AND task_id = @task_id
       AND lease_until > @passed",
    &[("run_id", Kind::Id), ("task_id", Kind::Id), ("passed", Kind::Int), ("now", Kind::Int), ("until", Kind::Int)],
    Effect::Row,
);

static IS_CANCELLED: Sql = Sql::new(
    "/* runs::is_cancelled */
     SELECT CAST(1 AS BIGINT)
     FROM runs
     WHERE run_id = ?1
       AND ended_by = 'cancelled'",
);

async fn beat(
    tx: &mut Tx<'_>,
    held: &[(RunId, TaskId)],
    passed: Timestamp,
    now: Timestamp,
    until: Timestamp,
) -> Result<Vec<HeartbeatAnswer>> {
    // Bundles, and then rows in the order of their runs: as reports take them, so that neither waits for the other.
    let bundled = bundle::beat(tx, held, passed, now, until).await?;
    let mut single: Vec<(RunId, TaskId)> = held.iter().copied().filter(|(run, _)| !bundled.contains(run)).collect();
    single.sort_unstable();
    let columns = [
        Column::ids(&single, |(run, _)| Some(run.uuid())),
        Column::ids(&single, |(_, task)| Some(task.uuid())),
        Column::ints(&single, |_| Some(passed.micros())),
        Column::ints(&single, |_| Some(now.micros())),
        Column::ints(&single, |_| Some(until.micros())),
    ];
    let beaten = tx.batch(&BEAT, &columns).await?;
    let beaten: HashSet<(RunId, TaskId)> =
        single.into_iter().zip(beaten).filter(|(_, beaten)| *beaten).map(|(held, _)| held).collect();
    let mut answers = Vec::with_capacity(held.len());
    for held in held {
        let is_held = bundled.contains(&held.0) || beaten.contains(held);
        answers.push(if is_held { HeartbeatAnswer::Held } else { gone(tx, held.0).await? });
    }
    Ok(answers)
}

/// Says why a lease is gone. Few are, so that each is read by itself.
async fn gone(tx: &mut Tx<'_>, run: RunId) -> Result<HeartbeatAnswer> {
    let cancelled = tx.row(&IS_CANCELLED, &[run.uuid().into()], |row| row.int(0)).await?;
    Ok(if cancelled.is_some() { HeartbeatAnswer::Cancelled } else { HeartbeatAnswer::Lost })
}

macro_rules! overdue {
    ($name:literal, $lock:literal) => {
        Sql::new(concat!(
            $name,
            "
     SELECT run_id
     FROM run_claims
     WHERE workload = ?3
       AND lease_until <= CAST(?1 AS BIGINT)
       AND COALESCE(lease_until - last_heartbeat, 0) <= CAST(?4 AS BIGINT)
     ORDER BY lease_until
     LIMIT CAST(?2 AS BIGINT)
     ",
            $lock
        ))
    };
}

static OVERDUE: Sql = overdue!("/* runs::overdue */", "");
static EXPIRED: Sql = overdue!("/* runs::expired */", "{skip_locked}");

/// Runs whose lease has passed: those with rows of their own, and then those in bundles, each longest ago first. Claims are few, so
/// that all of a workload's are looked at.
async fn overdue(
    tx: &mut Tx<'_>,
    (single, bundled): (&Sql, &Sql),
    workload: Workload,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Run>> {
    let longest = clock::longest_endable(tx.since_clock_was_set()).map_or(i64::MAX, whole_micros);
    let params = [now.micros().into(), i64::from(limit).into(), workload.as_str().into(), longest.into()];
    let mut ids = tx.rows(single, &params, |row| row.id(0).map(RunId::from_uuid)).await?;
    let left = limit.saturating_sub(u32::try_from(ids.len()).unwrap_or(u32::MAX));
    if workload == Workload::Process && left > 0 {
        ids.extend(bundle::overdue(tx, bundled, now, longest, left).await?);
    }
    get_many(tx, &ids).await
}

async fn expire(
    tx: &mut Tx<'_>,
    workload: Workload,
    now: Timestamp,
    limit: u32,
    terms: &(dyn Fn(&Run) -> Terms + Send + Sync),
) -> Result<Vec<Run>> {
    let expired = overdue(tx, (&EXPIRED, &bundle::EXPIRED), workload, now, limit).await?;
    let end = |run: &Run| {
        let Terms { policy, limit } = terms(run);
        run::apply(run, Event::LeaseExpired { policy, limit }, now)
    };
    let changes = expired.iter().map(end).collect::<Result<Vec<_>, Refused>>()?;
    abandon(tx, &expired, now, terms).await?;
    let took = write_expired(tx, &changes).await?;
    if took.contains(&true) {
        // An attempt that has ended makes room under its source's limit.
        tx.wake_for(workload);
    }
    Ok(changes.into_iter().zip(took).filter_map(|(change, took)| took.then_some(change.after)).collect())
}

/// What the breaker has to know of an attempt whose lease has passed: it may have been a canary.
fn abandoned(run: &Run) -> Option<NotedVerdict<'_>> {
    Some(NotedVerdict {
        key: run.key()?,
        run_id: run.run_id,
        worker: run.worker.as_deref().unwrap_or("a worker"),
        policy: BreakerPolicy::OFF,
        answer: StreakVerdict::Abandoned,
        message: "",
    })
}

/// Rejects abandoned attempts as the validator would, so that a partition that kills its workers runs out of attempts.
async fn abandon(
    tx: &mut Tx<'_>,
    expired: &[Run],
    now: Timestamp,
    terms: &(dyn Fn(&Run) -> Terms + Send + Sync),
) -> Result<()> {
    let attempts = expired.iter().filter_map(|run| {
        let attempt = InFlight { run_id: run.run_id, task_id: run.task_id? };
        Some((run.key()?.clone(), (run, attempt)))
    });
    let (keys, attempts): (Vec<PartitionKey>, Vec<(&Run, InFlight)>) = attempts.unzip();
    let found = partitions::get_many_locked(tx, &keys).await?;
    let mut changes = Vec::with_capacity(attempts.len());
    for (partition, (run, attempt)) in found.into_iter().zip(attempts) {
        let Fault { class, message, .. } = Fault::lease_expired();
        let judged = DataEvent::Judged(attempt, Judgement::Rejected { class, message, not_before: None });
        let Some(partition) = partition else { continue };
        match partition::apply(&partition, partition::Event::Data(judged), now) {
            Ok(change) => changes.push((change, run)),
            // The partition has moved on without this run; only the run's own row is left to end.
            Err(Refused::NoOp(_) | Refused::Rule(_)) => {}
        }
    }
    let (changes, runs): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
    let took = partitions::write(tx, &changes).await?;
    for ((change, run), _) in changes.iter().zip(runs).zip(took).filter(|(_, took)| *took) {
        if let Some(exhausted) = counted::of_abandoned(change, &terms(run).policy) {
            tx.count(exhausted);
        }
    }
    Ok(())
}
