//! Notices that something in the database has changed, by whichever process, without reading what.
//!
//! New work is announced: in this process, and on PostgreSQL by all. A SQLite file that another process has written is known by
//! its `data_version`. Operations and processes have a row each that moves.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::watch;

use crate::audit;
use crate::db::{Dialect, Sql, Tx, Wakeups};
use crate::error::{Error, Result};
use crate::handles::{Store, View, read};

/// What may have changed since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// Partitions, runs and what holds them back.
    pub work: bool,
    /// The audit trail, and operations as they go on.
    pub operations: bool,
    pub processes: bool,
}

/// Looks whether something has changed.
#[derive(Debug)]
pub struct Changes {
    view: View,
    wakeups: watch::Receiver<Wakeups>,
    /// A connection of its own, which no statement of this process uses: on it every commit shows.
    file: Option<Arc<Mutex<Connection>>>,
    seen: Seen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    version: i64,
    head: i64,
    /// How many operations are under way, and how far they are.
    operations: (i64, i64),
    processes: (i64, i64),
}

impl Store {
    /// Follows changes from now on.
    pub async fn changes(&self) -> Result<Changes> {
        let file = match self.inner.db.dialect() {
            Dialect::Postgres => None,
            Dialect::Sqlite => Some(Arc::new(Mutex::new(open(Path::new(self.place()))?))),
        };
        let view = self.view();
        let seen = Seen { version: version(file.as_ref()).await?, ..rows(&view).await? };
        Ok(Changes { view, wakeups: self.wakeups(), file, seen })
    }
}

impl Changes {
    /// What may have changed since the last look.
    pub async fn look(&mut self) -> Result<Changed> {
        let woken = self.wakeups.has_changed().unwrap_or(false);
        self.wakeups.mark_unchanged();
        let now = Seen { version: version(self.file.as_ref()).await?, ..rows(&self.view).await? };
        let before = std::mem::replace(&mut self.seen, now);
        Ok(Changed {
            work: woken || now.version != before.version,
            operations: (now.head, now.operations) != (before.head, before.operations),
            processes: now.processes != before.processes,
        })
    }
}

fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| fault(&error))
}

fn fault(error: &rusqlite::Error) -> Error {
    Error::Statement { name: "data version", why: error.to_string() }
}

/// On SQLite, a number that changes with every commit of another connection.
async fn version(file: Option<&Arc<Mutex<Connection>>>) -> Result<i64> {
    let Some(file) = file.cloned() else { return Ok(0) };
    let ask = move || {
        let file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(|error| fault(&error))
    };
    match tokio::task::spawn_blocking(ask).await {
        Ok(version) => version,
        Err(error) => Err(Error::Statement { name: "data version", why: error.to_string() }),
    }
}

static PROCESSES: Sql = Sql::new(
    "/* changes::processes */
     SELECT count(*), coalesce(max(last_seen), 0)
     FROM processes",
);

static OPERATIONS: Sql = Sql::new(
    "/* changes::operations */
     SELECT count(*), CAST(coalesce(sum(done_to + cancel_asked), 0) AS BIGINT)
     FROM bulk_operations
     WHERE state = 'running'",
);

async fn rows(view: &View) -> Result<Seen> {
    read!(view, "changes", |tx| seen(tx))
}

async fn seen(tx: &mut Tx<'_>) -> Result<Seen> {
    let head = audit::head(tx).await?.seq;
    let operations = tx.row(&OPERATIONS, &[], |row| Ok((row.int(0)?, row.int(1)?))).await?.unwrap_or_default();
    let processes = tx.row(&PROCESSES, &[], |row| Ok((row.int(0)?, row.int(1)?))).await?.unwrap_or_default();
    Ok(Seen { version: 0, head, operations, processes })
}
