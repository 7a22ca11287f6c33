//! `redrive worker`: extracts what is wanted until it is told to stop, or with `--drain` until nothing is due.

use redrive_data::worker::{Keeper, Plan, Stop, Tally, Terms, Worker, WorkerOptions};
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
    let plan = config.plan(&context.environment)?;
    if plan.is_empty() {
        let todo = "add a [sources.<name>.extract] section to redrive.toml";
        return Err(Error::Usage(format!("there is no source that a worker could extract; {todo}")));
    }
    let store = open(&config, context).await?;
    let mut options = options(&config, args.drain);
    options.concurrency = args.concurrency.unwrap_or(options.concurrency);
    let sources = plan.sources().len();
    tracing::info!(name = options.name, concurrency = options.concurrency, sources, "started");
    let stop = Stop::default();
    let worker = start(&config, &store, plan, options, stop.clone()).await?;
    let heeding = tokio::spawn(heed_signals(stop.clone()).map_err(Error::io("cannot listen for signals"))?);
    let told = worker.tally();
    let ended = worker.run().await;
    heeding.abort();
    let tally = *told.borrow();
    tracing::info!(?tally, "stopped");
    let told = if args.drain { output::ignore_broken_pipe(show(&tally, context)) } else { Ok(()) };
    // What became of the work matters more than whether it could be told.
    ended?;
    told?;
    // A drain that was stopped has not done what it was asked for.
    Ok(if args.drain && stop.is_asked() { Exit::Interrupted } else { Exit::Done })
}

/// A worker over the configured store and sink.
pub async fn start(config: &Config, store: &Store, plan: Plan, options: WorkerOptions, stop: Stop) -> Result<Worker> {
    let sink = RawSink::open(&config.raw, &config.raw_options).await?;
    let keeper = Keeper::start(&config.store, config.settings.store.options(), options.terms).await?;
    Ok(Worker::new(store.data(), sink, keeper, plan, options, stop))
}

pub fn options(config: &Config, drain: bool) -> WorkerOptions {
    let settings = &config.settings.worker;
    WorkerOptions {
        name: format!("{} pid {}", person(), std::process::id()),
        concurrency: settings.concurrency,
        terms: Terms { lease: settings.lease, heartbeat: settings.heartbeat },
        poll: settings.poll,
        grace: settings.grace,
        drain,
    }
}

/// The first signal asks for an orderly end, the next one for an end at once.
pub fn heed_signals(stop: Stop) -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("asked to stop");
            stop.stop();
        }
    })
}

/// What JSON calls the counts.
const TALLY: [&str; 9] =
    ["claimed", "accepted", "rejected", "rate_limited", "released", "lost", "records", "abandoned", "elsewhere"];

/// What there is to say of other workers' attempts: often nothing.
fn others(tally: &Tally) -> String {
    let ended = match tally.abandoned {
        0 => String::new(),
        count => format!("; {count} of workers that fell silent ended as `lease expired`"),
    };
    match tally.elsewhere {
        None | Some(0) => ended,
        Some(count) => format!("{ended}; {count} still in flight elsewhere"),
    }
}

fn show(tally: &Tally, context: &Context) -> Result<()> {
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(tally),
        Format::Csv => output::record(&TALLY, tally),
        Format::Table => {
            let Tally { claimed, accepted, rejected, released, lost, records, .. } = tally;
            output::line(&format!(
                "{claimed} attempts: {accepted} accepted with {records} records, {rejected} rejected, \
                 {released} given back, {lost} lost{}",
                others(tally)
            ))
        }
    }
}
