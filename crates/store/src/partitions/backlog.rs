//! What a claim that came back empty has left: whether a draining worker has something to stay for.
//!
//! A draining worker does not wait for partitions that are paused, held, to be left until a later moment, or of a source
//! whose limit is 0. It does wait for a source at its limit: every running attempt ends, by itself or by its lease.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::key::Source;
use redrive_core::lane::Lane;
use redrive_core::share::{Capacity, Gate};
use redrive_core::time::Timestamp;

use super::claim::{ClaimRoom, gates, has_any, in_flight, source_columns};
use crate::db::{Kind, Lookup, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};
use crate::holds;
use crate::series::source_no;

impl View {
    /// What is queued of these sources, under the limits given, and what of them is under way.
    pub async fn backlog(&self, sources: Vec<Source>, max_in_flight: BTreeMap<Source, u32>) -> Result<Backlog> {
        let now = self.inner.now();
        read!(self.read_by_index, "backlog", |tx, sources, max_in_flight, now| backlog(
            tx,
            &sources,
            &max_in_flight,
            *now
        ))
    }
}

/// What is queued of some sources, and what of them is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    pub queued: Queued,
    /// Attempts that are running, on any machine.
    pub in_flight: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// Nothing that could be claimed, now or when an attempt ends.
    Nothing,
    /// Something for which there is room now.
    Claimable,
    /// Something for which there is room when an attempt that is running has ended.
    HeldBack,
}

/// An attempt that is marked on its partition and runs no more would fill a limit for ever; it is not counted here.
static RUNNING: Lookup = Lookup::new(
    concat!(
        "/* backlog::running */
     SELECT count(*)
     FROM partition_control c
     JOIN run_claims attempt
         ON attempt.workload = 'extract' AND attempt.category = '' AND attempt.run_id = c.active_run_id
     WHERE c.active_run_id IS NOT NULL
         AND c.source_no = ",
        source_no!("@source")
    ),
    &[("source", Kind::Text)],
);

async fn backlog(
    tx: &mut Tx<'_>,
    sources: &[Source],
    max_in_flight: &BTreeMap<Source, u32>,
    now: Timestamp,
) -> Result<Backlog> {
    let running = tx.lookup(&RUNNING, &source_columns(sources), |mut row| row.count::<u64>()).await?;
    let active = in_flight(tx, sources).await?;
    let (mut free, mut full, mut under_way) = (Vec::new(), Vec::new(), 0);
    for (nth, running) in running {
        let source = &sources[nth];
        under_way += running;
        match max_in_flight.get(source) {
            None => free.push(source.clone()),
            Some(&limit) if active[nth] < limit => free.push(source.clone()),
            Some(&limit) if limit > 0 && running > 0 => full.push(source.clone()),
            Some(_) => {}
        }
    }
    let holds = holds::in_force(tx, now).await?;
    let gates = gates(tx, &holds, now).await?;
    let queued = if has_any_of(tx, &free, &gates, now).await? {
        Queued::Claimable
    } else if has_any_of(tx, &full, &gates, now).await? {
        Queued::HeldBack
    } else {
        Queued::Nothing
    };
    Ok(Backlog { queued, in_flight: under_way })
}

/// Whether something of these sources is queued and not withheld.
async fn has_any_of(tx: &mut Tx<'_>, sources: &[Source], gates: &[Gate], now: Timestamp) -> Result<bool> {
    let capacity = Capacity::new(Some(sources), gates.to_vec(), BTreeMap::new());
    let room = ClaimRoom::new(tx, capacity, now).await?;
    for &lane in Lane::ALL {
        if has_any(tx, lane, &room).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How many attempts of a source a worker has in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlightOf {
    pub worker: Option<String>,
    pub attempts: u64,
    /// Of these, how many have let their lease run out.
    pub expired: u64,
}

static BY_WORKER: Sql = Sql::new(concat!(
    "/* backlog::by_worker */
     SELECT attempt.worker, count(*),
         CAST(sum(CASE WHEN attempt.lease_until <= CAST(?2 AS BIGINT) THEN 1 ELSE 0 END) AS BIGINT)
     FROM partition_control c
     JOIN run_claims attempt
         ON attempt.workload = 'extract' AND attempt.category = '' AND attempt.run_id = c.active_run_id
     WHERE c.active_run_id IS NOT NULL
         AND c.source_no = ",
    source_no!("?1"),
    "
     GROUP BY attempt.worker
     ORDER BY count(*) DESC, attempt.worker"
));

impl View {
    /// Who has attempts of a source in flight, those with the most first.
    pub async fn in_flight_of(&self, source: Source) -> Result<Vec<InFlightOf>> {
        let now = self.inner.now();
        read!(self.read_by_index, "in flight of", |tx, source, now| by_worker(tx, &source, *now))
    }
}

async fn by_worker(tx: &mut Tx<'_>, source: &Source, now: Timestamp) -> Result<Vec<InFlightOf>> {
    tx.rows(&BY_WORKER, &[source.as_str().into(), now.micros().into()], |row| {
        let mut row = row.cursor();
        Ok(InFlightOf { worker: row.opt_text()?, attempts: row.count()?, expired: row.count()? })
    })
    .await
}
