//! `bench queue --commands`: short commands through a whole worker, beside `xargs -P` on the same commands.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use redrive_data::process::{Command, CommandSettings};
use redrive_data::settings::Surroundings;
use redrive_data::worker::WorkerOptions;
use redrive_store::{Store, StoreUrl};

use crate::flags::BenchQueue;
use crate::measure::{OnPhase, phase};
use crate::queue::enqueue;
use crate::queue_worker::worker;
use crate::{Error, Result};

/// How many run at once, on either side.
const AT_ONCE: u32 = 16;

/// Prints a verdict. The braces are written as numbers, because a command's braces are placeholders.
const COMMAND: [&str; 3] = ["/bin/sh", "-c", r#"printf '\173"verdict":"passed"\175\n'"#];

/// How long both took.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub count: u32,
    pub worker: Duration,
    pub xargs: Duration,
}

impl Measured {
    /// What a command takes longer in a worker.
    pub fn overhead(&self) -> f64 {
        let each = |took: Duration| took.as_secs_f64() * 1000.0 / f64::from(self.count);
        ((each(self.worker) - each(self.xargs)) * 1000.0).round() / 1000.0
    }
}

pub async fn run(
    store: &Store,
    url: &StoreUrl,
    args: &BenchQueue,
    count: u32,
    on_phase: OnPhase<'_>,
) -> Result<Measured> {
    let ((), xargs) =
        phase(on_phase, "xargs", async { tokio::task::spawn_blocking(move || xargs(count)).await? }).await?;
    enqueue(store, &BenchQueue { jobs: count, ..args.clone() }).await?;
    let drain = async {
        let words = COMMAND.map(str::to_owned);
        let settings = CommandSettings { command: &words, directory: None, env: &BTreeMap::new() };
        let handler = Command::new(&settings, &Surroundings::default()).map_err(Error::failed)?;
        let options = WorkerOptions { drain: true, concurrency: AT_ONCE, ..WorkerOptions::embedded("bench") };
        let (worker, _) = worker(store, url, handler, options).await?;
        worker.run().await.map_err(Error::failed)
    };
    let (counts, worker) = phase(on_phase, "commands", drain).await?;
    if counts.accepted != u64::from(count) {
        return Err(Error::Failed(format!("{} of {count} commands passed", counts.accepted)));
    }
    Ok(Measured { count, worker, xargs })
}

fn xargs(count: u32) -> Result<()> {
    let mut command = Process::new("xargs");
    command.args(["-P", &AT_ONCE.to_string(), "-n", "1"]).args(COMMAND).stdin(Stdio::piped()).stdout(Stdio::null());
    let failed = |error| Error::io("cannot run xargs")(error);
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        let numbers: String = (0..count).map(|nth| format!("{nth}\n")).collect();
        input.write_all(numbers.as_bytes()).map_err(failed)?;
    }
    match child.wait().map_err(failed)?.success() {
        true => Ok(()),
        false => Err(Error::Failed("xargs failed".to_owned())),
    }
}
