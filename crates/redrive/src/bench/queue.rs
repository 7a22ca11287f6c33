//! `bench queue`: no-op runs through the store, as its workers would do them.

use std::time::{Duration, Instant};

use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Verdict, Workload};
use redrive_store::{NewRun, Recorded, Report, RunClaim, Store};
use serde::Serialize;

use super::measure::{millis, percentiles, phase, rate, ratio};
use super::queue_loop;
use super::scratch::Scratch;
use crate::cli::{BenchQueue, Format};
use crate::commands::Context;
use crate::exit::Exit;
use crate::output;

pub const CATEGORY: &str = "bench";
pub const PAYLOAD: &str = "{}";
pub const LEASE: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize)]
struct Figures {
    bench: &'static str,
    store: &'static str,
    jobs: u32,
    batch: u32,
    workers: u32,
    enqueue_per_s: f64,
    drain_per_s: f64,
    baseline_enqueue_per_s: Option<f64>,
    baseline_drain_per_s: Option<f64>,
    enqueue_ratio: Option<f64>,
    drain_ratio: Option<f64>,
    pickup_p50_ms: f64,
    pickup_p99_ms: f64,
}

pub async fn run(args: &BenchQueue, context: &Context) -> anyhow::Result<Exit> {
    let quiet = context.global.quiet;
    let baseline = match args.common.baseline {
        true => {
            let scratch = Scratch::make(&args.common, context).await?;
            Some(scratch.during(async |scratch| queue_loop::run(&scratch.url, args, quiet).await).await?)
        }
        false => None,
    };
    let scratch = Scratch::make(&args.common, context).await?;
    let measure = async |scratch: &Scratch| {
        let store = scratch.open(args.workers + 2).await?;
        let kind = store.kind();
        ours(store, args, quiet).await.map(|figures| (kind, figures))
    };
    let (kind, (enqueue, drain, pickups)) = scratch.during(measure).await?;
    let jobs = u64::from(args.jobs);
    let (p50, p99) = percentiles(pickups);
    let (enqueue_per_s, drain_per_s) = (rate(jobs, enqueue), rate(jobs, drain));
    let figures = Figures {
        bench: "queue",
        store: kind,
        jobs: args.jobs,
        batch: args.batch,
        workers: args.workers,
        enqueue_per_s,
        drain_per_s,
        baseline_enqueue_per_s: baseline.map(|(enqueue, _)| rate(jobs, enqueue)),
        baseline_drain_per_s: baseline.map(|(_, drain)| rate(jobs, drain)),
        enqueue_ratio: baseline.map(|(enqueue, _)| ratio(enqueue_per_s, rate(jobs, enqueue))),
        drain_ratio: baseline.map(|(_, drain)| ratio(drain_per_s, rate(jobs, drain))),
        pickup_p50_ms: millis(p50),
        pickup_p99_ms: millis(p99),
    };
    show(&figures, context.global.output)?;
    Ok(Exit::Done)
}

fn show(figures: &Figures, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json | Format::Jsonl => return output::json(figures),
        Format::Table | Format::Csv => {}
    }
    let per_s = |ours: f64, theirs: Option<f64>, ratio: Option<f64>| {
        let theirs = theirs.map_or_else(String::new, |theirs| format!("{theirs:.0}/s"));
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0));
        vec![format!("{ours:.0}/s"), theirs, ratio]
    };
    let row = |name: &str, values: Vec<String>| [vec![name.to_owned()], values].concat();
    let Figures { store, jobs, batch, workers, .. } = figures;
    output::line(&format!("{jobs} no-op runs on {store}, {workers} workers, batches of {batch}"))?;
    let rows = vec![
        row("enqueue", per_s(figures.enqueue_per_s, figures.baseline_enqueue_per_s, figures.enqueue_ratio)),
        row("drain", per_s(figures.drain_per_s, figures.baseline_drain_per_s, figures.drain_ratio)),
        row("pickup p50", vec![format!("{} ms", figures.pickup_p50_ms), String::new(), String::new()]),
        row("pickup p99", vec![format!("{} ms", figures.pickup_p99_ms), String::new(), String::new()]),
    ];
    output::line(&output::table(&["", "redrive", "bare loop", "of it"], rows))
}

async fn ours(store: Store, args: &BenchQueue, quiet: bool) -> anyhow::Result<(Duration, Duration, Vec<Duration>)> {
    let ((), enqueue) = phase(quiet, "enqueue", enqueue(&store, args)).await?;
    let (drained, drain) = phase(quiet, "drain", drain(&store, args)).await?;
    anyhow::ensure!(drained == args.jobs, "{drained} of {} runs came out", args.jobs);
    let (pickups, _) = phase(quiet, "pickup", pickup(&store, args.pickups)).await?;
    Ok((enqueue, drain, pickups))
}

/// How many of `total` the `nth` of `workers` has to do.
pub fn share(total: u32, workers: u32, nth: u32) -> u32 {
    total / workers + u32::from(nth < total % workers)
}

async fn enqueue(store: &Store, args: &BenchQueue) -> anyhow::Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..args.workers {
        let (control, batch) = (store.control(), args.batch);
        let mut left = share(args.jobs, args.workers, nth);
        tasks.spawn(async move {
            while left > 0 {
                let size = left.min(batch);
                let now = control.now();
                let runs = (0..size).map(|_| NewRun::job(CATEGORY, Some(PAYLOAD.to_owned()), now)).collect();
                control.submit(runs).await?;
                left -= size;
            }
            anyhow::Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect()
}

fn claim(limit: u32, nth: u32) -> RunClaim {
    RunClaim {
        workload: Workload::Process,
        categories: Some(vec![CATEGORY.to_owned()]),
        limit,
        worker: format!("bench-{nth}"),
        lease: LEASE,
    }
}

async fn drain(store: &Store, args: &BenchQueue) -> anyhow::Result<u32> {
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..args.workers {
        let (data, batch) = (store.data(), args.batch);
        tasks.spawn(async move {
            let (policy, mut done) = (RetryPolicy::process(), 0);
            loop {
                let claimed = data.claim_runs(claim(batch, nth)).await?;
                if claimed.is_empty() {
                    return anyhow::Ok(done);
                }
                let passed = Report::Completed { verdict: Verdict::Passed, metrics: None };
                let reports = claimed.into_iter().map(|claimed| (claimed.run, passed.clone())).collect();
                let recorded = data.record(reports, &policy).await?;
                let as_told = recorded.iter().filter(|recorded| matches!(recorded, Recorded::As(_))).count();
                done += u32::try_from(as_told)?;
            }
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// How long a single run waits for an idle worker: from before it is submitted until its claim is durable.
async fn pickup(store: &Store, times: u32) -> anyhow::Result<Vec<Duration>> {
    let (control, data, policy) = (store.control(), store.data(), RetryPolicy::process());
    let mut wakeups = store.wakeups();
    let mut found = Vec::new();
    for _ in 0..times {
        wakeups.mark_unchanged();
        let worker = async {
            loop {
                // The poll is the fallback that real workers have too.
                let _ = tokio::time::timeout(Duration::from_secs(1), wakeups.changed()).await;
                let claimed = data.claim_runs(claim(1, 0)).await?;
                if !claimed.is_empty() {
                    return anyhow::Ok((claimed, Instant::now()));
                }
            }
        };
        let start = Instant::now();
        let run = NewRun::job(CATEGORY, Some(PAYLOAD.to_owned()), control.now());
        let (submitted, picked) = tokio::join!(control.submit(vec![run]), worker);
        submitted?;
        let (claimed, at) = picked?;
        found.push(at.duration_since(start));
        let passed = Report::Completed { verdict: Verdict::Passed, metrics: None };
        data.record(claimed.into_iter().map(|claimed| (claimed.run, passed.clone())).collect(), &policy).await?;
    }
    Ok(found)
}
