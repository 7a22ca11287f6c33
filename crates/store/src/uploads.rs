//! Uploads: runs that parse an archive, and where the bytes of the archive lie.
//!
//! A run is made before its bytes arrive, and waits as `storing`. The row in `uploads` is written together with the step
//! to `queued`: a run without such a row has no bytes yet, and no worker can claim it.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::run::{Event, Fault, Run, Work};
use redrive_core::time::Timestamp;

use crate::db::{Batch, Column, Cursor, Effect, Kind, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, DataStore, View, read, transact};
use crate::raw::Sha256;
use crate::runs::{self, NewRun};
use crate::stanzas::{ForgetStep, UploadNo};

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

    /// Ends a run whose bytes were refused while they came.
    pub async fn not_stored(&self, run_id: RunId, fault: Fault, metrics: Option<String>) -> Result<Run> {
        let (now, event) = (self.now(), Event::NotStored { fault, metrics });
        transact!(self.inner, "upload not stored", |tx, event| runs::move_run(tx, run_id, &event, now).await)
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

impl ControlStore {
    /// Takes away what is left of uploads whose run was forgotten, by at most `steps` small transactions; tells whether there
    /// is more. The bytes in the sink stay.
    pub async fn forget_uploads(&self, steps: u32) -> Result<bool> {
        let mut next: Option<(UploadNo, ForgetStep)> = None;
        for _ in 0..steps {
            let begun = next;
            match transact!(self.inner, "forget uploads", |tx| forget_some(tx, begun).await)? {
                Forgotten::Some(upload, step) => next = Some((upload, step)),
                Forgotten::Upload => next = None,
                Forgotten::All => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What one transaction came to.
enum Forgotten {
    /// There is more of this upload.
    Some(UploadNo, ForgetStep),
    /// An upload is gone.
    Upload,
    /// There was nothing left.
    All,
}

static NEXT_FORGOTTEN: Sql = Sql::new(
    "/* uploads::next_forgotten */
     SELECT upload_no
     FROM uploads
     WHERE forgotten_at IS NOT NULL
     ORDER BY upload_no
     LIMIT 1",
);
static DELETE: Sql = Sql::new(
    "/* uploads::delete */
     DELETE FROM uploads
     WHERE upload_no = CAST(?1 AS BIGINT)",
);

async fn forget_some(tx: &mut Tx<'_>, begun: Option<(UploadNo, ForgetStep)>) -> Result<Forgotten> {
    let (upload, step) = match begun {
        Some(begun) => begun,
        None => match tx.row(&NEXT_FORGOTTEN, &[], |row| row.int(0)).await? {
            Some(number) => (UploadNo(number), ForgetStep::first(UploadNo(number))),
            None => return Ok(Forgotten::All),
        },
    };
    match step.take(tx, upload).await? {
        Some(step) => Ok(Forgotten::Some(upload, step)),
        None => {
            tx.execute(&DELETE, &[upload.0.into()]).await?;
            Ok(Forgotten::Upload)
        }
    }
}

static MARK_FORGOTTEN: Batch = Batch::new(
    "/* uploads::mark_forgotten */
     UPDATE uploads
     SET forgotten_at = @now
     {from}
     WHERE uploads.run_id = @run_id",
    &[("run_id", Kind::Id), ("now", Kind::Int)],
    Effect::All,
);

/// Marks the uploads of runs that are forgotten: from now on nobody finds what was parsed of them.
pub(crate) async fn mark_forgotten(tx: &mut Tx<'_>, runs: &[RunId], now: Timestamp) -> Result<()> {
    let columns = [Column::ids(runs, |id| Some(id.uuid())), Column::ints(runs, |_| Some(now.micros()))];
    tx.batch(&MARK_FORGOTTEN, &columns).await.map(drop)
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
