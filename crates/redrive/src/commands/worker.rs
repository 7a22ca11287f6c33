//! `redrive worker`: does what is wanted until a signal stops it, or with `--drain` until nothing is due. SIGHUP has it
//! read its configuration again.

use std::convert::Infallible;

use redrive_core::any_of::AnyOf;
use redrive_core::key::Source;
use redrive_core::run::Workload as Kind;
use redrive_data::process::Sections;
use redrive_data::worker::{LeaseTerms, Shutdown, WorkerOptions};
use redrive_store::Store;
use tokio::sync::mpsc;

use super::drained::{CountsShown, Drained};
use super::{Context, Missing, open};
use crate::cli;
use crate::config::{Config, Plan};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::service::{self, Generation, Reload, Service, ShownMetrics};
use crate::stop::StopSignals;

pub async fn run(args: &cli::Worker, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let (plan, only) = plan(args, &config, context)?;
    let store = open(&config, Missing::Refuse, context).await?;
    let _shown = ShownMetrics::begin(args.metrics.as_deref(), context).await?;
    serve(args, config, &store, (plan, only), context).await
}

/// Works over an open store until a signal stops it, or until nothing is due where that is asked for.
pub async fn serve(
    args: &cli::Worker,
    config: Config,
    store: &Store,
    (plan, only): (Plan, Option<Vec<String>>),
    context: &Context,
) -> Result<Exit> {
    let mut options = options(&config, args.drain);
    options.concurrency = args.concurrency.unwrap_or(options.concurrency);
    let (sources, sections) = (plan.sources.names(), plan.sections.iter().count());
    let (name, concurrency) = (&options.name, options.concurrency);
    tracing::info!(name, concurrency, sources = sources.len(), sections, "started");
    let shutdown = Shutdown::default();
    let hangups = Reload::listen()?;
    context.stop.with_grace(options.grace);
    let heeding = tokio::spawn(heed_signals(context.stop.clone(), shutdown.clone()));
    let generation = Generation::new(&config, store, plan, only.as_deref(), options.concurrency).await?;
    let service = Service::start(&config, store, generation, options, shutdown, context).await?;
    let (counts, reloading, begun) = (service.counts(), service.reloading(), store.view().now());
    let shown = args.drain.then(|| CountsShown::start(service.counts(), context.global.quiet));
    let ended = tokio::select! {
        ended = service.run() => ended,
        never = reload(args, context, config, store, hangups, &reloading) => match never {},
    };
    heeding.abort();
    drop(shown);
    let counts = *counts.borrow();
    tracing::info!(?counts, "stopped");
    if !args.drain {
        return ended.map(|_| Exit::Done);
    }
    Drained { ended, counts, begun, sources }.report(context).await
}

/// What this worker is to do by its configuration, and the categories that the command names.
pub fn plan(args: &cli::Worker, config: &Config, context: &Context) -> Result<(Plan, Option<Vec<String>>)> {
    let plan = config.plan_of(&kinds(args), &sources(args, config)?, &context.environment)?;
    let only = categories(args, &plan.sections)?;
    check_served(args, &plan)?;
    Ok((plan, only))
}

/// Reads the configuration again whenever it is asked to.
async fn reload(
    args: &cli::Worker,
    context: &Context,
    mut config: Config,
    store: &Store,
    mut hangups: Reload,
    to: &mpsc::UnboundedSender<Generation>,
) -> Infallible {
    loop {
        hangups.asked().await;
        let next = async {
            let next = service::next(context, &config)?;
            let (plan, only) = plan(args, &next, context)?;
            let concurrency = args.concurrency.unwrap_or(next.settings.worker.concurrency);
            let generation = Generation::new(&next, store, plan, only.as_deref(), concurrency).await?;
            Ok((next, generation))
        };
        service::log(next.await.map(|(next, generation)| {
            config = next;
            // A worker that has ended takes nothing up.
            let _ = to.send(generation);
            config.fingerprint.clone()
        }));
    }
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

/// The sources that the command names, each of which this worker must be able to extract.
fn sources(args: &cli::Worker, config: &Config) -> Result<AnyOf<Source>> {
    let sections = &config.settings.sources;
    let known = |(source, _): (&Source, _)| source.to_string();
    let one = |name: &String| {
        let source = Source::new(name).map_err(|error| Error::Usage(error.to_string()))?;
        match sections.get(&source) {
            Some(section) if section.extract.is_some() => Ok(source),
            Some(_) => {
                let todo = "give it an extract section, or leave the source out";
                Err(Error::Usage(format!("source {source}: [sources.{source}] does not say how to extract it; {todo}")))
            }
            None => {
                let known: Vec<String> = sections.iter().map(known).collect();
                let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
                Err(Error::Usage(format!("the configuration has no [sources.{source}]; known: {known}")))
            }
        }
    };
    if !args.source.is_empty() && !kinds(args).contains(&Kind::Extract) {
        return Err(Error::Usage("--source is about partitions, and --workload leaves extract out".to_owned()));
    }
    args.source.iter().map(one).collect()
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

pub fn options(config: &Config, drain: bool) -> WorkerOptions {
    let settings = &config.settings.worker;
    WorkerOptions {
        name: service::name(),
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
        stop.give_back().await;
    };
    tokio::join!(asked, left);
}
