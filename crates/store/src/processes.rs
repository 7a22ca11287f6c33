//! Living processes: each beats its own row now and then, far from the paths of the work, and takes it away when it ends in
//! order.

use std::sync::Arc;

use redrive_core::process::{Process, REMEMBERED_FOR};
use redrive_core::time::Timestamp;
use uuid::Uuid;

use crate::db::{Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{Store, View, read};

impl Store {
    /// An identity for a process that begins.
    pub fn new_process_id(&self) -> Uuid {
        self.inner.ids.task(self.inner.now()).uuid()
    }

    /// Says that a process is there, as it is now.
    pub async fn beat(&self, process: &Process) -> Result<()> {
        let process = Arc::new(process.clone());
        self.inner
            .db
            .write("process beat", move |tx| {
                let process = Arc::clone(&process);
                Box::pin(async move { put(tx, &process).await })
            })
            .await
    }

    /// Takes away a process that has ended.
    pub async fn forget_process(&self, id: Uuid) -> Result<()> {
        self.inner
            .db
            .write("forget process", move |tx| {
                Box::pin(async move { tx.execute(&FORGET, &[id.into()]).await.map(drop) })
            })
            .await
    }
}

impl View {
    /// The processes that were seen lately, the longest running of each kind first.
    pub async fn processes(&self) -> Result<Vec<Process>> {
        read!(self, "processes", |tx| all(tx))
    }
}

static PUT: Sql = Sql::new(
    "/* processes::put */
     INSERT INTO processes (process_id, kind, name, host, pid, version, config, serves, started_at, last_seen, last_claim)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
     ON CONFLICT (process_id) DO UPDATE
     SET config = excluded.config, serves = excluded.serves, last_seen = excluded.last_seen, last_claim = excluded.last_claim",
);
static FORGET: Sql = Sql::new(
    "/* processes::forget */
     DELETE FROM processes
     WHERE process_id = ?1",
);
static FORGET_SILENT: Sql = Sql::new(
    "/* processes::forget_silent */
     DELETE FROM processes
     WHERE last_seen < CAST(?1 AS BIGINT)",
);

async fn put(tx: &mut Tx<'_>, process: &Process) -> Result<()> {
    let serves = serde_json::to_string(&process.serves).map_err(|error| Error::row("processes", error))?;
    let params: [Param<'_>; 11] = [
        process.id.into(),
        process.kind.as_str().into(),
        process.name.as_str().into(),
        process.host.as_str().into(),
        i64::from(process.pid).into(),
        process.version.as_str().into(),
        process.config.as_str().into(),
        serves.as_str().into(),
        process.started_at.micros().into(),
        process.last_seen.micros().into(),
        process.last_claim.map(Timestamp::micros).into(),
    ];
    tx.execute(&PUT, &params).await?;
    let long_ago = process.last_seen.saturating_sub(REMEMBERED_FOR).micros();
    tx.execute(&FORGET_SILENT, &[long_ago.into()]).await.map(drop)
}

static ALL: Sql = Sql::new(
    "/* processes::all */
     SELECT process_id, kind, name, host, pid, version, config, serves, started_at, last_seen, last_claim
     FROM processes
     ORDER BY kind, started_at, process_id",
);

async fn all(tx: &mut Tx<'_>) -> Result<Vec<Process>> {
    tx.rows(&ALL, &[], read_row).await
}

fn read_row(row: &Row<'_>) -> Result<Process> {
    let mut row = row.cursor();
    Ok(Process {
        id: row.id()?,
        kind: row.word()?,
        name: row.text()?,
        host: row.text()?,
        pid: row.count()?,
        version: row.text()?,
        config: row.text()?,
        serves: serde_json::from_str(row.str()?).map_err(|error| Error::row("processes", error))?,
        started_at: row.time()?,
        last_seen: row.time()?,
        last_claim: row.opt_time()?,
    })
}
