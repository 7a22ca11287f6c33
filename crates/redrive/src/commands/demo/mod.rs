//! `redrive demo`: the main job in one command. A folder with a made-up source, a worker and the retry daemon in this
//! process, and what came of it.

mod census;
mod folder;
mod show;

use std::time::Duration;

use redrive_control::{ControlPlane, Sink};
use redrive_core::key::LogicalDate;
use redrive_core::time::Timestamp;
use redrive_data::worker::{Shutdown, WorkerCounts};
use redrive_store::{Open, Options, Store};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::census::Census;
use super::{Context, doctor, person, worker};
use crate::cli::Demo;
use crate::config::{Config, FILE};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

const DAYS: i64 = 60;

/// How often to look how far it is.
const LOOK: Duration = Duration::from_millis(100);

pub async fn run(args: &Demo, context: &Context) -> Result<Exit> {
    let now = redrive_store::clock::Clock::now(&redrive_store::clock::SystemClock);
    let directory = folder::prepare(args.directory.as_deref(), start_date(now))?;
    // Everything in the file is relative to its own folder, as it will be for who looks around there afterwards.
    std::env::set_current_dir(&directory).map_err(Error::io(format!("cannot enter {}", directory.display())))?;
    // Nor does the environment reach in: it may name a store in earnest.
    let context = context.with_config_alone(FILE);
    let config = context.config()?;
    let store = Store::open(&config.store, Open::Migrate, Options::default()).await?;
    let begun = Instant::now();
    let stage = Stage::set(&config, &store, &context).await?;
    let (census, counts) = stage.play(&context).await?;
    let findings = doctor::examine(&config, false, &context).await;
    output::ignore_broken_pipe(show::summary(
        &census,
        &counts,
        begun.elapsed(),
        findings.checks(),
        &directory,
        &context,
    ))?;
    Ok(findings.exit())
}

/// The first of the days that end with yesterday.
fn start_date(now: Timestamp) -> LogicalDate {
    let today = jiff::Timestamp::from_microsecond(now.micros()).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    let start = today.date().saturating_sub(jiff::Span::new().days(DAYS));
    LogicalDate::new(start).unwrap_or_else(|_| unreachable!("today is after the year 1"))
}

/// A worker and a daemon at work in this process.
struct Stage {
    plane: ControlPlane,
    actor: String,
    shutdown: Shutdown,
    worker: JoinHandle<redrive_data::Result<WorkerCounts>>,
    counts: tokio::sync::watch::Receiver<WorkerCounts>,
    interval: Duration,
}

impl Stage {
    async fn set(config: &Config, store: &Store, context: &Context) -> Result<Self> {
        let raw = Sink::new(config.raw.clone(), config.raw_options.s3.clone());
        let earliest = config.settings.safety.earliest_date;
        let plane = ControlPlane::new(store.control(), raw, config.sources.clone(), earliest);
        let shutdown = Shutdown::default();
        let sources = config.plan(&context.environment)?;
        let worker = worker::start(config, store, sources, worker::options(config, false), shutdown.clone()).await?;
        let counts = worker.counts();
        Ok(Self {
            plane,
            actor: format!("demo {}", person()),
            shutdown,
            counts,
            worker: tokio::spawn(worker.run()),
            interval: config.settings.daemon.interval,
        })
    }

    /// Ticks until every partition is a success or will never be one.
    async fn play(mut self, context: &Context) -> Result<(Census, WorkerCounts)> {
        let progress = show::begin(context);
        let mut next_tick = Instant::now();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::io("cannot listen for signals"))?;
        let ended = loop {
            if Instant::now() >= next_tick {
                self.plane.tick(&self.actor).await?;
                next_tick = Instant::now() + self.interval;
            }
            let census = Census::take(self.plane.insight()).await?;
            show::advance(&progress, &census, &self.counts.borrow());
            if census.is_settled() {
                break Ok(census);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = interrupt.recv() => break Err(Error::Interrupted),
                ended = &mut self.worker => {
                    ended??;
                    return Err(Error::Stopped("the worker ended before its work was done".to_owned()));
                }
            }
        };
        drop(progress);
        self.shutdown.request();
        if ended.is_err() {
            self.shutdown.request();
        }
        let counts = self.worker.await??;
        Ok((ended?, counts))
    }
}
