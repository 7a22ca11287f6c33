//! Living processes: each beats its own row now and then, far from the paths of the work, and takes it away when it ends in
//! order.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::process::{Kind, Process, REMEMBERED_FOR, Serves};
use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::audit::{Operation, record_alone};
use crate::db::{Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, DataStore, Store, View, read, transact};

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

/// An outside worker that has called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideCall {
    pub worker: String,
    /// Where it called from.
    pub host: String,
    /// The categories that it asks for; none where the call says nothing of them.
    pub asks_for: Option<Vec<String>>,
}

impl DataStore {
    /// Notes that an outside worker is there, whether or not it was known; says whether it is to take on nothing more.
    pub async fn meet(&self, call: OutsideCall) -> Result<bool> {
        transact!(self.inner, "meet an outside worker", |tx, call| meet(tx, &call).await)
    }
}

impl ControlStore {
    /// Asks an outside worker to take on nothing more, or to go on; says whether there is such a worker.
    pub async fn drain_worker(&self, operation: &Operation, worker: &str, drain: bool) -> Result<bool> {
        let (id, operation) = (outside_id(worker), operation.clone());
        transact!(self.inner, "drain a worker", |tx, operation| {
            let is_known = tx.execute(&DRAIN, &[id.into(), i64::from(drain).into()]).await? > 0;
            if is_known {
                record_alone(tx, &operation).await?;
                // A claim of it that waits for work hears of it now.
                tx.wake();
            }
            Ok(is_known)
        })
    }
}

/// The identity of an outside worker, which is known by its name alone.
fn outside_id(worker: &str) -> Uuid {
    let hash = Sha256::digest(format!("redrive outside worker {worker}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

static MEET: Sql = Sql::new(
    "/* processes::meet */
     INSERT INTO processes (process_id, kind, name, host, pid, version, config, serves, started_at, last_seen, last_claim)
     VALUES (?1, ?2, ?3, ?4, 0, '', '', ?5, ?6, ?6, ?7)
     ON CONFLICT (process_id) DO UPDATE
     SET host = excluded.host,
         serves = CASE WHEN excluded.last_claim IS NULL THEN processes.serves ELSE excluded.serves END,
         last_seen = excluded.last_seen,
         last_claim = coalesce(excluded.last_claim, processes.last_claim)
     RETURNING drain",
);
static DRAIN: Sql = Sql::new(
    "/* processes::drain */
     UPDATE processes
     SET drain = ?2
     WHERE process_id = ?1",
);

async fn meet(tx: &mut Tx<'_>, call: &OutsideCall) -> Result<bool> {
    let (now, id) = (tx.now().micros(), outside_id(&call.worker));
    let categories = call.asks_for.clone().unwrap_or_default();
    let serves = Serves { workloads: vec![Workload::Process], sources: BTreeMap::new(), categories };
    let serves = serde_json::to_string(&serves).map_err(|error| Error::row("processes", error))?;
    let params: [Param<'_>; 7] = [
        id.into(),
        Kind::Outside.as_str().into(),
        call.worker.as_str().into(),
        call.host.as_str().into(),
        serves.as_str().into(),
        now.into(),
        call.asks_for.is_some().then_some(now).into(),
    ];
    Ok(tx.row(&MEET, &params, |row| row.int(0)).await?.is_some_and(|drain| drain != 0))
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
     SELECT process_id, kind, name, host, pid, version, config, serves, started_at, last_seen, last_claim, drain
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
        drain: row.int()? != 0,
    })
}
