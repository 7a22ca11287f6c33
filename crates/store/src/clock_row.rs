//! What the database keeps of its clock: when it was last set.

use redrive_core::time::Timestamp;

use crate::db::Sql;
use crate::error::Result;
use crate::handles::{View, read};

/// A clock that was set: the host's on SQLite, the server's on PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockJump {
    /// By the clock as it was afterwards.
    pub at: Timestamp,
    /// In microseconds.
    pub by: i64,
}

static LAST_JUMP: Sql = Sql::new(
    "/* clock::last_jump */
     SELECT jumped_at, jumped_by
     FROM clock
     WHERE jumped_at IS NOT NULL",
);

impl View {
    /// When the clock that counts was last set, if ever.
    pub async fn last_jump(&self) -> Result<Option<ClockJump>> {
        read!(self, "last jump", |tx| {
            tx.row(&LAST_JUMP, &[], |row| Ok(ClockJump { at: Timestamp::from_micros(row.int(0)?), by: row.int(1)? }))
        })
    }
}
