//! Choosing partitions of a lane: the same number from each customer as far as it goes, those that waited longest first.

use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::share::{CustomerQueue, take_round_robin};

use super::customers::{Customer, CustomerCursor};
use super::room::ClaimRoom;
use crate::db::{Column, Kind, Lookup, Tx};
use crate::error::Result;
use crate::partitions::row::read_from;
use crate::series::Scope;

/// How many customers are looked at together where one with something claimable is enough.
const LOOKED_AT: usize = 16;

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

/// Why no more was chosen of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneEnd {
    Filled,
    /// Nobody in it has anything more that may be claimed.
    Empty,
}

/// Chooses up to `quota` partitions of a lane: as many customers as there are places, the same number from each as far
/// as it goes, and then the customers after them.
pub(super) async fn fill_lane(
    tx: &mut Tx<'_>,
    lane: Lane,
    quota: u32,
    served: &mut Scope,
    room: &mut ClaimRoom<'_>,
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
    room: &mut ClaimRoom<'_>,
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
    room: &ClaimRoom<'_>,
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

static WITH_WORK: Lookup = Lookup::new(
    "/* claim::with_work */
     SELECT 1
     FROM partition_control
     WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL
         AND lane = @lane
     LIMIT 1",
    &[("lane", Kind::Text)],
);

/// The lanes in which something is queued, be it held.
pub(super) async fn with_work(tx: &mut Tx<'_>) -> Result<Vec<Lane>> {
    let lanes = [Column::texts(Lane::ALL, |lane| Some(lane.as_str()))];
    let found = tx.lookup(&WITH_WORK, &lanes, |_| Ok(())).await?;
    Ok(found.into_iter().map(|(nth, ())| Lane::ALL[nth]).collect())
}

/// Whether a lane has anything that may be claimed.
pub(in crate::partitions) async fn has_any(tx: &mut Tx<'_>, lane: Lane, room: &ClaimRoom<'_>) -> Result<bool> {
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
