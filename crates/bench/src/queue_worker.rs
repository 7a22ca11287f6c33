//! `bench queue --worker`: the same no-op runs through a whole worker, with a handler that answers at once.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use redrive_core::run::Verdict;
use redrive_data::process::{Answer, Context, Error as HandlerError, Handler, Job, Section, Sections};
use redrive_data::worker::{LeaseKeeper, Shutdown, Worker, WorkerCounts, WorkerOptions};
use redrive_store::{NewRun, Options, Store, StoreUrl};
use tokio::sync::mpsc;

use crate::flags::BenchQueue;
use crate::measure::{OnPhase, phase};
use crate::queue::{CATEGORY, PAYLOAD, enqueue};
use crate::{Error, Result};

/// What a whole worker did.
#[derive(Debug)]
pub struct Measured {
    pub drain: Duration,
    pub pickups: Vec<Duration>,
}

/// Passes every job, and says when.
#[derive(Debug)]
struct Passes(Option<mpsc::UnboundedSender<Instant>>);

impl Handler for Passes {
    fn handle<'a>(&'a self, _: &'a Job, _: &'a Context) -> BoxFuture<'a, Result<Answer, HandlerError>> {
        if let Some(started) = &self.0 {
            let _ = started.send(Instant::now());
        }
        Box::pin(std::future::ready(Ok(Verdict::Passed.into())))
    }
}

pub async fn run(store: &Store, url: &StoreUrl, args: &BenchQueue, on_phase: OnPhase<'_>) -> Result<Measured> {
    enqueue(store, args).await?;
    // It is measured at work, not at opening its connections.
    let options = WorkerOptions { drain: true, ..WorkerOptions::embedded("bench") };
    let (worker, _) = worker(store, url, Passes(None), options).await?;
    let drain = async { worker.run().await.map_err(Error::failed) };
    let (counts, drain) = phase(on_phase, "worker drain", drain).await?;
    if counts.accepted != u64::from(args.jobs) {
        return Err(Error::Failed(format!("the worker passed {} of {} runs", counts.accepted, args.jobs)));
    }
    let (pickups, _) = phase(on_phase, "worker pickup", pickup(store, url, args.pickups)).await?;
    Ok(Measured { drain, pickups })
}

pub(crate) async fn worker(
    store: &Store,
    url: &StoreUrl,
    handler: impl Handler + 'static,
    options: WorkerOptions,
) -> Result<(Worker, Shutdown)> {
    let sections = Sections::new([Section::new("bench", [CATEGORY], handler)]).map_err(Error::failed)?;
    let keeper = LeaseKeeper::start(url, Options::default(), options.terms).await.map_err(Error::failed)?;
    let shutdown = Shutdown::default();
    let workloads = sections.workloads(&store.data(), None);
    Ok((Worker::new(store.data(), keeper, workloads, options, shutdown.clone()), shutdown))
}

/// How long a single run waits for an idle worker: from before it is submitted until its handler is called.
async fn pickup(store: &Store, url: &StoreUrl, times: u32) -> Result<Vec<Duration>> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (worker, shutdown) = worker(store, url, Passes(Some(started)), WorkerOptions::embedded("bench")).await?;
    let mut counts = worker.counts();
    let working = tokio::spawn(worker.run());
    let mut found = Vec::new();
    for nth in 1..=u64::from(times) {
        let begun = Instant::now();
        let run = NewRun::job(CATEGORY, Some(PAYLOAD.to_owned()), store.now());
        store.control().submit(vec![run]).await?;
        let started = starts.recv().await.ok_or_else(|| Error::Failed("the worker has ended".to_owned()))?;
        found.push(started.duration_since(begun));
        // The next one meets an idle worker.
        let is_idle = |counts: &WorkerCounts| counts.accepted >= nth;
        counts.wait_for(is_idle).await.map_err(Error::failed)?;
    }
    shutdown.request();
    working.await?.map_err(Error::failed)?;
    Ok(found)
}
