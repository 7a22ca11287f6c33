//! Claiming partitions: lanes by their shares, customers in turn, nothing that is held, paused or over a limit.
//!
//! SQL only chooses candidates; `core::partition::apply` decides, and the change is written under its guard like any
//! other. Claims of partitions take turns on PostgreSQL too, so that a source's limit holds exactly across machines;
//! each is a few milliseconds for work that takes seconds.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::hold::{Hold, HoldScope};
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::{CustomerId, PartitionKey, Source};
use redrive_core::lane::{self, Lane};
use redrive_core::partition::{self, DataEvent, Event, InFlight, Partition};
use redrive_core::run::{Run, State, Work, Workload};
use redrive_core::share::{Capacity, CustomerQueue, Gate, take_round_robin};
use redrive_core::time::Timestamp;
use redrive_metrics::{Event as Counted, Queue};

use super::commit::write;
use super::row::read_from;
use crate::db::{Column, Kind, Lookup, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{DataStore, transact};
use crate::holds;
use crate::ids::Ids;
use crate::runs;
use crate::series::{self, Scope, source_no};

/// "claims", as the advisory lock that makes claims take turns.
const CLAIMS: i64 = 0x636c_6169_6d73;
/// How many customers are looked at together where one with something claimable is enough.
const LOOKED_AT: usize = 16;

impl DataStore {
    /// Claims partitions and begins a run for each. The rotation goes into the next claim.
    pub async fn claim_partitions(&self, asked: PartitionClaim) -> Result<(Vec<ClaimedPartition>, Rotation)> {
        let (inner, rotation) = (Arc::clone(&self.inner), asked.rotation.clone());
        let task_id = self.inner.ids.task(self.inner.now());
        let claimed = transact!(self.inner, "claim partitions", |tx, inner, asked| {
            claim(tx, &asked, &inner.ids, task_id, tx.now()).await
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

/// What there is room for, and what of a customer who may be served is withheld all the same.
pub(super) struct Room<'a> {
    capacity: Capacity<'a>,
    /// Series that are held by themselves.
    held_series: Vec<i64>,
    now: Timestamp,
}

impl<'a> Room<'a> {
    pub(super) async fn new(tx: &mut Tx<'_>, capacity: Capacity<'a>, now: Timestamp) -> Result<Self> {
        let names = |scope: &'_ HoldScope| match scope {
            HoldScope::Query(source, customer, query) => {
                Some((source.to_string(), customer.to_string(), query.to_string()))
            }
            HoldScope::Source(_) | HoldScope::Customer(..) => None,
        };
        let held: Vec<_> = capacity.held_queries().into_iter().filter_map(names).collect();
        let held: Vec<_> = held.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        let held_series = if held.is_empty() { vec![] } else { series::ids_of(tx, &held).await? };
        Ok(Self { capacity, held_series, now })
    }
}

async fn claim(
    tx: &mut Tx<'_>,
    claim: &PartitionClaim,
    ids: &Ids,
    task_id: TaskId,
    now: Timestamp,
) -> Result<(Vec<ClaimedPartition>, Rotation)> {
    tx.exclusive(CLAIMS).await?;
    let holds = holds::in_force(tx, now).await?;
    let capacity = capacity(tx, claim, &holds, now).await?;
    let mut room = Room::new(tx, capacity, now).await?;
    let mut rotation = claim.rotation.clone();
    let quotas = lane::quotas(rotation.turn, claim.limit);
    let mut chosen: Vec<Partition> = Vec::new();
    let mut empty: Vec<Lane> = Vec::new();
    let rounds = quotas.first.iter().copied().chain(quotas.leftovers.iter().map(|&lane| (lane, claim.limit)));
    for (lane, quota) in rounds {
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
    let claimed = start(tx, claim, ids, task_id, now, chosen).await?;
    let attempts: Vec<_> =
        claimed.iter().map(|claimed| (claimed.partition.state.key.clone(), claimed.run.run_id)).collect();
    holds::sent(tx, &holds, &attempts).await?;
    Ok((claimed, rotation))
}

/// What may be claimed now: each limited source has what is not in flight, and no more than the worker will take of it.
async fn capacity<'a>(
    tx: &mut Tx<'_>,
    claim: &'a PartitionClaim,
    holds: &[Hold],
    now: Timestamp,
) -> Result<Capacity<'a>> {
    let mut gates = gates(tx, holds, now).await?;
    gates.extend(careful(tx, &claim.breakers).await?);
    let limited: Vec<Source> = claim.max_in_flight.keys().cloned().collect();
    let active = in_flight(tx, &limited).await?;
    let mut left = claim.at_most.clone();
    for ((source, &limit), active) in claim.max_in_flight.iter().zip(active) {
        let free = limit.saturating_sub(active);
        left.entry(source.clone()).and_modify(|left| *left = free.min(*left)).or_insert(free);
    }
    Ok(Capacity::new(claim.sources.as_deref(), gates, left))
}

static RUNNING: Lookup = Lookup::new(
    "/* claim::running */
     SELECT 1
     FROM run_claims
     WHERE workload = 'extract' AND category = '' AND run_id = @run_id",
    &[("run_id", Kind::Id)],
);

/// What the holds in force let through now.
pub(super) async fn gates(tx: &mut Tx<'_>, holds: &[Hold], now: Timestamp) -> Result<Vec<Gate>> {
    let canaries: Vec<RunId> = holds.iter().filter_map(|hold| hold.probing()?.canary).collect();
    let columns = [Column::ids(&canaries, |run| Some(run.uuid()))];
    let running = tx.lookup(&RUNNING, &columns, |_| Ok(())).await?;
    let running: Vec<RunId> = running.into_iter().map(|(nth, ())| canaries[nth]).collect();
    let gate = |hold: &Hold| {
        let left = hold.lets_through(now, |run| running.contains(&run));
        Gate { scope: hold.scope.clone(), left }
    };
    Ok(holds.iter().map(gate).collect())
}

static OF_CUSTOMER_IN_FLIGHT: Lookup = Lookup::new(
    concat!(
        "/* claim::of_customer_in_flight */
     SELECT count(*)
     FROM partition_control
     WHERE active_run_id IS NOT NULL
         AND source_no = ",
        source_no!("@source"),
        "
         AND scope = (
             SELECT scope
             FROM series
             WHERE source = @source AND customer_id = @customer_id
             ORDER BY query_name
             LIMIT 1)"
    ),
    &[("source", Kind::Text), ("customer_id", Kind::Text)],
);

/// What may still be started of scopes whose last verdicts failed alike.
async fn careful(tx: &mut Tx<'_>, breakers: &BTreeMap<Source, BreakerPolicy>) -> Result<Vec<Gate>> {
    let limits = holds::careful(tx, breakers).await?;
    let mut gates = Vec::with_capacity(limits.len());
    for (scope, limit) in limits {
        let active = match &scope {
            HoldScope::Source(source) => in_flight(tx, std::slice::from_ref(source)).await?[0],
            HoldScope::Customer(source, customer) | HoldScope::Query(source, customer, _) => {
                let columns = [
                    Column::texts(std::slice::from_ref(source), |source| Some(source.as_str())),
                    Column::texts(std::slice::from_ref(customer), |customer| Some(customer.as_str())),
                ];
                let counts = tx.lookup(&OF_CUSTOMER_IN_FLIGHT, &columns, |mut row| row.count()).await?;
                counts.first().map_or(0, |(_, count)| *count)
            }
        };
        gates.push(Gate { left: limit.saturating_sub(active), scope });
    }
    Ok(gates)
}

static IN_FLIGHT: Lookup = Lookup::new(
    concat!(
        "/* claim::in_flight */
     SELECT count(*)
     FROM partition_control
     WHERE active_run_id IS NOT NULL
         AND source_no = ",
        source_no!("@source"),
        ""
    ),
    &[("source", Kind::Text)],
);

/// How many attempts of each source are in flight, on all machines together.
pub(super) async fn in_flight(tx: &mut Tx<'_>, sources: &[Source]) -> Result<Vec<u32>> {
    let counts = tx.lookup(&IN_FLIGHT, &source_columns(sources), |mut row| row.int()).await?;
    let mut active = vec![0; sources.len()];
    for (nth, count) in counts {
        active[nth] = u32::try_from(count).unwrap_or(u32::MAX);
    }
    Ok(active)
}

pub(super) fn source_columns(sources: &[Source]) -> [Column<'_>; 1] {
    [Column::texts(sources, |source| Some(source.as_str()))]
}

/// The next customers in a lane who have something claimable: one step down the index for each. The low half of a scope is
/// a series of that customer.
static NEXT_CUSTOMERS: Sql = Sql::new(
    "/* claim::next_customers */
     WITH RECURSIVE found(scope, nth) AS (
         SELECT (
             SELECT min(scope)
             FROM partition_control
             WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL
                 AND lane = ?1 AND scope > CAST(?2 AS BIGINT)), 1
         UNION ALL
         SELECT (
             SELECT min(c.scope)
             FROM partition_control c
             WHERE c.lane IS NOT NULL AND c.active_run_id IS NULL AND c.paused_at IS NULL
                 AND c.lane = ?1 AND c.scope > found.scope), found.nth + 1
         FROM found
         WHERE found.scope IS NOT NULL AND found.nth < CAST(?3 AS BIGINT))
     SELECT found.scope, s.source, s.customer_id
     FROM found
     CROSS JOIN series s
     WHERE s.series_id = found.scope & 4294967295
     ORDER BY found.scope",
);

macro_rules! of_customers {
    ($more:literal) => {
        concat!(
            "/* claim::of_customers */
     SELECT {partition}
     {from_control}
         AND c.lane IS NOT NULL AND c.active_run_id IS NULL AND c.paused_at IS NULL
         AND c.lane = @lane AND c.scope = @scope
         AND (c.not_before IS NULL OR c.not_before <= @now)",
            $more,
            "
     ORDER BY c.queued_at, c.series_id, c.period
     LIMIT @limit"
        )
    };
}

const OF_CUSTOMERS_COLUMNS: [(&str, Kind); 4] =
    [("lane", Kind::Text), ("scope", Kind::Int), ("limit", Kind::Int), ("now", Kind::Int)];
static OF_CUSTOMERS: Lookup = Lookup::new(of_customers!(""), &OF_CUSTOMERS_COLUMNS);
/// Where queries are held by themselves: their entries are left out while the index is read.
const OF_CUSTOMERS_BUT: &str = of_customers!(
    "
         AND c.series_id NOT IN (%held)"
);

/// A customer of a source.
#[derive(Debug)]
struct Customer {
    source: Source,
    customer_id: CustomerId,
    scope: Scope,
}

impl Customer {
    fn read(row: &Row<'_>) -> Result<Self> {
        let bad = |error: redrive_core::key::KeyError| Error::row("series", error);
        let mut row = row.cursor();
        Ok(Self {
            scope: Scope::from_row(row.int()?),
            source: row.text()?.try_into().map_err(bad)?,
            customer_id: row.text()?.try_into().map_err(bad)?,
        })
    }

    fn has(&self, partition: &Partition) -> bool {
        let key = &partition.state.key;
        key.source == self.source && key.customer_id == self.customer_id
    }
}

/// Why no more was chosen of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneEnd {
    Filled,
    /// Nobody in it has anything more that may be claimed.
    Empty,
}

/// Chooses up to `quota` partitions of a lane: as many customers as there are places, the same number from each as far
/// as it goes, and then the customers after them.
async fn fill_lane(
    tx: &mut Tx<'_>,
    lane: Lane,
    quota: u32,
    served: &mut Scope,
    room: &mut Room<'_>,
    chosen: &mut Vec<Partition>,
) -> Result<LaneEnd> {
    let goal = chosen.len().saturating_add(usize::try_from(quota).unwrap_or(usize::MAX));
    let mut cursor = CustomerCursor::after(lane, *served);
    while chosen.len() < goal {
        let places = goal - chosen.len();
        let customers = cursor.next(tx, places, &room.capacity).await?;
        if customers.is_empty() {
            return Ok(LaneEnd::Empty);
        }
        take_from(tx, lane, &customers, goal, served, room, chosen).await?;
    }
    Ok(LaneEnd::Filled)
}

/// Takes from some customers in turn until the goal is met or they have no more.
async fn take_from(
    tx: &mut Tx<'_>,
    lane: Lane,
    customers: &[Customer],
    goal: usize,
    served: &mut Scope,
    room: &mut Room<'_>,
    chosen: &mut Vec<Partition>,
) -> Result<()> {
    let mut depth = (goal - chosen.len()).div_ceil(customers.len().max(1));
    loop {
        // What was chosen already is not yet marked and comes again.
        let known = |customer: &Customer| chosen.iter().filter(|partition| customer.has(partition)).count();
        let limits: Vec<usize> = customers.iter().map(|customer| depth.saturating_add(known(customer))).collect();
        let mut waiting = waiting(tx, lane, customers, &limits, room).await?;
        let more = waiting.iter().zip(&limits).any(|(rows, limit)| rows.len() == *limit);
        for rows in &mut waiting {
            rows.retain(|row| !chosen.iter().any(|taken| taken.state.key == row.state.key));
        }
        let mut queues: Vec<CustomerQueue<Partition>> = customers
            .iter()
            .zip(waiting)
            .map(|(customer, rows)| CustomerQueue {
                source: customer.source.clone(),
                customer_id: customer.customer_id.clone(),
                waiting: rows.into_iter(),
            })
            .collect();
        let taken = take_round_robin(&mut queues, goal - chosen.len(), &mut room.capacity);
        if let Some((last, _)) = taken.last() {
            *served = customers[*last].scope;
        }
        let none = taken.is_empty();
        chosen.extend(taken.into_iter().map(|(_, partition)| partition));
        if chosen.len() >= goal || !more || none {
            return Ok(());
        }
        depth = depth.saturating_mul(2);
    }
}

/// What each customer has waiting in a lane, longest first, up to a limit each.
async fn waiting(
    tx: &mut Tx<'_>,
    lane: Lane,
    customers: &[Customer],
    limits: &[usize],
    room: &Room<'_>,
) -> Result<Vec<Vec<Partition>>> {
    let columns = [
        Column::texts(customers, |_| Some(lane.as_str())),
        Column::ints(customers, |customer| Some(customer.scope.number())),
        Column::ints(limits, |&limit| Some(i64::try_from(limit).unwrap_or(i64::MAX))),
        Column::ints(customers, |_| Some(room.now.micros())),
    ];
    let found = if room.held_series.is_empty() {
        tx.lookup(&OF_CUSTOMERS, &columns, |mut row| read_from(&mut row)).await?
    } else {
        let held: Vec<String> = room.held_series.iter().map(ToString::to_string).collect();
        let sql = OF_CUSTOMERS_BUT.replace("%held", &held.join(", "));
        tx.built_lookup(&sql, &OF_CUSTOMERS_COLUMNS, &columns, |nth, mut row| Ok((nth, read_from(&mut row)?))).await?
    };
    let mut waiting: Vec<Vec<Partition>> = customers.iter().map(|_| Vec::new()).collect();
    for (nth, partition) in found {
        waiting[nth].push(partition);
    }
    Ok(waiting)
}

/// Whether a lane has anything that may be claimed.
pub(super) async fn has_any(tx: &mut Tx<'_>, lane: Lane, room: &Room<'_>) -> Result<bool> {
    let mut cursor = CustomerCursor::first(lane);
    loop {
        let customers = cursor.next(tx, LOOKED_AT, &room.capacity).await?;
        if customers.is_empty() {
            return Ok(false);
        }
        let limits = vec![1; customers.len()];
        if waiting(tx, lane, &customers, &limits, room).await?.iter().any(|found| !found.is_empty()) {
            return Ok(true);
        }
    }
}

/// Whose turn it is in a lane: those after the one who was served last, and round to that one again.
struct CustomerCursor {
    lane: Lane,
    after: Scope,
    round: Round,
}

/// How far a cursor has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// From the first customer to the last.
    Whole,
    /// From the one after this to the last; from the first to this is still to come.
    After(Scope),
    UpTo(Scope),
    Done,
}

impl CustomerCursor {
    /// From the first customer on.
    fn first(lane: Lane) -> Self {
        Self { lane, after: Scope::default(), round: Round::Whole }
    }

    fn after(lane: Lane, served: Scope) -> Self {
        if served == Scope::default() {
            return Self::first(lane);
        }
        Self { lane, after: served, round: Round::After(served) }
    }

    /// The next customers who may be served now, up to `wanted`; none when all have had their turn.
    async fn next(&mut self, tx: &mut Tx<'_>, wanted: usize, capacity: &Capacity<'_>) -> Result<Vec<Customer>> {
        let mut found: Vec<Customer> = Vec::new();
        while found.len() < wanted && self.round != Round::Done {
            let step = i64::try_from(wanted).unwrap_or(i64::MAX);
            let params = [self.lane.as_str().into(), self.after.number().into(), step.into()];
            let customers = tx.rows(&NEXT_CUSTOMERS, &params, Customer::read).await?;
            let is_last = customers.len() < wanted;
            if self.take(customers, wanted, capacity, &mut found).is_continue() && is_last {
                self.go_round();
            }
        }
        Ok(found)
    }

    /// Takes those who may be served; breaks off where what follows is to be asked for again.
    fn take(
        &mut self,
        customers: Vec<Customer>,
        wanted: usize,
        capacity: &Capacity<'_>,
        found: &mut Vec<Customer>,
    ) -> ControlFlow<()> {
        for customer in customers {
            if found.len() >= wanted {
                return ControlFlow::Break(());
            }
            if matches!(self.round, Round::UpTo(end) if customer.scope > end) {
                self.round = Round::Done;
                return ControlFlow::Break(());
            }
            if !capacity.admits_source(&customer.source) {
                // None of this source's customers will do, however many there are.
                self.after = customer.scope.end_of_source();
                return ControlFlow::Break(());
            }
            self.after = customer.scope;
            if capacity.admits(&customer.source, &customer.customer_id) {
                found.push(customer);
            }
        }
        ControlFlow::Continue(())
    }

    fn go_round(&mut self) {
        match self.round {
            Round::After(served) => (self.round, self.after) = (Round::UpTo(served), Scope::default()),
            Round::Whole | Round::UpTo(_) | Round::Done => self.round = Round::Done,
        }
    }
}

async fn start(
    tx: &mut Tx<'_>,
    claim: &PartitionClaim,
    ids: &Ids,
    task_id: TaskId,
    now: Timestamp,
    chosen: Vec<Partition>,
) -> Result<Vec<ClaimedPartition>> {
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
