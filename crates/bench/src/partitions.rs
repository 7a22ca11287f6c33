//! `bench extract --partitions`: a worker drains many small partitions into a durable sink, beside a bare loop that makes
//! and syncs the same files.
//!
//! The worker is the program itself, started in a folder of its own, so that what is measured is what users run, and two
//! versions of the program can be compared in turns.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use redrive_store::StoreUrl;
use serde::Serialize;
use tempfile::TempDir;
use tokio::process::Command;

use crate::figures::{Summary, compared};
use crate::flags::BenchExtract;
use crate::measure::{OnPhase, Rounds, phase, rate};
use crate::partition_files;
use crate::scratch::Scratch;
use crate::{Error, Result};

/// How many days of one customer are wanted. More would reach back before the earliest date.
const DAYS: u32 = 1000;
const FIRST_DAY: jiff::civil::Date = jiff::civil::date(2020, 1, 1);

#[derive(Debug, Serialize)]
pub struct PartitionFigures {
    bench: &'static str,
    store: &'static str,
    partitions: u32,
    concurrency: u32,
    rounds: u32,
    partitions_per_s: f64,
    baseline_partitions_per_s: Option<f64>,
    ratio: Option<f64>,
    beside_partitions_per_s: Option<f64>,
    beside_ratio: Option<f64>,
}

pub async fn run(args: &BenchExtract, count: u32, url: &StoreUrl, on_phase: OnPhase<'_>) -> Result<PartitionFigures> {
    let scratch = Scratch::make(url, args.force).await?;
    let workers_a_round = 1 + u32::from(args.beside.is_some());
    let work = async |places: &[Scratch]| measure(args, count, places, on_phase).await;
    let rates = scratch.with_more(args.rounds * workers_a_round, work).await?;
    Ok(PartitionFigures {
        bench: "extract_partitions",
        store: match url {
            StoreUrl::Sqlite(_) => "sqlite",
            StoreUrl::Postgres(_) => "postgres",
        },
        partitions: count,
        concurrency: args.concurrency,
        rounds: args.rounds,
        partitions_per_s: rates.ours.median().unwrap_or_default(),
        baseline_partitions_per_s: rates.bare.median(),
        ratio: rates.ours.median_ratio(&rates.bare),
        beside_partitions_per_s: rates.beside.median(),
        beside_ratio: rates.ours.median_ratio(&rates.beside),
    })
}

/// What each of those that take turns did a second, round by round.
#[derive(Default)]
struct Rates {
    ours: Rounds,
    beside: Rounds,
    bare: Rounds,
}

/// Has the programs and the bare loop take turns, each worker in a place of its own. What a turn leaves is kept until the last turn is
/// over: a file system may be slow for minutes after many files were removed.
async fn measure(args: &BenchExtract, count: u32, places: &[Scratch], on_phase: OnPhase<'_>) -> Result<Rates> {
    let mut places = places.iter();
    let mut worker = async |program: Option<&Path>, name: &'static str| {
        let place = places.next().ok_or_else(|| Error::Failed("there are more turns than places".to_owned()))?;
        let bed = TestBed::make(program, args.concurrency, &place.url)?;
        phase(on_phase, "wanting partitions", bed.want(count)).await?;
        let ((), took) = phase(on_phase, name, bed.drain(count)).await?;
        Ok::<_, Error>((bed, rate(u64::from(count), took)))
    };
    let mut rates = Rates::default();
    let mut kept = Vec::new();
    for _ in 0..args.rounds {
        let (bed, per_s) = worker(args.program.as_deref(), "worker").await?;
        rates.ours.add(per_s);
        if args.baseline {
            let ((), took) = phase(on_phase, "bare files", bed.make_files(count, args.concurrency)).await?;
            rates.bare.add(rate(u64::from(count), took));
        }
        kept.push(bed);
        if let Some(program) = &args.beside {
            let (bed, per_s) = worker(Some(program), "the other worker").await?;
            rates.beside.add(per_s);
            kept.push(bed);
        }
    }
    Ok(rates)
}

/// A folder with a configuration in which the program is run.
struct TestBed {
    folder: TempDir,
    program: PathBuf,
}

impl TestBed {
    /// Makes the folder here and not among temporary files, which are often kept in memory.
    fn make(program: Option<&Path>, concurrency: u32, url: &StoreUrl) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("redrive_bench_").tempdir_in(".");
        let folder = folder.map_err(Error::io("cannot make a folder for the bench here"))?;
        let program = match program {
            Some(program) => std::path::absolute(program),
            None => std::env::current_exe(),
        };
        let program = program.map_err(Error::io("cannot find the program to measure"))?;
        let url = match url {
            StoreUrl::Sqlite(file) => {
                let file = std::path::absolute(file).map_err(Error::io("cannot find the scratch database"))?;
                format!("sqlite:{}", file.display())
            }
            StoreUrl::Postgres(url) => url.clone(),
        };
        let text = format!(
            "[store]\nurl = {url:?}\n\n[worker]\nconcurrency = {concurrency}\n\n[sources.bench.extract]\nkind = \"sample\"\nrecords = 10\n",
        );
        std::fs::write(folder.path().join("redrive.toml"), text).map_err(Error::io("cannot write redrive.toml"))?;
        Ok(Self { folder, program })
    }

    async fn want(&self, count: u32) -> Result<()> {
        self.redrive(&["migrate"]).await?;
        for (customer, days) in (0..count.div_ceil(DAYS)).map(|nth| (nth, DAYS.min(count - nth * DAYS))) {
            let last = FIRST_DAY.saturating_add(jiff::Span::new().days(i64::from(days) - 1));
            let (customer, since, until) = (format!("c{customer}"), FIRST_DAY.to_string(), last.to_string());
            let which = ["--source", "bench", "--customer-id", &customer, "--query-name", "q"];
            let when = ["--since", &since, "--until", &until];
            self.redrive(&[&["state", "backfill", "enqueue", "--force"], &which[..], &when].concat()).await?;
        }
        Ok(())
    }

    async fn drain(&self, count: u32) -> Result<()> {
        let printed = self.redrive(&["worker", "--drain", "-o", "csv"]).await?;
        let mut lines = printed.lines();
        let names = lines.next().unwrap_or_default().split(',');
        let values: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let accepted = names.zip(&values).find(|(name, _)| *name == "accepted").map(|(_, value)| *value);
        match accepted == Some(count.to_string().as_str()) {
            true => Ok(()),
            false => Err(Error::Failed(format!("the worker did not accept {count} partitions: {printed}"))),
        }
    }

    async fn make_files(&self, count: u32, concurrency: u32) -> Result<()> {
        let (raw, bare) = (self.folder.path().join("raw"), self.folder.path().join("bare"));
        let made = tokio::task::spawn_blocking(move || partition_files::make(&raw, &bare, count, concurrency));
        made.await?.map_err(Error::io("cannot make the files of the bare loop"))
    }

    /// Runs the program with its own configuration and no variable over it; gives what it printed.
    async fn redrive(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REDRIVE_")) {
            command.env_remove(name);
        }
        command.args(words).arg("--quiet").current_dir(self.folder.path()).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.map_err(Error::io(shown(&self.program)))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Failed(format!("`redrive {}` failed: {why}", words.join(" "))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn shown(program: &Path) -> String {
    format!("cannot run {}", program.display())
}

impl PartitionFigures {
    pub(crate) fn summary(&self) -> Summary {
        let Self { store, partitions, concurrency, rounds, .. } = self;
        let beside =
            |per_s: f64, ratio: f64| format!("the other program: {per_s:.0}/s; this is {ratio:.2} times as fast");
        Summary {
            heading: match rounds {
                1 => format!("{partitions} partitions on {store}, {concurrency} at once"),
                _ => format!("{partitions} partitions on {store}, {concurrency} at once, medians of {rounds} rounds"),
            },
            columns: ["", "redrive", "bare files", "of it"],
            rows: vec![compared("partitions", "/s", self.partitions_per_s, self.baseline_partitions_per_s, self.ratio)],
            notes: self
                .beside_partitions_per_s
                .zip(self.beside_ratio)
                .map(|(per_s, ratio)| beside(per_s, ratio))
                .into_iter()
                .collect(),
        }
    }
}
