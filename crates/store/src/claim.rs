//! Claiming partitions: lanes by their shares, customers in turn, nothing that is cooling down, paused or over a limit.
//!
//! SQL only chooses candidates; `core::partition::apply` decides, and the change is written under its guard like any
//! other. Claims of partitions take turns on PostgreSQL too, so that a source's limit holds exactly across machines;
//! each is a few milliseconds for work that takes seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::key::{CustomerId, Source};
use redrive_core::lane::{self, Lane};
use redrive_core::partition::{self, DataEvent, Event, InFlight, Partition};
use redrive_core::run::{Run, State, Work};
use redrive_core::time::Timestamp;

use crate::cooldowns::{self, Cooldown};
use crate::db::{Sql, Tx};
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::partition_row::{self, partition_columns};
use crate::runs;

/// "claims", as the advisory lock that makes claims take turns.
const CLAIMS: i64 = 0x636c_6169_6d73;

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
    pub rotation: Rotation,
}

/// Where the lanes' wheel and each lane's customers stand. A worker carries it from one claim to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rotation {
    turn: u64,
    served: BTreeMap<Lane, String>,
}

/// A partition that was claimed, and the run that was begun for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPartition {
    pub partition: Partition,
    pub run: Run,
}

pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    claim: &PartitionClaim,
    ids: &Ids,
    now: Timestamp,
) -> Result<(Vec<ClaimedPartition>, Rotation)> {
    tx.exclusive(CLAIMS).await?;
    let mut room = Room::new(tx, claim, now).await?;
    let mut rotation = claim.rotation.clone();
    let quotas = lane::quotas(rotation.turn, claim.limit);
    let mut chosen: Vec<Partition> = Vec::new();
    let rounds = quotas.first.iter().copied().chain(quotas.leftovers.iter().map(|&lane| (lane, claim.limit)));
    for (lane, quota) in rounds {
        let left = claim.limit.saturating_sub(u32::try_from(chosen.len()).unwrap_or(u32::MAX));
        if left > 0 {
            let served = rotation.served.entry(lane).or_default();
            choose(tx, lane, quota.min(left), served, &mut room, &mut chosen).await?;
        }
    }
    rotation.turn = rotation.turn.wrapping_add(u64::from(claim.limit));
    Ok((start(tx, claim, ids, now, chosen).await?, rotation))
}

/// What may still be claimed: who is cooling down, and how much room each limited source has.
pub(crate) struct Room<'a> {
    pub(crate) sources: Option<&'a [Source]>,
    pub(crate) cooling: Vec<Cooldown>,
    pub(crate) left: BTreeMap<Source, u32>,
}

static IN_FLIGHT: Sql = Sql::new(
    "/* claim::in_flight */ SELECT count(*) FROM partition_control WHERE active_run_id IS NOT NULL AND source = ?1",
);

/// How many attempts of a source are in flight, on all machines together.
pub(crate) async fn in_flight(tx: &mut Tx<'_>, source: &Source) -> Result<u32> {
    let active = tx.row(&IN_FLIGHT, &[source.as_str().into()], |row| row.int(0)).await?.unwrap_or(0);
    Ok(u32::try_from(active).unwrap_or(u32::MAX))
}

impl<'a> Room<'a> {
    async fn new(tx: &mut Tx<'_>, claim: &'a PartitionClaim, now: Timestamp) -> Result<Self> {
        let cooling = cooldowns::in_force(tx, now).await?;
        let mut left = claim.at_most.clone();
        for (source, &limit) in &claim.max_in_flight {
            let room = limit.saturating_sub(in_flight(tx, source).await?);
            left.entry(source.clone()).and_modify(|left| *left = room.min(*left)).or_insert(room);
        }
        Ok(Self { sources: claim.sources.as_deref(), cooling, left })
    }

    fn admits_source(&self, source: &Source) -> bool {
        self.sources.is_none_or(|sources| sources.contains(source))
            && self.left.get(source).is_none_or(|&left| left > 0)
            && !self.cooling.iter().any(|cooldown| cooldown.covers_all_of(source))
    }

    fn admits(&self, source: &Source, customer: &CustomerId) -> bool {
        self.admits_source(source) && !self.cooling.iter().any(|cooldown| cooldown.covers(source, customer))
    }

    fn take(&mut self, source: &Source) {
        if let Some(left) = self.left.get_mut(source) {
            *left = left.saturating_sub(1);
        }
    }
}

/// The next customers in a lane who have something claimable: one step down the index for each.
static NEXT_CUSTOMERS: Sql = Sql::new(
    "/* claim::next_customers */ WITH RECURSIVE found(scope, nth) AS (SELECT (SELECT min(scope) FROM partition_control \
     WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL AND lane = ?1 AND scope > ?2), 1 \
     UNION ALL SELECT (SELECT min(c.scope) FROM partition_control c WHERE c.lane IS NOT NULL AND c.active_run_id IS NULL \
     AND c.paused_at IS NULL AND c.lane = ?1 AND c.scope > found.scope), found.nth + 1 FROM found \
     WHERE found.scope IS NOT NULL AND found.nth < CAST(?3 AS BIGINT)) SELECT scope FROM found WHERE scope IS NOT NULL",
);

static OF_CUSTOMER: Sql = Sql::new(concat!(
    "/* claim::of_customer */ SELECT ",
    partition_columns!(),
    " FROM partition_control c JOIN partitions p ON p.source = c.source AND p.customer_id = c.customer_id \
     AND p.query_name = c.query_name AND p.logical_date = c.logical_date WHERE c.lane IS NOT NULL \
     AND c.active_run_id IS NULL AND c.paused_at IS NULL AND c.lane = ?1 AND c.scope = ?2 \
     ORDER BY c.queued_at, c.query_name, c.logical_date LIMIT CAST(?3 AS BIGINT)"
));

/// A customer of a source, and the text that stands for both in the index.
pub(crate) struct Customer {
    source: Source,
    customer_id: CustomerId,
    scope: String,
}

const SEPARATOR: char = '\u{1f}';

impl Customer {
    fn parse(scope: String) -> Result<Self> {
        let bad = |error: redrive_core::key::KeyError| Error::row("partition_control", error);
        let (source, customer) = scope.split_once(SEPARATOR).unwrap_or((&scope, ""));
        Ok(Self { source: source.parse().map_err(bad)?, customer_id: customer.parse().map_err(bad)?, scope })
    }

    /// A text after every customer of this source: a space is the first character that sorts after the separator.
    fn end_of_source(&self) -> String {
        format!("{} ", self.source)
    }
}

/// Chooses up to `quota` partitions of a lane: as many customers as there are places, the same number from each as far
/// as it goes, and then the customers after them.
async fn choose(
    tx: &mut Tx<'_>,
    lane: Lane,
    quota: u32,
    served: &mut String,
    room: &mut Room<'_>,
    chosen: &mut Vec<Partition>,
) -> Result<()> {
    let goal = chosen.len().saturating_add(usize::try_from(quota).unwrap_or(usize::MAX));
    let mut turn = Turn { lane, after: served.clone(), end: served.clone(), wrapped: false };
    while chosen.len() < goal {
        let places = goal - chosen.len();
        let customers = turn.next(tx, places, room).await?;
        if customers.is_empty() {
            break;
        }
        share_out(tx, lane, &customers, goal, served, room, chosen).await?;
    }
    Ok(())
}

/// Takes from some customers in rounds, one from each, until the goal is met or they have no more.
async fn share_out(
    tx: &mut Tx<'_>,
    lane: Lane,
    customers: &[Customer],
    goal: usize,
    served: &mut String,
    room: &mut Room<'_>,
    chosen: &mut Vec<Partition>,
) -> Result<()> {
    let mut depth = (goal - chosen.len()).div_ceil(customers.len().max(1));
    loop {
        let mut more = false;
        let mut queues = Vec::with_capacity(customers.len());
        for customer in customers {
            let of_customer = |partition: &&Partition| {
                let key = &partition.state.key;
                key.source == customer.source && key.customer_id == customer.customer_id
            };
            // What was chosen already is not yet marked and comes again.
            let limit = depth.saturating_add(chosen.iter().filter(of_customer).count());
            let params =
                [lane.as_str().into(), (&customer.scope).into(), i64::try_from(limit).unwrap_or(i64::MAX).into()];
            let mut rows = tx.rows(&OF_CUSTOMER, &params, partition_row::read).await?;
            more |= rows.len() == limit;
            rows.retain(|row| !chosen.iter().any(|taken| taken.state.key == row.state.key));
            queues.push(rows.into_iter());
        }
        let before = chosen.len();
        loop {
            let round = chosen.len();
            for (queue, customer) in queues.iter_mut().zip(customers) {
                if chosen.len() < goal
                    && room.admits(&customer.source, &customer.customer_id)
                    && let Some(partition) = queue.next()
                {
                    room.take(&customer.source);
                    chosen.push(partition);
                    served.clone_from(&customer.scope);
                }
            }
            if chosen.len() == round {
                break;
            }
        }
        if chosen.len() >= goal || !more || chosen.len() == before {
            return Ok(());
        }
        depth = depth.saturating_mul(2);
    }
}

/// Whose turn it is in a lane: those after the one who was served last, and round to that one again.
pub(crate) struct Turn {
    lane: Lane,
    after: String,
    end: String,
    wrapped: bool,
}

impl Turn {
    /// From the first customer on.
    pub(crate) fn first(lane: Lane) -> Self {
        Self { lane, after: String::new(), end: String::new(), wrapped: false }
    }

    /// The next customers who may be served now, up to `wanted`; none when all have had their turn.
    pub(crate) async fn next(&mut self, tx: &mut Tx<'_>, wanted: usize, room: &Room<'_>) -> Result<Vec<Customer>> {
        let mut found: Vec<Customer> = Vec::new();
        while found.len() < wanted {
            let step = i64::try_from(wanted).unwrap_or(i64::MAX);
            let params = [self.lane.as_str().into(), (&self.after).into(), step.into()];
            let scopes = tx.rows(&NEXT_CUSTOMERS, &params, |row| row.text(0)).await?;
            if scopes.is_empty() {
                if self.wrapped {
                    break;
                }
                (self.wrapped, self.after) = (true, String::new());
                continue;
            }
            for scope in scopes {
                let customer = Customer::parse(scope)?;
                if self.wrapped && customer.scope > self.end {
                    return Ok(found);
                }
                if !room.admits_source(&customer.source) {
                    // None of this source's customers will do, however many there are.
                    self.after = customer.end_of_source();
                    break;
                }
                self.after.clone_from(&customer.scope);
                if room.admits(&customer.source, &customer.customer_id) {
                    found.push(customer);
                }
                if found.len() >= wanted {
                    break;
                }
            }
        }
        Ok(found)
    }
}

async fn start(
    tx: &mut Tx<'_>,
    claim: &PartitionClaim,
    ids: &Ids,
    now: Timestamp,
    chosen: Vec<Partition>,
) -> Result<Vec<ClaimedPartition>> {
    let task_id = ids.task(now);
    let mut changes = Vec::with_capacity(chosen.len());
    for candidate in &chosen {
        let attempt = InFlight { run_id: ids.run(now), task_id };
        if let Ok(change) = partition::apply(candidate, Event::Data(DataEvent::Claimed(attempt)), now) {
            changes.push(change);
        }
    }
    let took = partition_row::write(tx, &changes).await?;
    let claimed: Vec<Partition> =
        changes.into_iter().zip(took).filter_map(|(change, took)| took.then_some(change.after)).collect();
    let runs: Vec<Run> =
        claimed.iter().filter_map(|partition| begun(partition, &claim.worker, claim.lease, now)).collect();
    runs::insert_attempts(tx, &runs).await?;
    Ok(claimed.into_iter().zip(runs).map(|(partition, run)| ClaimedPartition { partition, run }).collect())
}

/// The run row of an attempt that begins now.
fn begun(partition: &Partition, worker: &str, lease: Duration, now: Timestamp) -> Option<Run> {
    let InFlight { run_id, task_id } = partition.control.active?;
    let submitted_at = partition.control.wanted.map_or(now, |wanted| wanted.queued_at);
    let work = Work::Extract(partition.state.key.clone());
    Some(Run {
        attempt: partition.state.attempt_count.saturating_add(1),
        task_id: Some(task_id),
        worker: Some(worker.to_owned()),
        started_at: Some(now),
        last_heartbeat: Some(now),
        lease_until: Some(now.saturating_add(lease)),
        ..Run::new(run_id, work, State::Running, submitted_at)
    })
}
