//! `bench queue`: no-op runs through the store, as its workers would do them.

use std::time::{Duration, Instant};

use redrive_core::run::{End, Verdict, Workload};
use redrive_store::{NewRun, Recorded, RunClaim, Store, StoreUrl};
use serde::Serialize;

use crate::figures::{Summary, alone, compared};
use crate::flags::BenchQueue;
use crate::measure::{OnPhase, millis, percentiles, phase, rate, ratio};
use crate::scratch::Scratch;
use crate::{Error, Result, queue_loop};

pub const CATEGORY: &str = "bench";
pub const PAYLOAD: &str = "{}";
pub const LEASE: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize)]
pub struct Figures {
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

pub async fn run(args: &BenchQueue, url: &StoreUrl, on_phase: OnPhase<'_>) -> Result<Figures> {
    let baseline = match args.common.baseline {
        true => {
            let scratch = Scratch::make(url, args.common.force).await?;
            Some(scratch.during(async |scratch| queue_loop::run(&scratch.url, args, on_phase).await).await?)
        }
        false => None,
    };
    let scratch = Scratch::make(url, args.common.force).await?;
    let measure = async |scratch: &Scratch| {
        let store = scratch.open(args.workers + 2).await?;
        let kind = store.kind();
        ours(store, args, on_phase).await.map(|figures| (kind, figures))
    };
    let (kind, (enqueue, drain, pickups)) = scratch.during(measure).await?;
    let jobs = u64::from(args.jobs);
    let (p50, p99) = percentiles(pickups);
    let (enqueue_per_s, drain_per_s) = (rate(jobs, enqueue), rate(jobs, drain));
    Ok(Figures {
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
    })
}

impl Figures {
    pub(crate) fn summary(&self) -> Summary {
        let Self { store, jobs, batch, workers, .. } = self;
        Summary {
            heading: format!("{jobs} no-op runs on {store}, {workers} workers, batches of {batch}"),
            columns: ["", "redrive", "bare loop", "of it"],
            rows: vec![
                compared("enqueue", "/s", self.enqueue_per_s, self.baseline_enqueue_per_s, self.enqueue_ratio),
                compared("drain", "/s", self.drain_per_s, self.baseline_drain_per_s, self.drain_ratio),
                alone("pickup p50", format!("{} ms", self.pickup_p50_ms)),
                alone("pickup p99", format!("{} ms", self.pickup_p99_ms)),
            ],
            notes: Vec::new(),
        }
    }
}

async fn ours(store: Store, args: &BenchQueue, on_phase: OnPhase<'_>) -> Result<(Duration, Duration, Vec<Duration>)> {
    let ((), enqueue) = phase(on_phase, "enqueue", enqueue(&store, args)).await?;
    let (drained, drain) = phase(on_phase, "drain", drain(&store, args)).await?;
    if drained != args.jobs {
        return Err(Error::Failed(format!("{drained} of {} runs came out", args.jobs)));
    }
    let (pickups, _) = phase(on_phase, "pickup", pickup(&store, args.pickups)).await?;
    Ok((enqueue, drain, pickups))
}

/// How many of `total` the `nth` of `workers` has to do.
pub fn share(total: u32, workers: u32, nth: u32) -> u32 {
    total / workers + u32::from(nth < total % workers)
}

async fn enqueue(store: &Store, args: &BenchQueue) -> Result<()> {
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
            Ok::<_, Error>(())
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

async fn drain(store: &Store, args: &BenchQueue) -> Result<u32> {
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..args.workers {
        let (data, batch) = (store.data(), args.batch);
        tasks.spawn(async move {
            let mut done = 0;
            loop {
                let claimed = data.claim_runs(claim(batch, nth)).await?;
                if claimed.is_empty() {
                    return Ok::<_, Error>(done);
                }
                let passed = End::Completed { verdict: Verdict::Passed, metrics: None };
                let reports = claimed.into_iter().map(|claimed| (claimed.run, passed.clone())).collect();
                let recorded = data.record(reports).await?;
                let as_told = recorded.iter().filter(|recorded| matches!(recorded, Recorded::As(_))).count();
                done += u32::try_from(as_told)?;
            }
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// How long a single run waits for an idle worker: from before it is submitted until its claim is durable.
async fn pickup(store: &Store, times: u32) -> Result<Vec<Duration>> {
    let (control, data) = (store.control(), store.data());
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
                    return Ok::<_, Error>((claimed, Instant::now()));
                }
            }
        };
        let start = Instant::now();
        let run = NewRun::job(CATEGORY, Some(PAYLOAD.to_owned()), control.now());
        let (submitted, picked) = tokio::join!(control.submit(vec![run]), worker);
        submitted?;
        let (claimed, at) = picked?;
        found.push(at.duration_since(start));
        let passed = End::Completed { verdict: Verdict::Passed, metrics: None };
        data.record(claimed.into_iter().map(|claimed| (claimed.run, passed.clone())).collect()).await?;
    }
    Ok(found)
}
