//! Uploads: runs that parse an archive, and where the bytes of the archive lie.
//!
//! A run is made before its bytes arrive, and waits as `storing`. The row in `uploads` is written together with the step
//! to `queued`: a run without such a row has no bytes yet, and no worker can claim it.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::run::{Event, Run, Work};

use crate::db::{Cursor, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, DataStore, View, read, transact};
use crate::raw::Sha256;
use crate::runs::{self, NewRun};

/// Keeps two transactions from giving out the same number.
const NEW_UPLOAD: i64 = 0x7570_6c6f;

/// Bytes that have arrived in the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBytes {
    /// Where they lie, below the sink's own place.
    pub object: String,
    pub bytes: u64,
    pub sha256: Sha256,
}

/// An upload whose bytes have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    pub run_id: RunId,
    pub stored: StoredBytes,
    /// The latest earlier run of the same bytes.
    pub same_as: Option<RunId>,
    pub(crate) number: i64,
    /// The version of the parser that made the rows, once there are any.
    pub(crate) parser: Option<i64>,
}

impl DataStore {
    /// Makes the run of an archive whose bytes are still to come. No worker can claim it before [`Self::stored`].
    pub async fn begin_upload(&self, file: &str) -> Result<RunId> {
        let work = Work::Ingest { upload: file.to_owned() };
        let run = NewRun { awaits_input: true, ..NewRun::new(work, None, self.now()) };
        let control = ControlStore { inner: Arc::clone(&self.inner) };
        let submitted = control.submit(vec![run]).await?;
        submitted
            .first()
            .map(|submitted| submitted.run_id)
            .ok_or(Error::Input { what: "an upload", why: "it got no run" })
    }

    /// Records that the bytes of a run are in the sink, and queues the run, in one transaction.
    pub async fn stored(&self, run_id: RunId, stored: StoredBytes) -> Result<(Run, Upload)> {
        let now = self.now();
        transact!(self.inner, "upload stored", |tx, stored| {
            let run = runs::move_run(tx, run_id, &Event::Stored, now).await?;
            Ok((run, insert(tx, run_id, &stored).await?))
        })
    }
}

impl View {
    /// Where the bytes of a run lie; none before they have arrived.
    pub async fn upload(&self, run_id: RunId) -> Result<Option<Upload>> {
        read!(self, "upload", |tx, run_id| get(tx, *run_id))
    }
}

static LAST: Sql = Sql::new(
    "/* uploads::last */
     SELECT coalesce(max(upload_no), 0)
     FROM uploads",
);
static SAME: Sql = Sql::new(
    "/* uploads::same */
     SELECT run_id
     FROM uploads
     WHERE sha256 = ?1
     ORDER BY upload_no DESC
     LIMIT 1",
);
static INSERT: Sql = Sql::new(
    "/* uploads::insert */
     INSERT INTO uploads (upload_no, run_id, bytes, sha256, object, same_as)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
);

async fn insert(tx: &mut Tx<'_>, run_id: RunId, stored: &StoredBytes) -> Result<Upload> {
    tx.exclusive(NEW_UPLOAD).await?;
    let number = tx.row(&LAST, &[], |row| row.int(0)).await?.unwrap_or(0) + 1;
    // The number is the upper half of an id.
    i32::try_from(number).map_err(|error| Error::row("uploads", error))?;
    let sha256 = stored.sha256.to_string();
    let same_as = tx.row(&SAME, &[(&sha256).into()], |row| row.id(0)).await?;
    let bytes = i64::try_from(stored.bytes).unwrap_or(i64::MAX);
    let params =
        [number.into(), run_id.uuid().into(), bytes.into(), (&sha256).into(), (&stored.object).into(), same_as.into()];
    tx.execute(&INSERT, &params).await?;
    let same_as = same_as.map(RunId::from_uuid);
    Ok(Upload { run_id, stored: stored.clone(), same_as, number, parser: None })
}

static GET: Sql = Sql::new(
    "/* uploads::get */
     SELECT run_id, object, bytes, sha256, same_as, upload_no, parser
     FROM uploads
     WHERE run_id = ?1",
);

pub(crate) async fn get(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<Upload>> {
    tx.row(&GET, &[run_id.uuid().into()], |row| read_upload(&mut row.cursor())).await
}

fn read_upload(row: &mut Cursor<'_>) -> Result<Upload> {
    Ok(Upload {
        run_id: RunId::from_uuid(row.id()?),
        stored: StoredBytes { object: row.text()?, bytes: row.count()?, sha256: row.word()? },
        same_as: row.opt_id()?.map(RunId::from_uuid),
        number: row.int()?,
        parser: row.opt_int()?,
    })
}
