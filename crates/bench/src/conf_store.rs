//! From archives to stanzas in a database: uploads that a whole worker parses, durably; and the inserts alone, beside a bare
//! loop of the same statements with the same rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use redrive_conf::Document;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Workload as Kind;
use redrive_data::ingest::{Limits, Uploads, Workload};
use redrive_data::worker::{LeaseKeeper, LeaseTerms, Shutdown, Worker, WorkerOptions};
use redrive_store::raw::{Blobs, RawUrl, S3Options, Sha256};
use redrive_store::{
    BATCH_ROWS, FileFacts, Options, ParsedBatch, RunClaim, StanzasAdded, Store, StoreUrl, StoredBytes,
};

use crate::conf_loop;
use crate::measure::{OnPhase, phase};
use crate::scratch::Scratch;
use crate::{Error, Result};

/// Each measurement goes on until this much time has gone by.
const LONG_ENOUGH: Duration = Duration::from_secs(2);
const TERMS: LeaseTerms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_secs(20) };
/// How many rows the inserts are measured with, where they can be had in that time.
const ENOUGH_ROWS: u64 = 100_000;

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// How often all archives were parsed, and how long that took.
    pub rounds: u32,
    pub took: Duration,
    /// Stanzas and settings that were added, by the store and by the bare loop.
    pub rows: u64,
    pub inserts: Duration,
    pub bare_inserts: Duration,
}

/// Measures in a place of its own beside a database.
pub async fn run(url: &StoreUrl, dir: &Path, files: &[Vec<u8>], on_phase: OnPhase<'_>) -> Result<Measured> {
    let uploads = read(dir)?;
    let scratch = Scratch::make(url, true).await?;
    let (rounds, took) = scratch
        .during(async |scratch| {
            phase(on_phase, "end to end", end_to_end(scratch, &uploads)).await.map(|(done, _)| done)
        })
        .await?;
    let scratch = Scratch::make(url, true).await?;
    let (inserts, rows) = scratch
        .during(async |scratch| {
            let (inserts, _) = phase(on_phase, "inserts", insert(scratch, files)).await?;
            let rows = conf_loop::rows(&scratch.url).await?;
            Ok((inserts, rows))
        })
        .await?;
    let count = rows.count();
    let scratch = Scratch::make(url, true).await?;
    let bare_inserts = scratch
        .during(async |scratch| {
            drop(scratch.open(1).await?);
            phase(on_phase, "bare inserts", conf_loop::run(&scratch.url, rows)).await.map(|(took, _)| took)
        })
        .await?;
    Ok(Measured { rounds, took, rows: count, inserts, bare_inserts })
}

fn read(dir: &Path) -> Result<Vec<(String, Bytes)>> {
    let failed = || Error::io(format!("cannot read {}", dir.display()));
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed())? {
        paths.push(entry.map_err(failed())?.path());
    }
    paths.sort();
    let mut uploads = Vec::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        uploads.push((name, Bytes::from(std::fs::read(path).map_err(failed())?)));
    }
    Ok(uploads)
}

/// Where the archives lie while they are parsed: on the disk of the database, or here.
fn sink_beside(url: &StoreUrl) -> Result<tempfile::TempDir> {
    let beside = match url {
        StoreUrl::Sqlite(path) => path.parent().filter(|folder| !folder.as_os_str().is_empty()),
        StoreUrl::Postgres(_) => None,
    };
    tempfile::tempdir_in(beside.unwrap_or(Path::new("."))).map_err(Error::io("cannot make a folder for the bench"))
}

/// Uploads everything and has a worker parse it, again and again.
async fn end_to_end(scratch: &Scratch, uploads: &[(String, Bytes)]) -> Result<(u32, Duration)> {
    let folder = sink_beside(&scratch.url)?;
    let place = std::path::absolute(folder.path()).map_err(Error::io("cannot find the bench's own folder"))?;
    let raw: RawUrl = format!("file:{}", place.display()).parse().map_err(Error::failed)?;
    let blobs = Blobs::open(&raw, &S3Options::default()).await?;
    let store = scratch.open(8).await?;
    let sending = Uploads::new(store.data(), blobs.clone(), u64::MAX);
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || start.elapsed() < LONG_ENOUGH {
        for (name, bytes) in uploads {
            let body = stream::iter([Ok(bytes.clone())]);
            sending.upload(name, None, body).await.map_err(Error::failed)?;
        }
        drain(&store, &scratch.url, &blobs).await?;
        rounds += 1;
    }
    Ok((rounds, start.elapsed()))
}

async fn drain(store: &Store, url: &StoreUrl, blobs: &Blobs) -> Result<()> {
    let policy = RetryPolicy::ingest();
    let workload = Workload::new(store.data(), blobs.clone(), Limits::default(), policy, BATCH_ROWS);
    let options = WorkerOptions {
        name: "bench".to_owned(),
        concurrency: 4,
        terms: TERMS,
        poll: Duration::from_millis(50),
        grace: Duration::from_secs(60),
        drain: true,
    };
    let keeper = LeaseKeeper::start(url, Options::default(), TERMS).await.map_err(Error::failed)?;
    let workloads: Vec<Arc<dyn redrive_data::worker::Workload>> = vec![Arc::new(workload)];
    let worker = Worker::new(store.data(), keeper, workloads, options, Shutdown::default());
    worker.run().await.map(drop).map_err(Error::failed)
}

/// Adds all files again and again, each time as another upload; gives the time that adding took.
async fn insert(scratch: &Scratch, files: &[Vec<u8>]) -> Result<Duration> {
    let store = scratch.open(2).await?;
    let data = store.data();
    let (mut rows, mut took, begun) = (0, Duration::ZERO, Instant::now());
    // Of a small folder there would never be enough.
    while rows == 0 || rows < ENOUGH_ROWS && begun.elapsed() < LONG_ENOUGH {
        let run_id = data.begin_upload("bench").await?;
        let stored = StoredBytes { object: run_id.to_string(), bytes: 1, sha256: Sha256::of(b"") };
        data.stored(run_id, stored).await?;
        let claim = RunClaim::new(Kind::Ingest, "bench", 1, TERMS.lease);
        let claimed = data.claim_runs(claim).await?.pop().map(|claimed| claimed.run);
        let run = claimed.ok_or_else(|| Error::Failed("the run of the bench was not claimed".to_owned()))?;
        let upload = data.begin_parsing(&run).await?;
        let upload = upload.ok_or_else(|| Error::Failed("the upload of the bench is not there".to_owned()))?;
        let (batches, added) = batches(files)?;
        rows += added;
        let start = Instant::now();
        for batch in batches {
            match data.add_parsed(&run, &upload, batch).await? {
                StanzasAdded::New(_) => {}
                StanzasAdded::Lost => return Err(Error::Failed("the run of the bench was lost".to_owned())),
            }
        }
        took += start.elapsed();
    }
    Ok(took)
}

/// All files as batches, with the number of their stanzas and settings.
fn batches(files: &[Vec<u8>]) -> Result<(Vec<ParsedBatch>, u64)> {
    let (mut batch, mut full, mut rows) = (ParsedBatch::default(), Vec::new(), 0);
    for (nth, bytes) in files.iter().enumerate() {
        let document = Document::parse(bytes).map_err(Error::failed)?;
        let (path, conf) = (format!("app{nth}/default/conf.conf"), format!("conf{}", nth % 50));
        let (stanzas, settings) = (document.stanzas().len(), document.setting_count());
        rows += u64::try_from(stanzas + settings)?;
        let size = u64::try_from(bytes.len())?;
        let facts =
            FileFacts { path: &path, conf: &conf, layer: "default", bytes: size, stanzas, settings, fault: None };
        batch.add_file(&facts);
        for stanza in document.stanzas() {
            batch.begin_stanza(stanza.name(), (stanza.lines().first, stanza.lines().last));
            for setting in stanza.settings() {
                batch.add_setting(setting.key, setting.value, setting.lines.first);
                if batch.is_full() {
                    full.push(batch.take());
                }
            }
            batch.end_stanza();
        }
    }
    full.push(batch.take());
    Ok((full, rows))
}
