//! `bench queue`: no-op runs through the store, as its workers would do them.

use std::time::{Duration, Instant};

use redrive_core::run::{End, Verdict, Workload};
use redrive_store::{NewRun, Recorded, RunClaim, Store, StoreUrl};
use serde::Serialize;

use crate::figures::{Summary, alone, compared};
use crate::flags::BenchQueue;
use crate::measure::{OnPhase, millis, percentiles, phase, rate, ratio};
use crate::scratch::Scratch;
use crate::{Error, Result, plain, queue_commands, queue_limit, queue_loop, queue_worker};

pub const CATEGORY: &str = "bench";
pub const PAYLOAD: &str = "{}";
/// The category of runs that are submitted one by one.
const SINGLES: &str = "single";
pub const LEASE: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize)]
pub struct QueueFigures {
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
    /// A minimal queue in the same database.
    limit_drain_per_s: Option<f64>,
    limit_ratio: Option<f64>,
    pickup_p50_ms: f64,
    pickup_p99_ms: f64,
    worker_drain_per_s: Option<f64>,
    worker_pickup_p50_ms: Option<f64>,
    worker_pickup_p99_ms: Option<f64>,
    /// The whole worker's drain as a part of the minimal queue's.
    worker_limit_ratio: Option<f64>,
    /// Short commands through a whole worker, and through `xargs -P`.
    commands_per_s: Option<f64>,
    xargs_commands_per_s: Option<f64>,
    command_overhead_ms: Option<f64>,
    single_submit_per_s: Option<f64>,
    limit_single_submit_per_s: Option<f64>,
    single_submit_ratio: Option<f64>,
    /// What a claim takes for each run, in microseconds: in a database with nothing else, and beside history.
    claim_us: Option<f64>,
    claim_us_beside_history: Option<f64>,
}

/// How many callers submit single runs.
const CALLERS: u32 = 64;
/// How many runs are claimed to see what a claim costs.
const CLAIMED: u32 = 20_000;

pub async fn run(args: &BenchQueue, url: &StoreUrl, on_phase: OnPhase<'_>) -> Result<QueueFigures> {
    let baseline = match args.common.baseline {
        true => {
            let scratch = Scratch::make(url, args.common.force).await?;
            Some(scratch.during(async |scratch| queue_loop::run(&scratch.url, args, on_phase).await).await?)
        }
        false => None,
    };
    let limit = match args.common.baseline {
        true => {
            let scratch = Scratch::make(url, args.common.force).await?;
            Some(scratch.during(async |scratch| limits(&scratch.url, args, on_phase).await).await?)
        }
        false => None,
    };
    let scratch = Scratch::make(url, args.common.force).await?;
    let measure = async |scratch: &Scratch| {
        let callers = args.singles.map_or(0, |_| CALLERS);
        let store = scratch.open(callers.max(args.workers + 2)).await?;
        let kind = store.kind();
        ours(store, &scratch.url, args, on_phase).await.map(|figures| (kind, figures))
    };
    let (kind, Ours { enqueue, drain, pickups, singles, claim, beside_history }) = scratch.during(measure).await?;
    let worker = match args.worker {
        true => {
            let scratch = Scratch::make(url, args.common.force).await?;
            let measure = async |scratch: &Scratch| {
                let store = scratch.open(args.workers + 2).await?;
                queue_worker::run(&store, &scratch.url, args, on_phase).await
            };
            Some(scratch.during(measure).await?)
        }
        false => None,
    };
    let commands = match args.commands {
        Some(count) => {
            let scratch = Scratch::make(url, args.common.force).await?;
            let measure = async |scratch: &Scratch| {
                let store = scratch.open(args.workers + 2).await?;
                queue_commands::run(&store, &scratch.url, args, count, on_phase).await
            };
            Some(scratch.during(measure).await?)
        }
        None => None,
    };
    let jobs = u64::from(args.jobs);
    let (p50, p99) = percentiles(pickups);
    let worker = worker.map(|worker| (rate(jobs, worker.drain), percentiles(worker.pickups)));
    let (enqueue_per_s, drain_per_s) = (rate(jobs, enqueue), rate(jobs, drain));
    Ok(QueueFigures {
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
        limit_drain_per_s: limit.as_ref().map(|limit| rate(jobs, limit.drain)),
        limit_ratio: limit.as_ref().map(|limit| ratio(drain_per_s, rate(jobs, limit.drain))),
        pickup_p50_ms: millis(p50),
        pickup_p99_ms: millis(p99),
        worker_drain_per_s: worker.map(|(drain, _)| drain),
        worker_pickup_p50_ms: worker.map(|(_, (p50, _))| millis(p50)),
        worker_pickup_p99_ms: worker.map(|(_, (_, p99))| millis(p99)),
        worker_limit_ratio: worker.zip(limit.as_ref()).map(|((drain, _), limit)| ratio(drain, rate(jobs, limit.drain))),
        commands_per_s: commands.map(|commands| rate(commands.count.into(), commands.worker)),
        xargs_commands_per_s: commands.map(|commands| rate(commands.count.into(), commands.xargs)),
        command_overhead_ms: commands.map(|commands| commands.overhead()),
        single_submit_per_s: singles,
        limit_single_submit_per_s: limit.as_ref().and_then(|limit| limit.singles),
        single_submit_ratio: limit.and_then(|limit| Some(ratio(singles?, limit.singles?))),
        claim_us: claim.map(|took| millis(took / CLAIMED * 1000)),
        claim_us_beside_history: beside_history.map(|took| millis(took / CLAIMED * 1000)),
    })
}

/// What the database can do without the store.
struct Limits {
    drain: Duration,
    singles: Option<f64>,
}

async fn limits(url: &StoreUrl, args: &BenchQueue, on_phase: OnPhase<'_>) -> Result<Limits> {
    let drain = queue_limit::drain(url, args, on_phase).await?;
    let singles = match args.singles {
        Some(each) => {
            on_phase("limit of single submits");
            let took = queue_limit::single_inserts(url, CALLERS, each).await?;
            Some(rate(u64::from(CALLERS) * u64::from(each), took))
        }
        None => None,
    };
    Ok(Limits { drain, singles })
}

impl QueueFigures {
    pub(crate) fn summary(&self) -> Summary {
        let Self { store, jobs, batch, workers, .. } = self;
        let singles = self.single_submit_per_s.map(|ours| {
            let (limit, ratio) = (self.limit_single_submit_per_s, self.single_submit_ratio);
            compared("single submits of 64 callers", "/s", ours, limit, ratio)
        });
        let worker_drain = self.worker_drain_per_s.map(|ours| {
            compared("worker drain beside a minimal queue", "/s", ours, self.limit_drain_per_s, self.worker_limit_ratio)
        });
        let commands = self.commands_per_s.map(|ours| {
            let xargs = self.xargs_commands_per_s;
            compared("short commands beside xargs -P", "/s", ours, xargs, xargs.map(|xargs| ratio(ours, xargs)))
        });
        let measured = |name, value: Option<f64>, unit| value.map(|value| alone(name, format!("{value} {unit}")));
        let (limit, limit_ratio) = (self.limit_drain_per_s, self.limit_ratio);
        let rows = [
            Some(compared("enqueue", "/s", self.enqueue_per_s, self.baseline_enqueue_per_s, self.enqueue_ratio)),
            Some(compared("drain", "/s", self.drain_per_s, self.baseline_drain_per_s, self.drain_ratio)),
            limit.map(|_| compared("drain beside a minimal queue", "/s", self.drain_per_s, limit, limit_ratio)),
            measured("pickup p50", Some(self.pickup_p50_ms), "ms"),
            measured("pickup p99", Some(self.pickup_p99_ms), "ms"),
            singles,
            measured("claim, each run", self.claim_us, "us"),
            measured("the same beside history", self.claim_us_beside_history, "us"),
            worker_drain,
            measured("worker pickup p50", self.worker_pickup_p50_ms, "ms"),
            measured("worker pickup p99", self.worker_pickup_p99_ms, "ms"),
            commands,
            measured("overhead of a command", self.command_overhead_ms, "ms"),
        ];
        Summary {
            heading: format!("{jobs} no-op runs on {store}, {workers} workers, batches of {batch}"),
            columns: ["", "redrive", "bare loop", "of it"],
            rows: rows.into_iter().flatten().collect(),
            notes: Vec::new(),
        }
    }
}

/// What the store took.
struct Ours {
    enqueue: Duration,
    drain: Duration,
    pickups: Vec<Duration>,
    singles: Option<f64>,
    claim: Option<Duration>,
    beside_history: Option<Duration>,
}

async fn ours(store: Store, url: &StoreUrl, args: &BenchQueue, on_phase: OnPhase<'_>) -> Result<Ours> {
    let ((), enqueue) = phase(on_phase, "enqueue", enqueue(&store, args)).await?;
    let (drained, drain) = phase(on_phase, "drain", drain(&store, args)).await?;
    if drained != args.jobs {
        return Err(Error::Failed(format!("{drained} of {} runs came out", args.jobs)));
    }
    let (pickups, _) = phase(on_phase, "pickup", pickup(&store, args.pickups)).await?;
    let singles = match args.singles {
        Some(each) => {
            let ((), took) = phase(on_phase, "single submits", submit_singly(&store, each)).await?;
            Some(rate(u64::from(CALLERS) * u64::from(each), took))
        }
        None => None,
    };
    let (claim, beside_history) = match args.history {
        Some(history) => {
            let (alone, beside) = beside(&store, url, args, history, on_phase).await?;
            (Some(alone), Some(beside))
        }
        None => (None, None),
    };
    Ok(Ours { enqueue, drain, pickups, singles, claim, beside_history })
}

/// Submits single runs from many callers, and drains them again.
async fn submit_singly(store: &Store, each: u32) -> Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let control = store.control();
        tasks.spawn(async move {
            for _ in 0..each {
                control.submit(vec![NewRun::job(SINGLES, Some(PAYLOAD.to_owned()), control.now())]).await?;
            }
            Ok::<_, Error>(())
        });
    }
    tasks.join_all().await.into_iter().collect()
}

/// What claims take before and after there is history.
async fn beside(
    store: &Store,
    url: &StoreUrl,
    args: &BenchQueue,
    history: u32,
    on_phase: OnPhase<'_>,
) -> Result<(Duration, Duration)> {
    phase(on_phase, "vacuum", vacuum(url)).await?;
    let (alone, _) = phase(on_phase, "claims", claims(store, args.batch)).await?;
    let past = BenchQueue { jobs: history, ..args.clone() };
    phase(on_phase, "history", async {
        enqueue(store, &past).await?;
        drain(store, &past).await
    })
    .await?;
    phase(on_phase, "waiting", wait(store, args)).await?;
    phase(on_phase, "vacuum", vacuum(url)).await?;
    let (beside, _) = phase(on_phase, "claims beside history", claims(store, args.batch)).await?;
    Ok((alone, beside))
}

/// Has PostgreSQL clear away what was deleted, as its own vacuum does within a minute: what is measured is a claim beside rows
/// that are there, not beside those that are gone.
async fn vacuum(url: &StoreUrl) -> Result<()> {
    match url {
        StoreUrl::Sqlite(_) => Ok(()),
        StoreUrl::Postgres(_) => plain::execute(url, "VACUUM ANALYZE").await,
    }
}

/// Submits runs whose time has not come.
async fn wait(store: &Store, args: &BenchQueue) -> Result<()> {
    let control = store.control();
    let mut left = args.waiting;
    while left > 0 {
        let (size, now) = (left.min(args.batch), control.now());
        let later = Some(now.saturating_add(Duration::from_secs(30 * 24 * 3600)));
        let run = || NewRun { not_before: later, ..NewRun::job(CATEGORY, Some(PAYLOAD.to_owned()), now) };
        control.submit((0..size).map(|_| run()).collect()).await?;
        left -= size;
    }
    Ok(())
}

/// How long claims take, without the completions between them.
async fn claims(store: &Store, batch: u32) -> Result<Duration> {
    let (control, data, mut took) = (store.control(), store.data(), Duration::ZERO);
    let mut left = CLAIMED;
    while left > 0 {
        let (size, now) = (left.min(batch), control.now());
        control.submit((0..size).map(|_| NewRun::job(CATEGORY, Some(PAYLOAD.to_owned()), now)).collect()).await?;
        let start = Instant::now();
        let claimed = data.claim_runs(claim(size, 0)).await?;
        took += start.elapsed();
        let passed = End::Completed { verdict: Verdict::Passed, metrics: None };
        data.record(claimed.into_iter().map(|claimed| (claimed.run, passed.clone())).collect::<Vec<_>>()).await?;
        left -= size;
    }
    Ok(took)
}

/// How many of `total` the `nth` of `workers` has to do.
pub fn share(total: u32, workers: u32, nth: u32) -> u32 {
    total / workers + u32::from(nth < total % workers)
}

pub async fn enqueue(store: &Store, args: &BenchQueue) -> Result<()> {
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
    let claim = RunClaim::new(Workload::Process, format!("bench-{nth}"), limit, LEASE);
    RunClaim { categories: Some(vec![CATEGORY.to_owned()]), ..claim }
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
                let reports: Vec<_> = claimed.into_iter().map(|claimed| (claimed.run, passed.clone())).collect();
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
        data.record(claimed.into_iter().map(|claimed| (claimed.run, passed.clone())).collect::<Vec<_>>()).await?;
    }
    Ok(found)
}
