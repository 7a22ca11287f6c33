//! A store and a sink of its own for each test, and workers over them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::run::Run;
use redrive_data::extract::{self, ConfiguredSource, Extractor, Sources};
use redrive_data::validate::Rules;
use redrive_data::worker::{LeaseKeeper, LeaseTerms, Shutdown, Worker, WorkerCounts, WorkerOptions, Workload};
use redrive_fixture::{Database, Postgres};
use redrive_store::raw::{RawOptions, RawSink, RawUrl};
use redrive_store::{ClaimedPartition, Open, Options, PartitionClaim, Rotation, Store, StoreUrl};
use tempfile::TempDir;

pub struct House {
    pub store: Store,
    pub url: StoreUrl,
    pub sink: RawSink,
    pub dir: TempDir,
    _database: Option<Database>,
}

pub const TERMS: LeaseTerms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_secs(20) };

impl House {
    pub async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = StoreUrl::Sqlite(dir.path().join("redrive.db"));
        Self::over(url, dir, None).await
    }

    pub async fn postgres() -> Self {
        let database = tokio::task::spawn_blocking(|| Postgres::shared().fresh_database()).await.unwrap();
        let url = StoreUrl::parse(&database.url).unwrap();
        Self::over(url, tempfile::tempdir().unwrap(), Some(database)).await
    }

    async fn over(url: StoreUrl, dir: TempDir, database: Option<Database>) -> Self {
        let store = Store::open(&url, Open::Migrate, Options::default()).await.unwrap();
        let raw: RawUrl = format!("file:{}", dir.path().join("raw").display()).parse().unwrap();
        let sink = RawSink::open(&raw, &RawOptions::default()).await.unwrap();
        Self { store, url, sink, dir, _database: database }
    }

    pub async fn want(&self, keys: &[PartitionKey]) {
        let now = self.store.now();
        let new = keys.iter().map(|key| Partition::new(key.clone(), Lane::Fresh, now)).collect();
        self.store.control().enqueue(None, new).await.unwrap();
    }

    pub async fn keeper(&self, terms: LeaseTerms) -> LeaseKeeper {
        LeaseKeeper::start(&self.url, Options::default(), terms).await.unwrap()
    }

    /// A worker for the source `src` that ends when nothing is due, unless told otherwise.
    pub async fn worker(&self, job: Work) -> (Worker, Shutdown) {
        self.worker_for(vec![self.extraction(job.source())], job).await
    }

    /// Extraction of the source `src`.
    pub fn extraction(&self, source: ConfiguredSource) -> Arc<dyn Workload> {
        let sources = Sources::new(BTreeMap::from([("src".parse().unwrap(), source)]));
        Arc::new(extract::Workload::new(self.store.data(), self.sink.clone(), sources))
    }

    /// Extraction of no source, for what concerns attempts that other workers began.
    pub fn idle_extraction(&self) -> Arc<dyn Workload> {
        Arc::new(extract::Workload::new(self.store.data(), self.sink.clone(), Sources::default()))
    }

    pub async fn worker_for(&self, workloads: Vec<Arc<dyn Workload>>, job: Work) -> (Worker, Shutdown) {
        let options = WorkerOptions {
            name: "tester".to_owned(),
            concurrency: job.concurrency,
            terms: job.terms,
            poll: job.poll,
            grace: Duration::from_secs(60),
            drain: job.drain,
        };
        let shutdown = Shutdown::default();
        let keeper = self.keeper(job.terms).await;
        (Worker::new(self.store.data(), keeper, workloads, options, shutdown.clone()), shutdown)
    }

    pub async fn drain(&self, extractor: Arc<dyn Extractor>) -> WorkerCounts {
        self.worker(Work::with(extractor)).await.0.run().await.unwrap()
    }

    /// Claims one partition, as a worker that then does nothing.
    pub async fn claim(&self, lease: Duration) -> ClaimedPartition {
        let claim = PartitionClaim {
            limit: 1,
            worker: "idle".to_owned(),
            lease,
            sources: None,
            max_in_flight: BTreeMap::new(),
            at_most: BTreeMap::new(),
            rotation: Rotation::default(),
        };
        self.store.data().claim_partitions(claim).await.unwrap().0.remove(0)
    }

    pub async fn partition(&self, key: &PartitionKey) -> Partition {
        self.store.view().partition(key).await.unwrap().unwrap()
    }

    pub async fn attempts(&self, key: &PartitionKey) -> Vec<Run> {
        self.store.view().attempts(key).await.unwrap()
    }
}

/// What a worker is to be like.
pub struct Work {
    pub extractor: Arc<dyn Extractor>,
    pub concurrency: u32,
    pub timeout: Duration,
    pub max_in_flight: Option<u32>,
    pub rules: Rules,
    pub terms: LeaseTerms,
    pub poll: Duration,
    pub drain: bool,
}

impl Work {
    /// The source that a worker of this kind extracts.
    pub fn source(&self) -> ConfiguredSource {
        ConfiguredSource {
            extractor: Arc::clone(&self.extractor),
            timeout: self.timeout,
            queries: BTreeMap::new(),
            rules: self.rules.clone(),
            max_in_flight: self.max_in_flight,
            cooldown: Duration::from_secs(3600),
        }
    }

    pub fn with(extractor: Arc<dyn Extractor>) -> Self {
        Self {
            extractor,
            concurrency: 8,
            timeout: Duration::from_secs(60),
            max_in_flight: None,
            rules: Rules::default(),
            terms: TERMS,
            poll: Duration::from_millis(100),
            drain: true,
        }
    }
}

pub fn key(customer: &str, day: u32) -> PartitionKey {
    let date = format!("{}-{:02}-{:02}", 2020 + day / 336, 1 + day / 28 % 12, 1 + day % 28);
    PartitionKey::new("src", customer, "q", &date).unwrap()
}

pub fn keys(customer: &str, days: u32) -> Vec<PartitionKey> {
    (0..days).map(|day| key(customer, day)).collect()
}

/// Waits for a condition, for so long at the most.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("waited until {what}"));
}

/// Writes one test for each database.
#[macro_export]
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        mod sqlite { $(#[tokio::test] async fn $name() { super::$name($crate::house::House::sqlite().await).await; })+ }
        mod postgres { $(#[tokio::test] async fn $name() { super::$name($crate::house::House::postgres().await).await; })+ }
    };
}
