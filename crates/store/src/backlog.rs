//! What a claim that came back empty has left: whether there is something to stay for.
//!
//! What is paused or cools down, or has a limit of nothing, is not to be waited for. A limit is: it has room again when
//! an attempt ends, and each that is running ends, or its lease does.

use std::collections::BTreeMap;

use redrive_core::key::Source;
use redrive_core::lane::Lane;
use redrive_core::time::Timestamp;

use crate::claim::{self, Room, Turn};
use crate::cooldowns::{self, Cooldown};
use crate::db::{Sql, Tx};
use crate::error::Result;

/// What is queued of some sources, and what of them is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    pub queued: Queued,
    /// Attempts that are running, whoever's they are.
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
static RUNNING: Sql = Sql::new(
    "/* backlog::running */ SELECT count(*) FROM partition_control c JOIN runs r ON r.run_id = c.active_run_id \
     WHERE c.active_run_id IS NOT NULL AND c.source = ?1 AND r.state = 'running'",
);

pub(crate) async fn backlog(
    tx: &mut Tx<'_>,
    sources: &[Source],
    max_in_flight: &BTreeMap<Source, u32>,
    now: Timestamp,
) -> Result<Backlog> {
    let (mut free, mut full, mut in_flight) = (Vec::new(), Vec::new(), 0);
    for source in sources {
        let running = tx.row(&RUNNING, &[source.as_str().into()], |row| row.int(0)).await?.unwrap_or(0);
        in_flight += u64::try_from(running).unwrap_or(0);
        match max_in_flight.get(source) {
            None => free.push(source.clone()),
            Some(&limit) if claim::in_flight(tx, source).await? < limit => free.push(source.clone()),
            Some(&limit) if limit > 0 && running > 0 => full.push(source.clone()),
            Some(_) => {}
        }
    }
    let cooling = cooldowns::in_force(tx, now).await?;
    let queued = if has_any(tx, &free, &cooling).await? {
        Queued::Claimable
    } else if has_any(tx, &full, &cooling).await? {
        Queued::HeldBack
    } else {
        Queued::Nothing
    };
    Ok(Backlog { queued, in_flight })
}

/// Whether something of these sources is queued, not paused and not cooling down.
async fn has_any(tx: &mut Tx<'_>, sources: &[Source], cooling: &[Cooldown]) -> Result<bool> {
    let room = Room { sources: Some(sources), cooling: cooling.to_vec(), left: BTreeMap::new() };
    for &lane in Lane::ALL {
        if !Turn::first(lane).next(tx, 1, &room).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
