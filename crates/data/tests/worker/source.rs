//! A source that does as it is told, and counts how often it was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use redrive_data::ScratchError;
use redrive_data::extract::{Error, Extractor, Failure, Job, Records};
use tokio::sync::Semaphore;

pub enum Act {
    Bring(u32),
    /// Brings records, and then does this.
    BringAnd(u32, Box<dyn FnOnce() + Send>),
    /// Brings this line, whatever it is.
    Say(String),
    Fail(Failure),
    NoScratch(ScratchError),
    /// Waits until it is let go, and then brings one record.
    Wait(Arc<Semaphore>),
    /// Holds on to the thread until this returns, and then brings one record.
    Block(Box<dyn FnOnce() + Send>),
    Panic,
}

type Script = dyn Fn(&Job) -> Act + Send + Sync;

pub struct Source {
    script: Box<Script>,
    asked: AtomicU32,
    busy: AtomicU32,
    /// The most that were under way at once.
    busiest: AtomicU32,
    pub secret: Option<String>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

impl Source {
    pub fn new(script: impl Fn(&Job) -> Act + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self::of(script))
    }

    pub fn of(script: impl Fn(&Job) -> Act + Send + Sync + 'static) -> Self {
        let (asked, busy, busiest) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        Self { script: Box::new(script), asked, busy, busiest, secret: None }
    }

    pub fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    pub fn busiest(&self) -> u32 {
        self.busiest.load(Ordering::SeqCst)
    }

    async fn act(&self, job: &Job, records: &mut Records) -> Result<(), Error> {
        match (self.script)(job) {
            Act::Bring(count) => {
                for id in 0..count {
                    records.record(format!(r#"{{"id":{id}}}"#).as_bytes()).await?;
                }
            }
            Act::BringAnd(count, then) => {
                for id in 0..count {
                    records.record(format!(r#"{{"id":{id}}}"#).as_bytes()).await?;
                }
                then();
            }
            Act::Say(line) => records.record(line.as_bytes()).await?,
            Act::Fail(failure) => return Err(failure.into()),
            Act::NoScratch(error) => return Err(error.into()),
            Act::Wait(gate) => {
                gate.acquire().await.unwrap().forget();
                records.record(b"{}").await?;
            }
            Act::Block(until) => {
                until();
                records.record(b"{}").await?;
            }
            Act::Panic => panic!("the source is not well"),
        }
        Ok(())
    }
}

impl Extractor for Source {
    fn name(&self) -> &'static str {
        "told"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let busy = self.busy.fetch_add(1, Ordering::SeqCst) + 1;
            self.busiest.fetch_max(busy, Ordering::SeqCst);
            let acted = self.act(job, records).await;
            self.busy.fetch_sub(1, Ordering::SeqCst);
            acted
        }
        .boxed()
    }

    fn secrets(&self, _: &Job) -> Vec<String> {
        self.secret.iter().cloned().collect()
    }
}
