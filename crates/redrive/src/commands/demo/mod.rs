//! `redrive demo`: the main job in one command. A folder with a made-up source, a worker and the retry daemon in this
//! process, and what came of it.

mod census;
mod show;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use redrive_control::ControlPlane;
use redrive_core::key::LogicalDate;
use redrive_core::time::Timestamp;
use redrive_data::worker::{Stop, Tally};
use redrive_store::Store;
use redrive_store::raw::RawView;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::census::Census;
use super::{Context, doctor, open, person, worker};
use crate::cli::Demo;
use crate::config::{Config, FILE};
use crate::exit::{Exit, Interrupted, Refusal};

const TEMPLATE: &str = include_str!("demo.toml");
/// Stands for the first day in the template.
const START: &str = "START";
const DAYS: i64 = 60;

/// How often to look how far it is.
const LOOK: Duration = Duration::from_millis(100);

pub async fn run(args: &Demo, context: &Context) -> anyhow::Result<Exit> {
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from("redrive-demo"));
    prepare(&directory)?;
    // Everything in the file is relative to its own folder, as it will be for who looks around there afterwards.
    std::env::set_current_dir(&directory).with_context(|| format!("cannot enter {}", directory.display()))?;
    // Nor does the environment reach in: it may name a store in earnest.
    let context = context.with_config_alone(FILE);
    let config = context.config()?;
    let store = open(&config).await?;
    let begun = Instant::now();
    let stage = Stage::set(&config, &store, &context).await?;
    let (census, tally) = stage.play(&context).await?;
    let findings = doctor::examine(&config, false, &context).await;
    show::summary(&census, &tally, begun.elapsed(), findings.checks(), &directory, &context)?;
    Ok(findings.exit())
}

/// An empty folder with the configuration. One that an earlier demo left is cleared; any other is left alone.
fn prepare(directory: &Path) -> anyhow::Result<()> {
    let file = directory.join(FILE);
    if directory.exists() {
        if !is_untouched(directory).with_context(|| format!("cannot read {}", directory.display()))? {
            let todo = "move it away, or name another folder: redrive demo FOLDER";
            return Err(Refusal(format!("{} holds something else; {todo}", directory.display())).into());
        }
        clear(directory).with_context(|| format!("cannot clear {}", directory.display()))?;
    }
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let start = start_date(redrive_store::clock::Clock::now(&redrive_store::clock::SystemClock));
    std::fs::write(&file, TEMPLATE.replace(START, &start.to_string()))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// What a demo makes besides its configuration.
const DATABASE: [&str; 3] = ["redrive.db", "redrive.db-wal", "redrive.db-shm"];
const RAW: &str = "raw";

/// Whether the folder holds what a demo made and nothing else.
fn is_untouched(directory: &Path) -> std::io::Result<bool> {
    let (before, after) = TEMPLATE.split_once(START).unwrap_or((TEMPLATE, ""));
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let ours = match name.to_str() {
            Some(FILE) => {
                let text = std::fs::read_to_string(directory.join(FILE))?;
                text.starts_with(before) && text.ends_with(after)
            }
            Some(name) => name == RAW || DATABASE.contains(&name),
            None => false,
        };
        if !ours {
            return Ok(false);
        }
    }
    Ok(true)
}

fn clear(directory: &Path) -> std::io::Result<()> {
    let gone = |removed: std::io::Result<()>| match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    for file in [FILE].iter().chain(&DATABASE) {
        gone(std::fs::remove_file(directory.join(file)))?;
    }
    gone(std::fs::remove_dir_all(directory.join(RAW)))
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
    stop: Stop,
    worker: JoinHandle<redrive_data::Result<Tally>>,
    tally: tokio::sync::watch::Receiver<Tally>,
    interval: Duration,
}

impl Stage {
    async fn set(config: &Config, store: &Store, context: &Context) -> anyhow::Result<Self> {
        let raw = RawView::open(&config.raw, &config.raw_options.s3).await?;
        let actor = format!("demo {}", person());
        let earliest = config.settings.safety.earliest_date;
        let plane = ControlPlane::new(store.control(), raw, config.sources.clone(), actor, earliest);
        let stop = Stop::default();
        let plan = config.plan(&context.environment)?;
        let worker = worker::start(config, store, plan, worker::options(config, false), stop.clone()).await?;
        let tally = worker.tally();
        Ok(Self { plane, stop, tally, worker: tokio::spawn(worker.run()), interval: config.settings.daemon.interval })
    }

    /// Ticks until every partition is a success or will never be one.
    async fn play(mut self, context: &Context) -> anyhow::Result<(Census, Tally)> {
        let progress = show::Progress::new(context);
        let mut next_tick = Instant::now();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let ended = loop {
            if Instant::now() >= next_tick {
                self.plane.tick(false).await?;
                next_tick = Instant::now() + self.interval;
            }
            let census = Census::take(&self.plane).await?;
            progress.show(&census, &self.tally.borrow());
            if census.is_settled() {
                break Ok(census);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = interrupt.recv() => break Err(Interrupted),
                ended = &mut self.worker => {
                    ended??;
                    anyhow::bail!("the worker ended before its work was done");
                }
            }
        };
        progress.done();
        self.stop.stop();
        if ended.is_err() {
            self.stop.stop();
        }
        let tally = self.worker.await??;
        Ok((ended?, tally))
    }
}
