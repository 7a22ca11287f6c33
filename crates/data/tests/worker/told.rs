//! A handler that does as it is told, and jobs for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::id::RunId;
use redrive_core::retry::{Backoff, RetryPolicy};
use redrive_core::run::Verdict;
use redrive_data::process::{Answer, Context, Error, Failure, Handler, Job, Section, Sections};
use redrive_data::worker::{Shutdown, Workload};
use redrive_data::worker::{Worker, WorkerCounts};
use redrive_store::NewRun;
use tokio::sync::Semaphore;

use crate::house::{TestDataPlane, Work};
use crate::source::{self, Source};

#[derive(Debug, Clone)]
pub enum Act {
    Pass,
    Answer(Answer),
    Fail(Failure),
    /// Says something and fails.
    Say(Vec<u8>, Failure),
    Unusable,
    /// Waits for a permit, and then passes.
    Wait(Arc<Semaphore>),
    Panic,
}

type Script = dyn Fn(&Job) -> Act + Send + Sync;

pub struct Told {
    script: Box<Script>,
    asked: AtomicU32,
    pub running: AtomicU32,
    pub secrets: Vec<String>,
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

/// Counts a handler's future until it has ended or was dropped.
struct Running<'a>(&'a AtomicU32);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Told {
    pub fn to(script: impl Fn(&Job) -> Act + Send + Sync + 'static) -> Arc<Self> {
        let (asked, running) = Default::default();
        Arc::new(Self { script: Box::new(script), asked, running, secrets: Vec::new() })
    }

    pub fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    pub fn running(&self) -> u32 {
        self.running.load(Ordering::SeqCst)
    }
}

impl Handler for Told {
    fn handle<'a>(&'a self, job: &'a Job, context: &'a Context) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.running.fetch_add(1, Ordering::SeqCst);
            let _running = Running(&self.running);
            match (self.script)(job) {
                Act::Pass => {}
                Act::Answer(answer) => return Ok(answer),
                Act::Fail(failure) => return Err(failure.into()),
                Act::Say(said, failure) => {
                    context.keep_output(&said);
                    return Err(failure.into());
                }
                Act::Unusable => return Err(Error::Unusable("out of paper".to_owned())),
                Act::Wait(gate) => gate.acquire().await.unwrap().forget(),
                Act::Panic => panic!("the handler is not well"),
            }
            Ok(Verdict::Passed.into())
        })
    }

    fn secrets(&self, _: &Job) -> Vec<String> {
        self.secrets.clone()
    }
}

/// A section with this handler, whose categories have its name.
pub fn section(name: &str, handler: Arc<dyn Handler>) -> Section {
    Section {
        name: name.to_owned(),
        categories: vec![name.to_owned()],
        handler: Some(handler),
        timeout: Duration::from_secs(60),
        max_in_flight: None,
        policy: RetryPolicy::process(),
        discover: None,
    }
}

pub fn base(seconds: u64) -> RetryPolicy {
    let (base, cap) = (Duration::from_secs(seconds), Duration::from_secs(3600));
    RetryPolicy { backoff: Backoff::Exponential { base, multiplier: 2.0, cap }, ..RetryPolicy::process() }
}

/// What a worker is like that ends when nothing is due.
pub fn work() -> Work {
    Work::with(Source::new(|_| source::Act::Bring(1)))
}

impl TestDataPlane {
    pub fn workloads(&self, sections: Vec<Section>) -> Vec<Arc<dyn Workload>> {
        Sections::new(sections).unwrap().workloads(&self.store.data(), None)
    }

    pub async fn serve(&self, sections: Vec<Section>, work: Work) -> (Worker, Shutdown) {
        self.worker_for(self.workloads(sections), work).await
    }

    pub async fn drain_jobs(&self, sections: Vec<Section>) -> WorkerCounts {
        self.serve(sections, work()).await.0.run().await.unwrap()
    }

    pub async fn submit_jobs(&self, category: &str, count: usize) -> Vec<RunId> {
        let now = self.store.now();
        let jobs = (0..count).map(|nth| NewRun::job(category, Some(nth.to_string()), now)).collect();
        self.store.control().submit(jobs).await.unwrap().into_iter().map(|job| job.run_id).collect()
    }
}
