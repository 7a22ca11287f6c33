//! `redrive demo`: the main job in one command. A folder with a made-up source, a worker and the retry daemon in this
//! process, and what came of it.

mod bundles;
mod census;
mod folder;
mod jobs;
mod show;

use std::time::Duration;

use redrive_control::{ControlPlane, Sink};
use redrive_core::key::LogicalDate;
use redrive_core::run::{Run, Workload};
use redrive_core::time::Timestamp;
use redrive_data::worker::{Shutdown, WorkerCounts};
use redrive_store::{Open, Store};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::bundles::Bundles;
use self::census::Census;
use self::jobs::JobCensus;
use super::worker;
use super::{Context, doctor, person};
use crate::cli::Demo;
use crate::config::{Config, FILE};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::service::{Generation, Service, ServiceEnd};

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
    let store = Store::open(&config.store, Open::Migrate, context.store_options(&config)).await?;
    context.stop.with_grace(Duration::ZERO);
    let begun = Instant::now();
    let stage = Stage::set(&config, &store, &context).await?;
    let bundles = Bundles::upload(&config, &store).await?;
    let outcome = stage.play(&bundles, &context).await?;
    let findings = doctor::examine(&config, false, &context).await;
    output::ignore_broken_pipe(show::summary(&outcome, begun.elapsed(), findings.checks(), &directory, &context))?;
    Ok(findings.exit())
}

/// The first of the days that end with yesterday.
fn start_date(now: Timestamp) -> LogicalDate {
    let today = jiff::Timestamp::from_microsecond(now.micros()).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    let start = today.date().saturating_sub(jiff::Span::new().days(DAYS));
    LogicalDate::new(start).unwrap_or_else(|_| unreachable!("today is after the year 1"))
}

/// How all stood in the end.
struct Outcome {
    partitions: Census,
    jobs: JobCensus,
    uploads: Vec<Run>,
    counts: WorkerCounts,
}

/// A worker and a daemon at work in this process.
struct Stage {
    plane: ControlPlane,
    actor: String,
    shutdown: Shutdown,
    worker: JoinHandle<Result<ServiceEnd>>,
    counts: tokio::sync::watch::Receiver<WorkerCounts>,
    interval: Duration,
}

impl Stage {
    async fn set(config: &Config, store: &Store, context: &Context) -> Result<Self> {
        let raw = Sink::new(config.raw.clone(), config.raw_options.s3.clone());
        let earliest = config.settings.safety.earliest_date;
        let plane = ControlPlane::new(store.control(), raw, config.sources.clone(), earliest);
        jobs::submit(&store.control()).await?;
        let shutdown = Shutdown::default();
        let plan = config.plan(Workload::ALL, &context.environment)?;
        let options = worker::options(config, false);
        let generation = Generation::new(config, store, plan, None, options.concurrency).await?;
        let worker = Service::start(config, store, generation, options, shutdown.clone(), context).await?;
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

    /// Ticks until every partition is a success, every job has a verdict and every upload is parsed, or never will.
    async fn play(mut self, bundles: &Bundles, context: &Context) -> Result<Outcome> {
        let progress = show::begin(context);
        let mut next_tick = Instant::now();
        let ended = loop {
            if Instant::now() >= next_tick {
                self.plane.tick(&self.actor).await?;
                next_tick = Instant::now() + self.interval;
            }
            let census = Census::take(self.plane.insight()).await?;
            let jobs = JobCensus::take(self.plane.insight().view()).await?;
            show::advance(&progress, &census, &jobs, &self.counts.borrow());
            if census.is_settled() && jobs.is_settled() && bundles.is_settled(self.plane.insight().view()).await? {
                break Ok((census, jobs));
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = context.stop.requested() => break Err(Error::Interrupted),
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
        self.worker.await??;
        let counts = *self.counts.borrow();
        let (partitions, jobs) = ended?;
        let uploads = bundles.runs(self.plane.insight().view()).await?;
        Ok(Outcome { partitions, jobs, uploads, counts })
    }
}
