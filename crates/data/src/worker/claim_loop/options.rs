//! How a worker works.

use std::time::Duration;

use crate::worker::lease::LeaseTerms;

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The worker's name, for the runs' rows.
    pub name: String,
    pub concurrency: u32,
    pub terms: LeaseTerms,
    /// How long to sleep when there is nothing to do and nothing is announced.
    pub poll: Duration,
    /// How long work under way may go on after a shutdown was requested.
    pub grace: Duration,
    /// End when there is nothing to do.
    pub drain: bool,
}

impl WorkerOptions {
    /// How many attempts a worker runs at once whose handlers are Rust code: a task is cheap beside a process.
    const EMBEDDED_CONCURRENCY: u32 = 2048;

    /// The options of a worker inside another program: leases of two minutes, and many attempts at once.
    pub fn embedded(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            concurrency: Self::EMBEDDED_CONCURRENCY,
            terms: LeaseTerms { lease: Duration::from_secs(120), heartbeat: Duration::from_secs(30) },
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(30),
            drain: false,
        }
    }
}
