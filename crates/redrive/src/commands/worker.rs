//! `redrive worker`: extracts what is wanted until it is told to stop, or with `--drain` until nothing is due.

use std::sync::Arc;

use redrive_data::extract::{self, Sources};
use redrive_data::worker::{LeaseKeeper, LeaseTerms, Shutdown, Worker, WorkerCounts, WorkerOptions, Workload};
use redrive_store::Store;
use redrive_store::raw::RawSink;
use tokio::signal::unix::{SignalKind, signal};

use super::{Context, open, person};
use crate::cli;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::{cli::Format, output};

pub async fn run(args: &cli::Worker, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let sources = config.plan(&context.environment)?;
    if sources.is_empty() {
        let todo = "add a [sources.<name>.extract] section to redrive.toml";
        return Err(Error::Usage(format!("there is no source that a worker could extract; {todo}")));
    }
    let store = open(&config, context).await?;
    let mut options = options(&config, args.drain);
    options.concurrency = args.concurrency.unwrap_or(options.concurrency);
    tracing::info!(name = options.name, concurrency = options.concurrency, sources = sources.names().len(), "started");
    let shutdown = Shutdown::default();
    let worker = start(&config, &store, sources, options, shutdown.clone()).await?;
    let heeding = tokio::spawn(heed_signals(shutdown.clone()).map_err(Error::io("cannot listen for signals"))?);
    let counts = worker.counts();
    let ended = worker.run().await;
    heeding.abort();
    let counts = *counts.borrow();
    tracing::info!(?counts, "stopped");
    let shown = if args.drain { output::ignore_broken_pipe(show(&counts, context)) } else { Ok(()) };
    // What became of the work matters more than whether it could be shown.
    ended?;
    shown?;
    // A drain that was stopped has not done what it was asked for.
    Ok(if args.drain && shutdown.is_requested() { Exit::Interrupted } else { Exit::Done })
}

/// A worker that extracts these sources, over the configured store and sink.
pub async fn start(
    config: &Config,
    store: &Store,
    sources: Sources,
    options: WorkerOptions,
    shutdown: Shutdown,
) -> Result<Worker> {
    let sink = RawSink::open(&config.raw, &config.raw_options).await?;
    let keeper = LeaseKeeper::start(&config.store, config.settings.store.options(), options.terms).await?;
    let extraction: Arc<dyn Workload> = Arc::new(extract::Workload::new(store.data(), sink, sources));
    Ok(Worker::new(store.data(), keeper, vec![extraction], options, shutdown))
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
pub fn heed_signals(shutdown: Shutdown) -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("asked to stop");
            shutdown.request();
        }
    })
}

/// What JSON calls the counts.
const COUNTS: [&str; 10] = [
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

fn show(counts: &WorkerCounts, context: &Context) -> Result<()> {
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(counts),
        Format::Csv => output::record(&COUNTS, counts),
        Format::Table => {
            let WorkerCounts { claimed, accepted, rejected, released, lost, records, .. } = counts;
            output::line(&format!(
                "{claimed} attempts: {accepted} accepted with {records} records, {rejected} rejected, \
                 {released} given back, {lost} lost{}",
                others(counts)
            ))
        }
    }
}
