//! Submitting jobs.

use redrive_core::run::{Job, Work};
use redrive_core::time::Timestamp;
use redrive_store::{NewRun, Submitted};

use crate::error::Result;
use crate::plane::ControlPlane;

impl ControlPlane {
    /// Submits jobs in one transaction, in their order. For a job whose external id was
    /// submitted before, the run that was made then is given.
    pub async fn submit(&self, jobs: Vec<Job>) -> Result<Vec<Submitted>> {
        let now = self.insight.now();
        Ok(self.store.submit(jobs.into_iter().map(|job| new_run(job, now)).collect()).await?)
    }
}

fn new_run(job: Job, now: Timestamp) -> NewRun {
    let work = Work::Process { category: job.category.unwrap_or_default(), external_id: job.external_id };
    let payload = job.payload.map(|payload| Box::<str>::from(payload).into_string());
    NewRun {
        not_before: job.not_before,
        max_attempts: job.max_attempts,
        ..NewRun::new(work, payload, job.submitted_at.unwrap_or(now))
    }
}
