//! Submitting jobs.

use redrive_core::run::Job;
use redrive_store::{NewRun, Submitted};

use crate::error::Result;
use crate::plane::ControlPlane;

impl ControlPlane {
    /// Submits jobs in one transaction, in their order. For a job whose external id was
    /// submitted before, the run that was made then is given.
    pub async fn submit(&self, jobs: Vec<Job>) -> Result<Vec<Submitted>> {
        let now = self.insight.now();
        Ok(self.store.submit(jobs.into_iter().map(|job| NewRun::of_job(job, now)).collect()).await?)
    }
}
