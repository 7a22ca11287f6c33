//! A store and a sink of its own for each test, and workers over them.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::retry::MAX_HINT;
use redrive_core::run::Run;
use redrive_data::extract::{self, ConfiguredSource, Extractor, MAX_BYTES, Sources};
use redrive_data::validate::{Recorder, Rules, ValidatorProgram};
use redrive_data::worker::{LeaseKeeper, LeaseTerms, Shutdown, Worker, WorkerCounts, WorkerOptions, Workload};
use redrive_fixture::{OnDatabase, TestClock, TestDatabase, TestStore, with_clock};
use redrive_store::raw::{RawOptions, RawSink, RawUrl};
use redrive_store::{ClaimedPartition, PartitionClaim};

/// A data plane over a database and a sink of its own. Its workers wait for real, so its clock is this machine's, unless a
/// test holds it.
pub struct TestDataPlane {
    on: TestStore<TestClock>,
    pub sink: RawSink,
}

pub const TERMS: LeaseTerms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_secs(20) };

impl Deref for TestDataPlane {
    type Target = TestStore<TestClock>;

    fn deref(&self) -> &Self::Target {
        &self.on
    }
}

impl OnDatabase for TestDataPlane {
    async fn on(database: TestDatabase) -> Self {
        let raw: RawUrl = format!("file:{}", database.path().join("raw").display()).parse().unwrap();
        let sink = RawSink::open(&raw, &RawOptions::default()).await.unwrap();
        Self { on: TestStore::open(database, TestClock::default()).await, sink }
    }
}

impl TestDataPlane {
    pub async fn sqlite() -> Self {
        Self::on(TestDatabase::sqlite()).await
    }

    pub async fn want(&self, keys: &[PartitionKey]) {
        self.on.want(Lane::Fresh, keys.to_vec()).await;
    }

    pub async fn keeper(&self, terms: LeaseTerms) -> LeaseKeeper {
        LeaseKeeper::start(&self.database.url, with_clock(&self.clock), terms).await.unwrap()
    }

    /// A worker for the source `src` that ends when nothing is due, unless told otherwise.
    pub async fn worker(&self, job: Work) -> (Worker, Shutdown) {
        self.worker_for(vec![self.extraction(job.source())], job).await
    }

    /// Extraction of the source `src`.
    pub fn extraction(&self, source: ConfiguredSource) -> Arc<dyn Workload> {
        let sources = Sources::new(BTreeMap::from([("src".parse().unwrap(), source)]));
        Arc::new(extract::Workload::new(
            self.store.data(),
            Recorder::start(self.store.verdicts()),
            self.sink.clone(),
            sources,
        ))
    }

    /// Extraction of no source, for what concerns attempts that other workers began.
    pub fn idle_extraction(&self) -> Arc<dyn Workload> {
        Arc::new(extract::Workload::new(
            self.store.data(),
            Recorder::start(self.store.verdicts()),
            self.sink.clone(),
            Sources::default(),
        ))
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
        let claim = PartitionClaim::new("idle", 1, lease);
        self.store.data().claim_partitions(claim).await.unwrap().0.remove(0)
    }

    pub async fn partition(&self, key: &PartitionKey) -> Partition {
        self.read(key).await
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
    pub rate_limit_budget: Duration,
    pub breaker: BreakerPolicy,
    pub max_attempts: Option<u32>,
    pub rules: Rules,
    pub validator: Option<Arc<ValidatorProgram>>,
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
            validator: self.validator.clone(),
            max_in_flight: self.max_in_flight,
            max_bytes: MAX_BYTES,
            longest_hint: MAX_HINT,
            cooldown: Duration::from_secs(3600),
            rate_limit_budget: Some(self.rate_limit_budget),
            breaker: self.breaker,
            max_attempts: self.max_attempts,
        }
    }

    pub fn with(extractor: Arc<dyn Extractor>) -> Self {
        Self {
            extractor,
            concurrency: 8,
            timeout: Duration::from_secs(60),
            max_in_flight: None,
            rate_limit_budget: Duration::from_secs(86_400),
            breaker: BreakerPolicy::OFF,
            max_attempts: Some(8),
            rules: Rules::default(),
            validator: None,
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
