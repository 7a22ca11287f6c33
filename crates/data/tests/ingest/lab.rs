//! A store, a sink and a clock for each test, and workers over them.

use std::io::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use redrive_core::id::RunId;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Run, Workload as Kind};
use redrive_data::ingest::{Limits, NotUploaded, Uploaded, Uploads, Workload};
use redrive_data::worker::{AttemptResult, LeaseKeeper, LeaseTerms, Shutdown, Worker, WorkerCounts, WorkerOptions};
use redrive_fixture::{S3, TestClock, TestDatabase, TestStore, eventually, with_clock};
use redrive_store::raw::{Blobs, RawOptions, RawUrl, S3Options};
use redrive_store::{BATCH_ROWS, RunClaim, StanzaPage, StanzaRow};
use serde_json::Value;
use tokio::time::Instant;

use crate::proxy::{Proxy, Way};

pub const TERMS: LeaseTerms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_secs(20) };
pub const MAX_UPLOAD: u64 = 64 << 20;

pub struct Lab {
    on: TestStore<TestClock>,
    pub blobs: Blobs,
    /// In front of S3.
    pub proxy: Option<Proxy>,
    /// Where objects lie on S3, past the proxy.
    bucket: Option<String>,
}

/// Where a lab keeps the bytes of uploads.
#[derive(Clone, Copy)]
pub enum Sink {
    Files,
    S3,
}

/// What is found where the sink was.
#[derive(Debug, Clone, Copy)]
pub enum Leaving {
    Nothing,
    EmptyPlace,
}

impl Deref for Lab {
    type Target = TestStore<TestClock>;

    fn deref(&self) -> &Self::Target {
        &self.on
    }
}

impl Lab {
    pub async fn new(database: TestDatabase, sink: Sink) -> Self {
        let (raw, s3, proxy, bucket) = match sink {
            Sink::Files => {
                (format!("file:{}", database.path().join("raw").display()), S3Options::default(), None, None)
            }
            Sink::S3 => {
                let bucket = tokio::task::spawn_blocking(|| S3::shared().fresh_bucket()).await.unwrap();
                let proxy = Proxy::before(&bucket.endpoint);
                let s3 = S3Options::from_vars([
                    ("AWS_ENDPOINT_URL", proxy.endpoint.as_str()),
                    ("AWS_ALLOW_HTTP", "true"),
                    ("AWS_REGION", &bucket.region),
                    ("AWS_ACCESS_KEY_ID", &bucket.access_key),
                    ("AWS_SECRET_ACCESS_KEY", &bucket.secret_key),
                ]);
                let direct = format!("{}/{}/lake", bucket.endpoint, bucket.name);
                (format!("s3://{}/lake", bucket.name), s3, Some(proxy), Some(direct))
            }
        };
        let raw: RawUrl = raw.parse().unwrap();
        let on = TestStore::open(database, TestClock::default()).await;
        let options = RawOptions { s3, ..RawOptions::default() };
        let blobs = redrive_data::sink::open(&raw, &options, &on.store.data()).await.unwrap().blobs();
        Self { on, blobs, proxy, bucket }
    }

    /// Puts other bytes in the place of an object, as no part of the program does.
    pub async fn replace(&self, object: &str, bytes: &[u8]) {
        match &self.bucket {
            None => std::fs::write(self.database.path().join("raw").join(object), bytes).unwrap(),
            Some(bucket) => {
                let place = format!("{bucket}/{}", object.replace('=', "%3D"));
                // The server for tests wants a name and checks no signature.
                let signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
                              SignedHeaders=host, Signature=0";
                let put = reqwest::Client::new().put(place).header("Authorization", signed).body(bytes.to_vec());
                let sent = put.send().await.unwrap();
                assert!(sent.status().is_success(), "{sent:?}");
            }
        }
    }

    /// Takes the whole sink away, as an unmounted volume does or a bucket that no longer lets anybody in.
    pub fn take_sink_away(&self, leaving: Leaving) {
        let (raw, away) = self.folders();
        match (&self.proxy, leaving) {
            (Some(proxy), Leaving::Nothing) => proxy.fail(Way::Forbids),
            (Some(proxy), Leaving::EmptyPlace) => proxy.fail(Way::LosesAll),
            (None, Leaving::Nothing) => std::fs::rename(raw, away).unwrap(),
            (None, Leaving::EmptyPlace) => {
                std::fs::rename(&raw, away).unwrap();
                std::fs::create_dir(raw).unwrap();
            }
        }
    }

    /// Waits until an upload has a file in the sink. On S3 a small one is sent only when it is whole.
    pub async fn upload_has_begun(&self) {
        if self.proxy.is_none() {
            let uploads = self.folders().0.join("_uploads");
            let entries = |of: &Path| std::fs::read_dir(of).into_iter().flatten().map(|entry| entry.unwrap().path());
            let is_begun = |run: PathBuf| entries(&run).any(|file| file.to_string_lossy().contains('#'));
            eventually("the upload has a file", async || entries(&uploads).any(is_begun)).await;
        }
    }

    /// Brings it back; nothing may have been written beside it.
    pub fn bring_sink_back(&self) {
        let (raw, away) = self.folders();
        match &self.proxy {
            Some(proxy) => proxy.fail(Way::Well),
            None => {
                if raw.exists() {
                    std::fs::remove_dir(&raw).unwrap();
                }
                std::fs::rename(away, raw).unwrap();
            }
        }
    }

    fn folders(&self) -> (PathBuf, PathBuf) {
        (self.database.path().join("raw"), self.database.path().join("away"))
    }

    pub fn uploads(&self) -> Uploads {
        Uploads::new(self.store.data(), self.blobs.clone(), MAX_UPLOAD)
    }

    pub async fn upload(&self, name: &str, bytes: &[u8]) -> Uploaded {
        self.try_upload(name, bytes).await.unwrap()
    }

    pub async fn try_upload(&self, name: &str, bytes: &[u8]) -> Result<Uploaded, NotUploaded> {
        let pieces: Vec<_> = bytes.chunks(100_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        self.uploads().upload(name, None, stream::iter(pieces)).await
    }

    pub fn workload(&self) -> Workload {
        let (blobs, limits) = (self.blobs.clone(), Limits::default());
        Workload::new(self.store.data(), blobs, limits, RetryPolicy::ingest(), BATCH_ROWS)
    }

    pub async fn keeper(&self, terms: LeaseTerms) -> LeaseKeeper {
        LeaseKeeper::start(&self.database.url, with_clock(&self.clock), terms).await.unwrap()
    }

    /// A worker that ends when nothing is due.
    pub async fn worker(&self, terms: LeaseTerms) -> (Worker, Shutdown) {
        self.worker_until(terms, true).await
    }

    /// A worker that goes on until it is stopped, or ends when nothing is due.
    pub async fn worker_until(&self, terms: LeaseTerms, drain: bool) -> (Worker, Shutdown) {
        let options = WorkerOptions {
            name: "tester".to_owned(),
            concurrency: 4,
            terms,
            poll: Duration::from_millis(50),
            grace: Duration::from_secs(60),
            drain,
        };
        let shutdown = Shutdown::default();
        let workload: Arc<dyn redrive_data::worker::Workload> = Arc::new(self.workload());
        let keeper = self.keeper(terms).await;
        (Worker::new(self.store.data(), keeper, vec![workload], options, shutdown.clone()), shutdown)
    }

    pub async fn drain(&self) -> WorkerCounts {
        self.worker(TERMS).await.0.run().await.unwrap()
    }

    /// Claims the next upload; none when nothing is due.
    pub async fn claim(&self) -> Option<Run> {
        let claim = RunClaim::new(Kind::Ingest, "w", 1, TERMS.lease);
        self.store.data().claim_runs(claim).await.unwrap().pop().map(|claimed| claimed.run)
    }

    /// One attempt at a claimed run.
    pub async fn attempt(&self, run: Run) -> AttemptResult {
        let keeper = self.keeper(TERMS).await;
        let lease = keeper.hold(run.run_id, run.task_id.unwrap(), Instant::now());
        self.workload().attempt(run, lease, Shutdown::default()).await
    }

    pub async fn metrics(&self, run_id: RunId) -> Value {
        serde_json::from_str(&self.run(run_id).await.metrics.unwrap()).unwrap()
    }

    pub async fn stanzas(&self, run_id: RunId) -> Vec<StanzaRow> {
        let mut page = StanzaPage { run_id, file: None, name: None, after: None, limit: 1000 };
        let mut all = Vec::new();
        loop {
            let next = self.store.view().stanzas(page.clone()).await.unwrap();
            let Some(last) = next.last() else { return all };
            page.after = Some(last.place);
            all.extend(next);
        }
    }

    /// Everything of a run's stanzas that does not depend on the run.
    pub async fn content(&self, run_id: RunId) -> Vec<String> {
        let all = self.stanzas(run_id).await.into_iter();
        all.map(|s| format!("{} {:?} {} {} {:?}", s.file.path, s.name, s.line, s.last_line, s.settings)).collect()
    }
}

pub fn corpus() -> PathBuf {
    redrive_fixture::corpus("corpus")
}

pub fn corpus_file(name: &str) -> Vec<u8> {
    std::fs::read(corpus().join(name)).unwrap()
}

/// A tar archive of these files.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(bytes.len()).unwrap());
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

/// A configuration file of so many stanzas with four settings each.
pub fn conf(stanzas: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for nth in 0..stanzas {
        writeln!(text, "[stanza {nth}]\na = {nth}\nsearch = index=main `macro_{nth}` | stats count\nb = x\nc = true")
            .unwrap();
    }
    text
}

/// Writes one test for each database and sink.
#[macro_export]
macro_rules! everywhere {
    (@ $module:ident $database:ident $sink:ident $($name:ident),+) => {
        mod $module {
            use redrive_fixture::TestDatabase;
            use $crate::lab::{Lab, Sink};
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(Lab::new(TestDatabase::$database(), Sink::$sink).await).await;
            })+
        }
    };
    ($($name:ident),+ $(,)?) => {
        $crate::everywhere!(@ sqlite_files sqlite Files $($name),+);
        $crate::everywhere!(@ sqlite_s3 sqlite S3 $($name),+);
        $crate::everywhere!(@ postgres_files postgres Files $($name),+);
        $crate::everywhere!(@ postgres_s3 postgres S3 $($name),+);
    };
}
