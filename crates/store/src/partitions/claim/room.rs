//! What there is room for: limits of sources, holds and breakers, and what of a customer is withheld by itself.

use std::collections::BTreeMap;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::hold::{Hold, HoldScope};
use redrive_core::id::RunId;
use redrive_core::key::{CustomerId, Source};
use redrive_core::share::{Capacity, Gate};
use redrive_core::time::Timestamp;

use super::PartitionClaim;
use crate::db::{Column, Kind, Lookup, Tx};
use crate::error::Result;
use crate::holds;
use crate::series::{self, source_no};

/// What there is room for, and what of a customer who may be served is withheld all the same.
pub(in crate::partitions) struct ClaimRoom<'a> {
    pub(super) capacity: Capacity<'a>,
    /// Series that are held by themselves.
    pub(super) held_series: Vec<i64>,
    pub(super) now: Timestamp,
}

impl<'a> ClaimRoom<'a> {
    pub(in crate::partitions) async fn new(tx: &mut Tx<'_>, capacity: Capacity<'a>, now: Timestamp) -> Result<Self> {
        let names = |scope: &'_ HoldScope| match scope {
            HoldScope::Query(source, customer, query) => {
                Some((source.to_string(), customer.to_string(), query.to_string()))
            }
            HoldScope::Source(_) | HoldScope::Customer(..) => None,
        };
        let held: Vec<_> = capacity.held_queries().iter().filter_map(names).collect();
        let held: Vec<_> = held.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        let held_series = if held.is_empty() { vec![] } else { series::ids_of(tx, &held).await? };
        Ok(Self { capacity, held_series, now })
    }
}

/// What may be claimed now: each limited source has what is not in flight, and no more than the worker will take of it.
pub(super) async fn capacity<'a>(
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
pub(in crate::partitions) async fn gates(tx: &mut Tx<'_>, holds: &[Hold], now: Timestamp) -> Result<Vec<Gate>> {
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

/// What may still be started of scopes whose last verdicts failed alike. All are asked about together: every machine's claims wait meanwhile.
async fn careful(tx: &mut Tx<'_>, breakers: &BTreeMap<Source, BreakerPolicy>) -> Result<Vec<Gate>> {
    let limits = holds::careful(tx, breakers).await?;
    let (of_customers, of_sources): (Vec<_>, Vec<_>) =
        limits.into_iter().partition(|(scope, _)| scope.customer_id().is_some());
    let sources: Vec<Source> = of_sources.iter().map(|(scope, _)| scope.source().clone()).collect();
    let mut active = in_flight(tx, &sources).await?;
    let columns = [
        Column::texts(&of_customers, |(scope, _)| Some(scope.source().as_str())),
        Column::texts(&of_customers, |(scope, _)| scope.customer_id().map(CustomerId::as_str)),
    ];
    active.resize(sources.len() + of_customers.len(), 0);
    for (nth, count) in tx.lookup(&OF_CUSTOMER_IN_FLIGHT, &columns, |mut row| row.count()).await? {
        active[sources.len() + nth] = count;
    }
    let scopes = of_sources.iter().chain(&of_customers);
    let gate = |((scope, limit), active): (&(HoldScope, u32), u32)| Gate {
        scope: scope.clone(),
        left: limit.saturating_sub(active),
    };
    Ok(scopes.zip(active).map(gate).collect())
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
pub(in crate::partitions) async fn in_flight(tx: &mut Tx<'_>, sources: &[Source]) -> Result<Vec<u32>> {
    let counts = tx.lookup(&IN_FLIGHT, &source_columns(sources), |mut row| row.int()).await?;
    let mut active = vec![0; sources.len()];
    for (nth, count) in counts {
        active[nth] = u32::try_from(count).unwrap_or(u32::MAX);
    }
    Ok(active)
}

pub(in crate::partitions) fn source_columns(sources: &[Source]) -> [Column<'_>; 1] {
    [Column::texts(sources, |source| Some(source.as_str()))]
}
