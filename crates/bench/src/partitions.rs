//! `bench extract --partitions`: a worker drains many small partitions into a durable sink, beside a bare loop that makes
//! and syncs the same files.
//!
//! The worker is the program itself, started in a folder of its own, so that what is measured is what users run, and two
//! versions of the program can be compared.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use redrive_store::StoreUrl;
use serde::Serialize;
use tempfile::TempDir;
use tokio::process::Command;

use crate::figures::{Summary, compared};
use crate::flags::BenchExtract;
use crate::measure::{OnPhase, phase, rate, ratio};
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
    partitions_per_s: f64,
    baseline_partitions_per_s: Option<f64>,
    ratio: Option<f64>,
}

pub async fn run(args: &BenchExtract, count: u32, url: &StoreUrl, on_phase: OnPhase<'_>) -> Result<PartitionFigures> {
    let scratch = Scratch::make(url, args.force).await?;
    scratch.during(async |scratch| measure(args, count, &scratch.url, on_phase).await).await
}

async fn measure(args: &BenchExtract, count: u32, url: &StoreUrl, on_phase: OnPhase<'_>) -> Result<PartitionFigures> {
    let bed = TestBed::make(args, url)?;
    phase(on_phase, "wanting partitions", bed.want(count)).await?;
    let ((), worker) = phase(on_phase, "worker", bed.drain(count)).await?;
    let bare = match args.baseline {
        true => Some(phase(on_phase, "bare files", bed.make_files(count, args.concurrency)).await?.1),
        false => None,
    };
    let per_s = |took: Duration| rate(u64::from(count), took);
    Ok(PartitionFigures {
        bench: "extract_partitions",
        store: match url {
            StoreUrl::Sqlite(_) => "sqlite",
            StoreUrl::Postgres(_) => "postgres",
        },
        partitions: count,
        concurrency: args.concurrency,
        partitions_per_s: per_s(worker),
        baseline_partitions_per_s: bare.map(per_s),
        ratio: bare.map(|bare| ratio(per_s(worker), per_s(bare))),
    })
}

/// A folder with a configuration in which the program is run.
struct TestBed {
    folder: TempDir,
    program: PathBuf,
}

impl TestBed {
    /// Makes the folder here and not among temporary files, which are often kept in memory.
    fn make(args: &BenchExtract, url: &StoreUrl) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("redrive_bench_").tempdir_in(".");
        let folder = folder.map_err(Error::io("cannot make a folder for the bench here"))?;
        let program = match &args.program {
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
            "[store]\nurl = {url:?}\n\n[worker]\nconcurrency = {}\n\n[sources.bench.extract]\nkind = \"sample\"\nrecords = 10\n",
            args.concurrency
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
        let Self { store, partitions, concurrency, .. } = self;
        Summary {
            heading: format!("{partitions} partitions on {store}, {concurrency} at once"),
            columns: ["", "redrive", "bare files", "of it"],
            rows: vec![compared("partitions", "/s", self.partitions_per_s, self.baseline_partitions_per_s, self.ratio)],
            notes: Vec::new(),
        }
    }
}
