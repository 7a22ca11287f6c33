//! Claiming partitions: lanes by their shares, customers in turn, nothing that is held, paused or over a limit.
//!
//! SQL only chooses candidates; `core::partition::apply` decides, and the change is written under its guard like any
//! other. Claims of partitions take turns on PostgreSQL too, so that a source's limit holds exactly across machines;
//! each is a few milliseconds for work that takes seconds.

mod customers;
mod lane;
mod room;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::id::TaskId;
use redrive_core::key::{PartitionKey, Source};
use redrive_core::lane::{Lane, quotas};
use redrive_core::partition::{self, DataEvent, Event, InFlight, Partition};
use redrive_core::run::{Run, State, Work, Workload};
use redrive_core::time::Timestamp;
use redrive_metrics::{Event as Counted, Queue};

use self::lane::{LaneEnd, fill_lane};
use super::commit::write;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::handles::{DataStore, transact};
use crate::holds;
use crate::ids::Ids;
use crate::runs;
use crate::series::Scope;
pub(super) use lane::has_any;
pub(super) use room::{ClaimRoom, gates, in_flight, source_columns};

/// "claims", as the advisory lock that makes claims take turns.
const CLAIMS: i64 = 0x636c_6169_6d73;

impl DataStore {
    /// Claims partitions and begins a run for each. The rotation goes into the next claim.
    pub async fn claim_partitions(&self, asked: PartitionClaim) -> Result<(Vec<ClaimedPartition>, Rotation)> {
        let (inner, rotation) = (Arc::clone(&self.inner), asked.rotation.clone());
        let task_id = self.inner.ids.task(self.inner.now());
        let claimed = transact!(self.inner, "claim partitions", |tx, inner, asked| {
            claim(tx, &asked, &inner.ids, task_id).await
        });
        let Err(unknown @ Error::Unknown { .. }) = claimed else { return claimed };
        match self.partitions_claimed_by(task_id).await {
            Ok(found) if !found.is_empty() => {
                tracing::warn!(partitions = found.len(), "a claim had no answer, and was found to be made");
                Ok((found, rotation))
            }
            // It may still be under way, and stays unknown.
            Ok(_) | Err(_) => Err(unknown),
        }
    }

    /// The partitions that are in flight under a task.
    async fn partitions_claimed_by(&self, task_id: TaskId) -> Result<Vec<ClaimedPartition>> {
        let runs = self.claimed_by(Workload::Extract, task_id).await?;
        let runs: Vec<Run> = runs.into_iter().map(|claimed| claimed.run).collect();
        let keys: Vec<PartitionKey> = runs.iter().filter_map(|run| run.key().cloned()).collect();
        let partitions = self.view().partitions_of(keys).await?;
        let claimed = partitions.into_iter().zip(runs);
        Ok(claimed.filter_map(|(partition, run)| Some(ClaimedPartition { partition: partition?, run })).collect())
    }
}

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct PartitionClaim {
    /// No more than can be started now.
    pub limit: u32,
    pub worker: String,
    pub lease: Duration,
    /// Only these sources; none means all.
    pub sources: Option<Vec<Source>>,
    /// The most attempts of a source in flight at once, on all machines together.
    pub max_in_flight: BTreeMap<Source, u32>,
    /// The most to take of a source now, whatever else there is room for.
    pub at_most: BTreeMap<Source, u32>,
    /// The breakers of sources: where failures are alike for long, few attempts are started.
    pub breakers: BTreeMap<Source, BreakerPolicy>,
    pub rotation: Rotation,
}

impl PartitionClaim {
    /// A claim of partitions of any source, without limits but its own.
    pub fn new(worker: impl Into<String>, limit: u32, lease: Duration) -> Self {
        Self {
            limit,
            worker: worker.into(),
            lease,
            sources: None,
            max_in_flight: BTreeMap::new(),
            at_most: BTreeMap::new(),
            breakers: BTreeMap::new(),
            rotation: Rotation::default(),
        }
    }
}

/// Where the lanes' wheel and each lane's customers stand. A worker carries it from one claim to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rotation {
    turn: u64,
    served: BTreeMap<Lane, Scope>,
}

/// A partition that was claimed, and the run that was begun for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPartition {
    pub partition: Partition,
    pub run: Run,
}

async fn claim(
    tx: &mut Tx<'_>,
    claim: &PartitionClaim,
    ids: &Ids,
    task_id: TaskId,
) -> Result<(Vec<ClaimedPartition>, Rotation)> {
    tx.exclusive(CLAIMS).await?;
    let now = tx.now();
    let holds = holds::in_force(tx, now).await?;
    let capacity = room::capacity(tx, claim, &holds, now).await?;
    let mut room = ClaimRoom::new(tx, capacity, now).await?;
    let mut rotation = claim.rotation.clone();
    let shares = quotas(rotation.turn, claim.limit);
    let mut chosen: Vec<Partition> = Vec::new();
    let mut empty: Vec<Lane> = Vec::new();
    // Looked at beforehand, so that what only one lane has is chosen by one round of questions.
    let lanes_with_work = lane::with_work(tx).await?;
    for (lane, quota) in shares.rounds(claim.limit, &lanes_with_work) {
        let left = claim.limit.saturating_sub(u32::try_from(chosen.len()).unwrap_or(u32::MAX));
        if left > 0 && !empty.contains(&lane) {
            let served = rotation.served.entry(lane).or_default();
            match fill_lane(tx, lane, quota.min(left), served, &mut room, &mut chosen).await? {
                LaneEnd::Filled => {}
                LaneEnd::Empty => empty.push(lane),
            }
        }
    }
    rotation.turn = rotation.turn.wrapping_add(u64::from(claim.limit));
    let claimed = start(tx, claim, ids, task_id, chosen).await?;
    let attempts: Vec<_> =
        claimed.iter().map(|claimed| (claimed.partition.state.key.clone(), claimed.run.run_id)).collect();
    holds::sent(tx, &holds, &attempts).await?;
    Ok((claimed, rotation))
}

async fn start(
    tx: &mut Tx<'_>,
    claim: &PartitionClaim,
    ids: &Ids,
    task_id: TaskId,
    chosen: Vec<Partition>,
) -> Result<Vec<ClaimedPartition>> {
    // Read once the partitions are there, and not while the claim waits for them: the transaction that ended the attempt before has
    // read its own time earlier, so that attempts of one partition follow one another.
    let now = tx.now();
    let mut changes = Vec::with_capacity(chosen.len());
    for candidate in &chosen {
        let attempt = InFlight { run_id: ids.run(now), task_id };
        if let Ok(change) = partition::apply(candidate, Event::Data(DataEvent::Claimed(attempt)), now) {
            changes.push(change);
        }
    }
    let took = write(tx, &changes).await?;
    let claimed: Vec<Partition> =
        changes.into_iter().zip(took).filter_map(|(change, took)| took.then_some(change.after)).collect();
    let lease_until = tx.lease_from().saturating_add(claim.lease);
    let runs: Vec<Run> =
        claimed.iter().filter_map(|partition| begun(partition, &claim.worker, lease_until, now)).collect();
    runs::insert_attempts(tx, &runs).await?;
    claimed.iter().filter_map(|partition| taken(partition, now)).for_each(|event| tx.count(event));
    Ok(claimed.into_iter().zip(runs).map(|(partition, run)| ClaimedPartition { partition, run }).collect())
}

/// What a claim counts: how long the partition could have been claimed.
fn taken(partition: &Partition, now: Timestamp) -> Option<Counted> {
    let wanted = partition.control.wanted?;
    let since = partition.control.not_before.map_or(wanted.queued_at, |at| at.max(wanted.queued_at));
    Some(Counted::Taken { queue: Queue::Lane(wanted.lane), waited: now.since(since) })
}

/// The run row of an attempt that begins now.
fn begun(partition: &Partition, worker: &str, lease_until: Timestamp, now: Timestamp) -> Option<Run> {
    let InFlight { run_id, task_id } = partition.control.active?;
    let submitted_at = partition.control.wanted.map_or(now, |wanted| wanted.queued_at);
    let work = Work::Extract(partition.state.key.clone());
    Some(Run {
        attempt: partition.state.attempt_count.saturating_add(1),
        task_id: Some(task_id),
        worker: Some(worker.to_owned()),
        started_at: Some(now),
        last_heartbeat: Some(now),
        lease_until: Some(lease_until),
        ..Run::new(run_id, work, State::Running, submitted_at)
    })
}
