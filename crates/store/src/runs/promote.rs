//! A run that has come due is moved from `run_waiting` to `run_queue` (`Event::Due`) by the next claim, so that the queue holds
//! everything that can start now and waiting ones are never in its way.
//!
//! As with the claim itself, PostgreSQL does it with one statement and SQLite with two.

use redrive_core::time::Timestamp;

use super::claim::RunClaim;
use super::list::categories_of;
use super::row::progress;
use super::standing::Table;
use crate::db::{Dialect, Param, Sql, Tx};
use crate::error::Result;

/// The most runs that one claim moves to the queue because they are due, those that are due longest first. Where more are due, the claim
/// also moves as many of the oldest submissions among them as it may start, so that age decides whatever the queue lacks.
const PROMOTED: u32 = 2000;

/// Moves what is due on PostgreSQL, of these rows and in this order.
macro_rules! move_on_postgres {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "/* runs::",
            $name,
            " */
     WITH due AS MATERIALIZED (
         SELECT ctid
         FROM run_waiting
         WHERE state = 'waiting'
           AND workload = ?1
           AND due_at <= CAST(?2 AS BIGINT)
           ",
            $which,
            "
         ORDER BY ",
            $order,
            "
         LIMIT CAST(?3 AS BIGINT)
         FOR UPDATE SKIP LOCKED
     ), gone AS (
         DELETE FROM run_waiting
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM due))
         RETURNING *
     )
     INSERT INTO run_queue (workload, category, run_id, ",
            progress!(),
            ")
     SELECT workload, category, run_id, ",
            progress!(),
            "
     FROM gone"
        )
    };
}

/// What is due on SQLite, of these rows and in this order.
macro_rules! due_on_sqlite {
    ($which:literal, $order:literal) => {
        concat!(
            "FROM run_waiting
     WHERE state = 'waiting'
       AND workload = ?1
       AND due_at <= ?2
       ",
            $which,
            "
     ORDER BY ",
            $order,
            "
     LIMIT ?3"
        )
    };
}
macro_rules! queue_on_sqlite {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "/* runs::",
            $name,
            " */
     INSERT OR FAIL INTO run_queue (workload, category, run_id, ",
            progress!(),
            ")
     SELECT workload, category, run_id, ",
            progress!(),
            "
     ",
            due_on_sqlite!($which, $order)
        )
    };
}
macro_rules! wait_no_longer_on_sqlite {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "/* runs::",
            $name,
            " */
     DELETE FROM run_waiting
     WHERE (workload, category, run_id) IN (
     SELECT workload, category, run_id
     ",
            due_on_sqlite!($which, $order),
            ")"
        )
    };
}

pub(crate) const PROMOTE_ON_POSTGRES: &str = move_on_postgres!("promote", "", "due_at");
pub(crate) const COME_DUE: &str = queue_on_sqlite!("come_due", "", "due_at, run_id");

/// One move: the statement on PostgreSQL, and the two on SQLite.
struct Move {
    on_postgres: Sql,
    queue_on_sqlite: Sql,
    wait_no_longer_on_sqlite: Sql,
}

static LONGEST_DUE: Move = Move {
    on_postgres: Sql::new(PROMOTE_ON_POSTGRES),
    queue_on_sqlite: Sql::new(COME_DUE),
    wait_no_longer_on_sqlite: Sql::new(wait_no_longer_on_sqlite!("wait_no_longer", "", "due_at, run_id")),
};
static OLDEST_OF_CATEGORY: Move = Move {
    on_postgres: Sql::new(move_on_postgres!("promote_oldest", "AND category = ?4", "run_id")),
    queue_on_sqlite: Sql::new(queue_on_sqlite!("oldest_come_due", "AND category = ?4", "run_id")),
    wait_no_longer_on_sqlite: Sql::new(wait_no_longer_on_sqlite!(
        "oldest_wait_no_longer",
        "AND category = ?4",
        "run_id"
    )),
};

impl Move {
    /// Gives how many were moved.
    async fn make(&self, tx: &mut Tx<'_>, params: &[Param<'_>]) -> Result<u64> {
        match tx.dialect() {
            Dialect::Postgres => tx.execute(&self.on_postgres, params).await,
            Dialect::Sqlite => {
                let moved = tx.execute(&self.queue_on_sqlite, params).await?;
                if moved > 0 {
                    tx.execute(&self.wait_no_longer_on_sqlite, params).await?;
                }
                Ok(moved)
            }
        }
    }
}

/// Puts into the queue what has come due: so much of it that the oldest runs of all are there.
pub(super) async fn promote(tx: &mut Tx<'_>, asked: &RunClaim, now: Timestamp) -> Result<()> {
    let (workload, now) = (asked.workload, now.micros());
    let params = [workload.as_str().into(), now.into(), i64::from(PROMOTED).into()];
    if LONGEST_DUE.make(tx, &params).await? < u64::from(PROMOTED) {
        return Ok(());
    }
    let categories = match &asked.categories {
        Some(categories) => categories.clone(),
        None => categories_of(tx, Table::Waiting, workload).await?,
    };
    for category in &categories {
        let params = [workload.as_str().into(), now.into(), i64::from(asked.limit).into(), category.into()];
        OLDEST_OF_CATEGORY.make(tx, &params).await?;
    }
    Ok(())
}
