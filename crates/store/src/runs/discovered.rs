//! Submitting jobs that a worker's `discover` has found.

use std::sync::Arc;

use redrive_core::run::Work;

use super::submit::{NewRun, Submitted};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, DataStore};

impl DataStore {
    /// Submits jobs that were found, in one transaction. Each has an external id, so that nothing is submitted twice, and
    /// what is there already stays as it is: a worker can add work, but neither requeue nor change any.
    pub async fn submit_discovered(&self, jobs: Vec<NewRun>) -> Result<Vec<Submitted>> {
        let is_known_again = |job: &NewRun| matches!(&job.work, Work::Process { external_id: Some(_), .. });
        if !jobs.iter().all(is_known_again) {
            return Err(Error::Input { what: "a discovered job", why: "it has no external id" });
        }
        ControlStore { inner: Arc::clone(&self.inner) }.submit(jobs).await
    }
}
