//! `redrive worker`: does what is wanted until a signal stops it, or with `--drain` until nothing is due.

use std::sync::Arc;

use redrive_core::run::Workload as Kind;
use redrive_data::process::{Discovery, Section, Sections, Unserved};
use redrive_data::validate::Recorder;
use redrive_data::worker::{LeaseKeeper, LeaseTerms, Shutdown, Worker, WorkerCounts, WorkerOptions, Workload};
use redrive_data::{extract, ingest};
use redrive_store::Store;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::sink::open_sink;
use super::{Context, Missing, open, person};
use crate::cli;
use crate::config::{Config, Plan};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::stop::StopSignals;

pub async fn run(args: &cli::Worker, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let plan = config.plan(&kinds(args), &context.environment)?;
    let only = categories(args, &plan.sections)?;
    check_served(args, &plan)?;
    let store = open(&config, Missing::Refuse, context).await?;
    let mut options = options(&config, args.drain);
    options.concurrency = args.concurrency.unwrap_or(options.concurrency);
    let (sources, sections) = (plan.sources.names().len(), plan.sections.iter().count());
    tracing::info!(name = options.name, concurrency = options.concurrency, sources, sections, "started");
    let shutdown = Shutdown::default();
    context.stop.with_grace(options.grace);
    let heeding = tokio::spawn(heed_signals(context.stop.clone(), shutdown.clone()));
    let service = Service::start(&config, &store, plan, only.as_deref(), options, shutdown, context).await?;
    let counts = service.counts();
    let ended = service.run().await;
    heeding.abort();
    let counts = *counts.borrow();
    tracing::info!(?counts, "stopped");
    let discover_failed = ended.as_ref().map_or(0, |ended| ended.discover_failed);
    let summary = Summary { counts, discover_failed };
    let shown = if args.drain { output::ignore_broken_pipe(show(&summary, context)) } else { Ok(()) };
    // What became of the work matters more than whether it could be shown.
    let ended = ended?;
    shown?;
    // A drain that was stopped, or that could not find all jobs, has not done what it was asked for.
    Ok(match (args.drain, ended.was_asked) {
        (true, true) => Exit::Interrupted,
        (true, false) if discover_failed > 0 => Exit::SomeFailed,
        (true | false, _) => Exit::Done,
    })
}

/// The kinds of work that are asked for: all, unless the command names some.
fn kinds(args: &cli::Worker) -> Vec<Kind> {
    let kind = |asked: &cli::Workload| match asked {
        cli::Workload::Extract => Kind::Extract,
        cli::Workload::Ingest => Kind::Ingest,
        cli::Workload::Process => Kind::Process,
    };
    if args.workload.is_empty() { Kind::ALL.to_vec() } else { args.workload.iter().map(kind).collect() }
}

/// The categories that the command names, each of which this worker must be able to handle.
fn categories(args: &cli::Worker, sections: &Sections) -> Result<Option<Vec<String>>> {
    if args.category.is_empty() {
        return Ok(None);
    }
    for category in &args.category {
        match sections.of(category) {
            Some(section) if section.handler.is_some() => {}
            Some(section) => {
                let todo = "give it a command or a url, or leave the category out";
                let name = &section.name;
                return Err(Error::Usage(format!("category {category:?}: process.{name} has no handler; {todo}")));
            }
            None => {
                let known: Vec<&str> = sections.categories().collect();
                let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
                return Err(Error::Usage(format!(
                    "no process section names the category {category:?}; known: {known}"
                )));
            }
        }
    }
    Ok(Some(args.category.clone()))
}

/// Refuses a worker that would have nothing to do.
fn check_served(args: &cli::Worker, plan: &Plan) -> Result<()> {
    let has_sources = !plan.sources.is_empty();
    let has_handlers = plan.sections.iter().any(|section| section.handler.is_some() || section.discover.is_some());
    let lacks = |kind| args.workload.contains(&kind);
    if lacks(cli::Workload::Extract) && !has_sources {
        let todo = "add a [sources.<name>.extract] section to redrive.toml";
        return Err(Error::Usage(format!("there is no source that a worker could extract; {todo}")));
    }
    if lacks(cli::Workload::Process) && !has_handlers {
        let todo = "add a [process.<name>] section with a command or a url to redrive.toml";
        return Err(Error::Usage(format!("there is no section whose jobs a worker could handle; {todo}")));
    }
    Ok(())
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

/// A worker over the configured store and sink, and what finds jobs for it.
#[derive(Debug)]
pub struct Service {
    worker: Worker,
    discoveries: Vec<Discovery>,
    unserved: Option<Unserved>,
    shutdown: Shutdown,
    drain: bool,
}

impl Service {
    /// With `only`, jobs of these categories alone are claimed.
    pub async fn start(
        config: &Config,
        store: &Store,
        plan: Plan,
        only: Option<&[String]>,
        options: WorkerOptions,
        shutdown: Shutdown,
        context: &Context,
    ) -> Result<Self> {
        let keeper = LeaseKeeper::start(&config.store, context.store_options(config), options.terms).await?;
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
        let is_served = |section: &Section| match only {
            Some(only) => section.categories.iter().any(|category| only.contains(category)),
            None => true,
        };
        let unserved = plan.jobs.then(|| Unserved::new(store.view(), plan.sections.clone()));
        let sections = plan.sections.iter().filter(|section| is_served(section));
        let discoveries = sections.filter_map(|section| Discovery::new(store.data(), section)).collect();
        let drain = options.drain;
        let worker = Worker::new(store.data(), keeper, workloads, options, shutdown.clone());
        Ok(Self { worker, discoveries, unserved, shutdown, drain })
    }

    pub fn counts(&self) -> watch::Receiver<WorkerCounts> {
        self.worker.counts()
    }

    /// Works until a signal stops it, or with `drain` until nothing is due and every section was asked for new jobs.
    pub async fn run(mut self) -> Result<ServiceEnd> {
        let (mut beside, mut listings) = (JoinSet::new(), JoinSet::new());
        let (under_way, listing) = watch::channel(0);
        self.worker.stay_for(listing);
        for discovery in self.discoveries {
            let shutdown = self.shutdown.clone();
            if self.drain {
                under_way.send_modify(|under_way| *under_way += 1);
                let listing = Listing(under_way.clone());
                listings.spawn(async move {
                    let is_well = discovery.look_once(shutdown).await;
                    drop(listing);
                    is_well
                });
            } else {
                beside.spawn(discovery.run(shutdown));
            }
        }
        if let Some(unserved) = self.unserved {
            beside.spawn(unserved.run(self.shutdown.clone()));
        }
        let ended = self.worker.run().await;
        let was_asked = self.shutdown.is_requested();
        // Also where the worker has ended by itself.
        self.shutdown.request();
        beside.join_all().await;
        let failed = listings.join_all().await.into_iter().filter(|is_well| !is_well).count();
        ended?;
        Ok(ServiceEnd { was_asked, discover_failed: u64::try_from(failed).unwrap_or(u64::MAX) })
    }
}

pub fn options(config: &Config, drain: bool) -> WorkerOptions {
    let settings = &config.settings.worker;
    WorkerOptions {
        name: format!("{} pid {}", person(), std::process::id()),
        concurrency: settings.concurrency,
        terms: LeaseTerms { lease: settings.lease, heartbeat: settings.heartbeat },
        poll: settings.poll,
        grace: settings.grace,
        drain,
    }
}

/// The first signal asks for an orderly end, the next one for an end at once.
async fn heed_signals(stop: StopSignals, shutdown: Shutdown) {
    let asked = async {
        for count in 1..=2 {
            stop.heard(count).await;
            tracing::info!("asked to stop");
            shutdown.request();
        }
    };
    let left = async {
        shutdown.leaving().await;
        stop.give_back();
    };
    tokio::join!(asked, left);
}

/// What a drain has to say.
#[derive(Debug, Clone, Copy, Serialize)]
struct Summary {
    #[serde(flatten)]
    counts: WorkerCounts,
    discover_failed: u64,
}

/// What JSON calls the counts.
const COUNTS: [&str; 11] = [
    "claimed",
    "accepted",
    "rejected",
    "rate_limited",
    "released",
    "cancelled",
    "lost",
    "records",
    "abandoned",
    "elsewhere",
    "discover_failed",
];

/// What there is to say of other workers' attempts: often nothing.
fn others(counts: &WorkerCounts) -> String {
    let ended = match counts.abandoned {
        0 => String::new(),
        count => format!("; {count} of workers that fell silent ended as `lease expired`"),
    };
    match counts.elsewhere {
        None | Some(0) => ended,
        Some(count) => format!("{ended}; {count} still in flight elsewhere"),
    }
}

/// What there is to say of sections that could not be asked for new jobs: mostly nothing.
fn undiscovered(failed: u64) -> String {
    match failed {
        0 => String::new(),
        1 => "; the discover of one section failed, as the log says".to_owned(),
        count => format!("; the discovers of {count} sections failed, as the log says"),
    }
}

fn show(summary: &Summary, context: &Context) -> Result<()> {
    let Summary { counts, discover_failed } = summary;
    let WorkerCounts { claimed, accepted, rejected, released, lost, records, .. } = counts;
    output::one(&COUNTS, summary, &context.global, || {
        format!(
            "{claimed} attempts: {accepted} accepted with {records} records, {rejected} rejected, \
             {released} given back, {lost} lost{}{}",
            others(counts),
            undiscovered(*discover_failed)
        )
    })
}
