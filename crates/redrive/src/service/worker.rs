//! A worker over the configured store and sink, and what finds jobs for it. A reload puts a new generation of workloads in
//! the place of the old one: attempts under way go on as they were begun.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::process::{Kind, Serves};
use redrive_core::run::Workload as WorkKind;
use redrive_data::process::{Discovery, Section, Unserved};
use redrive_data::validate::Recorder;
use redrive_data::worker::{LeaseKeeper, Replacement, Shutdown, Worker, WorkerCounts, WorkerOptions, Workload};
use redrive_data::{extract, ingest};
use redrive_store::Store;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{Me, Presence};
use crate::commands::Context;
use crate::commands::sink::open_sink;
use crate::config::{Config, Plan};
use crate::error::Result;

/// What a configuration makes of a worker.
#[derive(Debug)]
pub struct Generation {
    workloads: Vec<Arc<dyn Workload>>,
    discoveries: Vec<Discovery>,
    unserved: Option<Unserved>,
    serves: Serves,
    config: String,
    concurrency: u32,
}

impl Generation {
    /// With `only`, jobs of these categories alone are claimed.
    pub async fn new(
        config: &Config,
        store: &Store,
        plan: Plan,
        only: Option<&[String]>,
        concurrency: u32,
    ) -> Result<Self> {
        let serves = serves(&plan, only);
        plan.sources.hold_missing(&store.data(), &super::name()).await?;
        let mut workloads: Vec<Arc<dyn Workload>> = Vec::new();
        let (extracts, uploads) = (!plan.sources.is_empty(), plan.uploads);
        let sink = if extracts || uploads { Some(open_sink(config, store).await?) } else { None };
        if let Some(sink) = sink.clone().filter(|_| extracts) {
            let recorder = Recorder::start(store.verdicts());
            workloads.push(Arc::new(extract::Workload::new(store.data(), recorder, sink, plan.sources)));
        }
        if let Some(sink) = sink.filter(|_| uploads) {
            let (limits, policy) = (config.ingestion.limits.clone(), config.ingestion.policy.clone());
            let batch_rows = config.ingestion.batch_rows;
            workloads.push(Arc::new(ingest::Workload::new(store.data(), sink.blobs(), limits, policy, batch_rows)));
        }
        workloads.extend(plan.sections.workloads(&store.data(), only));
        let unserved = plan.jobs.then(|| Unserved::new(store.view(), plan.sections.clone()));
        let sections = plan.sections.iter().filter(|section| is_served(section, only));
        let discoveries = sections.filter_map(|section| Discovery::new(store.data(), section)).collect();
        Ok(Self { workloads, discoveries, unserved, serves, config: config.fingerprint.clone(), concurrency })
    }
}

fn is_served(section: &Section, only: Option<&[String]>) -> bool {
    only.is_none_or(|only| section.categories.iter().any(|category| only.contains(category)))
}

fn serves(plan: &Plan, only: Option<&[String]>) -> Serves {
    let handled = plan.sections.iter().filter(|section| section.handler.is_some());
    let categories = handled.flat_map(|section| section.categories.iter());
    let categories: Vec<String> =
        categories.filter(|name| only.is_none_or(|only| only.contains(name))).cloned().collect();
    let limits = plan.sources.max_in_flight();
    let sources: BTreeMap<_, _> =
        plan.sources.names().into_iter().map(|source| (source.clone(), limits.get(&source).copied())).collect();
    let has = [
        (WorkKind::Extract, !sources.is_empty()),
        (WorkKind::Ingest, plan.uploads),
        (WorkKind::Process, !categories.is_empty()),
    ];
    let workloads = has.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind).collect();
    Serves { workloads, sources, categories }
}

/// What looks for jobs beside the worker, as long as its generation lasts.
#[derive(Debug)]
struct Beside {
    tasks: JoinSet<()>,
    shutdown: Shutdown,
}

impl Beside {
    fn start(discoveries: Vec<Discovery>, unserved: Option<Unserved>) -> Self {
        let (mut tasks, shutdown) = (JoinSet::new(), Shutdown::default());
        for discovery in discoveries {
            tasks.spawn(discovery.run(shutdown.clone()));
        }
        if let Some(unserved) = unserved {
            tasks.spawn(unserved.run(shutdown.clone()));
        }
        Self { tasks, shutdown }
    }

    async fn end(self) {
        self.shutdown.request();
        self.tasks.join_all().await;
    }
}

#[derive(Debug)]
pub struct Service {
    worker: Worker,
    beside: Beside,
    /// Asked once by a worker that drains.
    look_once: Vec<Discovery>,
    shutdown: Shutdown,
    presence: Presence,
    replacing: mpsc::UnboundedSender<Replacement>,
    reloads: (mpsc::UnboundedSender<Generation>, mpsc::UnboundedReceiver<Generation>),
}

impl Service {
    pub async fn start(
        config: &Config,
        store: &Store,
        generation: Generation,
        options: WorkerOptions,
        shutdown: Shutdown,
        context: &Context,
    ) -> Result<Self> {
        let keeper = LeaseKeeper::start(&config.store, context.store_options(config), options.terms).await?;
        let Generation { workloads, discoveries, unserved, serves, config, .. } = generation;
        let (go_on, look_once) = if options.drain { (vec![], discoveries) } else { (discoveries, vec![]) };
        let worker = Worker::new(store.data(), keeper, workloads, options, shutdown.clone());
        let me = Me { kind: Kind::Worker, config, serves };
        let presence = Presence::begin(store, me, Some(worker.counts())).await;
        let (beside, replacing) = (Beside::start(go_on, unserved), worker.replacing());
        Ok(Self { worker, beside, look_once, shutdown, presence, replacing, reloads: mpsc::unbounded_channel() })
    }

    pub fn counts(&self) -> watch::Receiver<WorkerCounts> {
        self.worker.counts()
    }

    /// Takes generations that are to follow the one it has.
    pub fn reloading(&self) -> mpsc::UnboundedSender<Generation> {
        self.reloads.0.clone()
    }

    /// Works until a signal stops it, or with `drain` until nothing is due and every section was asked for new jobs.
    pub async fn run(mut self) -> Result<ServiceEnd> {
        let (under_way, listing) = watch::channel(0);
        self.worker.stay_for(listing);
        let mut listings = JoinSet::new();
        for discovery in self.look_once {
            let shutdown = self.shutdown.clone();
            under_way.send_modify(|under_way| *under_way += 1);
            let listing = Listing(under_way.clone());
            listings.spawn(async move {
                let is_well = discovery.look_once(shutdown).await;
                drop(listing);
                is_well
            });
        }
        let (mut beside, mut reloads) = (self.beside, self.reloads.1);
        let working = self.worker.run();
        tokio::pin!(working);
        let ended = loop {
            tokio::select! {
                ended = &mut working => break ended,
                () = self.shutdown.requested(), if !beside.shutdown.is_requested() => beside.shutdown.request(),
                Some(generation) = reloads.recv() => {
                    let Generation { workloads, discoveries, unserved, serves, config, concurrency } = generation;
                    // A worker that has ended takes nothing up.
                    let _ = self.replacing.send(Replacement { workloads, concurrency });
                    let old = std::mem::replace(&mut beside, Beside::start(discoveries, unserved));
                    tokio::spawn(old.end());
                    self.presence.tell(config, serves);
                }
            }
        };
        let was_asked = self.shutdown.is_requested();
        // Also where the worker has ended by itself.
        self.shutdown.request();
        beside.end().await;
        let failed = listings.join_all().await.into_iter().filter(|is_well| !is_well).count();
        self.presence.end().await;
        ended?;
        Ok(ServiceEnd { was_asked, discover_failed: u64::try_from(failed).unwrap_or(u64::MAX) })
    }
}

/// How a worker's service ended.
#[derive(Debug, Clone, Copy)]
pub struct ServiceEnd {
    /// A signal came.
    pub was_asked: bool,
    /// How many sections could not be asked for new jobs by a worker that drains.
    pub discover_failed: u64,
}

/// Counts a listing of new jobs until it has ended, also by a panic.
struct Listing(watch::Sender<usize>);

impl Drop for Listing {
    fn drop(&mut self) {
        self.0.send_modify(|under_way| *under_way -= 1);
    }
}
