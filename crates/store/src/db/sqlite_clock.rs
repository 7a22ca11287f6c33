//! The time of a SQLite file: its host's steady clock plus an offset that the file keeps.
//!
//! Every process that uses the file is on one host, so that they share the steady clock. A transaction reads the offset
//! inside itself. The writer that finds the wall clock set moves the offset and, in the same transaction, the end of every
//! lease and hold: no transaction ever compares a lease with a time that is measured otherwise.

use std::sync::Arc;

use redrive_core::clock::{HostOffset, HostSeen, Settled, settle};
use redrive_core::time::Timestamp;
use rusqlite::Connection;

use crate::clock::{Clock, Sleep};

/// What a process needs of its host to tell a file's time.
#[derive(Debug, Clone)]
pub(super) struct HostClock {
    local: Arc<dyn Clock>,
    /// None where the clock is a test's own, or the host does not tell: then the file's time is the wall clock's.
    boot: Option<String>,
}

/// How a transaction tells the time.
#[derive(Debug, Clone)]
pub(crate) struct TxClock {
    local: Arc<dyn Clock>,
    /// Added to the steady clock; without it the wall clock serves.
    ahead: Option<i64>,
}

impl TxClock {
    pub(crate) fn now(&self) -> Timestamp {
        self.ahead.map_or_else(|| self.local.now(), |ahead| self.local.steady(Sleep::Stops).at(ahead))
    }
}

const KEPT: &str = "/* clock::kept */ SELECT boot, ahead FROM clock WHERE one = 1";

const KEEP: &str = "/* clock::keep */
     UPDATE clock
     SET boot = ?1, ahead = ?2";

/// Moves what a process holds for a span, and the beginnings of attempts. The length of a lease is reckoned from its last heartbeat, which
/// moves with it.
const MOVE_LEASES: [&str; 7] = [
    "/* clock::move_leases */
     UPDATE run_claims
     SET lease_until = lease_until + ?1, last_heartbeat = last_heartbeat + ?1, started_at = started_at + ?1",
    "/* clock::move_leases_of_bundles */
     UPDATE run_bundles
     SET lease_until = lease_until + ?1, last_heartbeat = last_heartbeat + ?1, started_at = started_at + ?1",
    "/* clock::move_leases_of_cancelled_runs */
     UPDATE run_ends
     SET lease_until = lease_until + ?1, last_heartbeat = last_heartbeat + ?1
     WHERE state = 'dead'
       AND lease_until IS NOT NULL",
    "/* clock::move_leases_of_runs_that_wait_for_their_end */
     UPDATE run_waiting
     SET lease_until = lease_until + ?1, last_heartbeat = last_heartbeat + ?1
     WHERE lease_until IS NOT NULL",
    "/* clock::move_holders_of_operations */
     UPDATE bulk_operations
     SET held_until = held_until + ?1
     WHERE state = 'running'",
    "/* clock::move_holders_of_keys */
     UPDATE idempotency_keys
     SET held_until = held_until + ?1",
    "/* clock::move_deliveries */
     UPDATE deliveries
     SET due_at = due_at + ?1
     WHERE delivered_at IS NULL",
];

/// When runs are due that wait for the end of a lease, now that it has another: as [`redrive_core::run::Run::due_at`] says it.
const RESET_DUE: &str = "/* clock::reset_due */
     UPDATE run_waiting
     SET due_at = max(lease_until, coalesce(next_retry_at, (
         SELECT not_before
         FROM run_specs s
         WHERE s.run_id = run_waiting.run_id), 0))
     WHERE lease_until IS NOT NULL";

const TELL: &str = "/* clock::tell */
     UPDATE clock
     SET jumped_at = ?1, jumped_by = ?2";

/// A lease that was got by another clock lasts no longer than its own length from now, and no attempt begins later than now: workers on other
/// hosts go on. What the processes of this host held is free, because they are gone.
const SHORTEN_LEASES: [&str; 7] = [
    "/* clock::shorten_leases */
     UPDATE run_claims
     SET lease_until = min(lease_until, ?1 + max(lease_until - last_heartbeat, 0)),
         last_heartbeat = min(last_heartbeat, ?1), started_at = min(started_at, ?1)",
    "/* clock::shorten_leases_of_bundles */
     UPDATE run_bundles
     SET lease_until = min(lease_until, ?1 + max(lease_until - last_heartbeat, 0)),
         last_heartbeat = min(last_heartbeat, ?1), started_at = min(started_at, ?1)",
    "/* clock::shorten_leases_of_cancelled_runs */
     UPDATE run_ends
     SET lease_until = min(lease_until, ?1 + max(lease_until - last_heartbeat, 0)),
         last_heartbeat = min(last_heartbeat, ?1)
     WHERE state = 'dead'
       AND lease_until > ?1",
    "/* clock::shorten_leases_of_runs_that_wait_for_their_end */
     UPDATE run_waiting
     SET lease_until = min(lease_until, ?1 + max(lease_until - last_heartbeat, 0)),
         last_heartbeat = min(last_heartbeat, ?1)
     WHERE lease_until > ?1",
    "/* clock::free_operations */
     UPDATE bulk_operations
     SET held_until = min(held_until, ?1)
     WHERE state = 'running'",
    "/* clock::free_keys */
     UPDATE idempotency_keys
     SET held_until = min(held_until, ?1)",
    "/* clock::free_deliveries */
     UPDATE deliveries
     SET due_at = min(due_at, ?1)
     WHERE delivered_at IS NULL",
];

impl HostClock {
    pub(super) fn new(local: Arc<dyn Clock>, follow: bool) -> Self {
        let boot = if follow { local.boot() } else { None };
        Self { local, boot }
    }

    /// The time of a transaction that only reads. Where the host has started again and nothing was written since, it is
    /// the wall clock's.
    pub(super) fn of_reader(&self, connection: &Connection) -> rusqlite::Result<TxClock> {
        let boot = self.boot.as_ref();
        let kept = match boot {
            Some(boot) => kept(connection)?.flatten().filter(|kept| kept.boot == *boot),
            None => None,
        };
        Ok(self.with(kept.map(|kept| kept.ahead)))
    }

    /// The time of a transaction that writes, which has begun. Gives whether the file's own time had to be moved first:
    /// that must be committed by itself before anything else is done.
    pub(super) fn of_writer(&self, connection: &Connection) -> rusqlite::Result<(TxClock, bool)> {
        // A file without tables keeps no time yet.
        let Some(boot) = &self.boot else { return Ok((self.with(None), false)) };
        let Some(kept) = kept(connection)? else { return Ok((self.with(None), false)) };
        let seen = HostSeen { boot: boot.clone(), steady: self.local.steady(Sleep::Stops), wall: self.local.now() };
        let settled = settle(kept.as_ref(), &seen);
        let (wall, offset) = (seen.wall.micros(), seen.offset());
        match settled {
            Settled::Kept => return Ok((self.with(kept.map(|kept| kept.ahead)), false)),
            Settled::First => {}
            Settled::Restarted => {
                SHORTEN_LEASES.iter().try_for_each(|sql| connection.execute(sql, [wall]).map(drop))?;
                connection.execute(RESET_DUE, [])?;
            }
            Settled::Jumped { by } => {
                MOVE_LEASES.iter().try_for_each(|sql| connection.execute(sql, [by]).map(drop))?;
                connection.execute(RESET_DUE, [])?;
                connection.execute(TELL, [wall, by])?;
                tracing::warn!(
                    by_s = by / 1_000_000,
                    "this host's clock was set; times follow it, and leases last as long"
                );
            }
        }
        connection.execute(KEEP, (&offset.boot, offset.ahead))?;
        Ok((self.with(Some(offset.ahead)), true))
    }

    fn with(&self, ahead: Option<i64>) -> TxClock {
        TxClock { local: Arc::clone(&self.local), ahead }
    }
}

/// What the file keeps; none at all where it has no such table.
fn kept(connection: &Connection) -> rusqlite::Result<Option<Option<HostOffset>>> {
    let mut statement = match connection.prepare_cached(KEPT) {
        Ok(statement) => statement,
        Err(error) if error.to_string().contains("no such table") => return Ok(None),
        Err(error) => return Err(error),
    };
    let (boot, ahead) = statement.query_row((), |row| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?)))?;
    Ok(Some(boot.zip::<i64>(ahead).map(|(boot, ahead)| HostOffset { boot, ahead })))
}
