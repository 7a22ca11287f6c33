//! Runs whose worker fell silent: ended when their lease has passed, by the policy of their workload.

use std::sync::Arc;

use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Run, State, Work, Workload as Kind};
use redrive_store::DataStore;

use super::workload::Workload;
use crate::error::Result;
use crate::process::Sections;

/// How many runs are ended in one transaction.
const PAGE: u32 = 100;

/// Ends the runs of a workload that have outlived their lease; gives how many.
pub async fn end_expired(data: &DataStore, workload: &Arc<dyn Workload>) -> Result<usize> {
    let mut count = 0;
    loop {
        let overdue = data.view().overdue(workload.kind(), PAGE).await?;
        if overdue.is_empty() {
            return Ok(count);
        }
        workload.before_expiry(&overdue).await;
        let policies = Arc::clone(workload);
        let ended = data.expire(workload.kind(), PAGE, move |run| policies.terms(run)).await?;
        let late: Vec<_> =
            ended.iter().filter(|run| !overdue.iter().any(|seen| seen.run_id == run.run_id)).cloned().collect();
        if !late.is_empty() {
            workload.before_expiry(&late).await;
        }
        for run in &ended {
            log_end(run, &workload.policy(run));
        }
        count += ended.len();
        if ended.is_empty() {
            // Another worker is ending them.
            return Ok(count);
        }
    }
}

/// Ends jobs that have outlived their lease, where there is no workload to ask: by the policies of their sections. Gives how many.
pub async fn end_expired_jobs(data: &DataStore, sections: &Arc<Sections>) -> Result<usize> {
    let mut count = 0;
    loop {
        // A look first: nothing is written, and no lock is taken, while nothing has run out.
        if data.view().overdue(Kind::Process, 1).await?.is_empty() {
            return Ok(count);
        }
        let policies = Arc::clone(sections);
        let ended = data.expire(Kind::Process, PAGE, move |run| policies.terms(run)).await?;
        for run in &ended {
            log_end(run, &sections.policy(run));
        }
        count += ended.len();
        if ended.is_empty() {
            return Ok(count);
        }
    }
}

/// Says what became of a run whose worker fell silent: as for any other failed attempt, what comes next.
fn log_end(run: &Run, policy: &RetryPolicy) {
    let why = run.error_message.as_deref().unwrap_or("lease expired");
    let (work, run_id, worker, attempt) = (subject(&run.work), run.run_id, run.worker.as_deref(), run.attempt);
    let key = run.key().map(tracing::field::display);
    match (run.workload(), run.state) {
        (Kind::Ingest | Kind::Process, State::Waiting) => {
            let next_retry_at = run.next_retry_at.map(|at| at.to_string());
            let delay_s = run::backoff(run, policy).as_secs_f64();
            tracing::warn!(work, %run_id, worker, attempt, delay_s, next_retry_at, "{why}; retry scheduled");
        }
        (Kind::Ingest | Kind::Process, State::Dead) => {
            let retry_count = run.retry_count;
            tracing::warn!(work, %run_id, worker, attempt, retry_count, "{why}; attempts exhausted");
        }
        (Kind::Ingest | Kind::Process, State::Queued) => {
            tracing::warn!(work, %run_id, worker, "delivery lost: the worker did not speak in time; given back untried");
        }
        // Whether a partition is tried again is the control plane's to say.
        (Kind::Extract, _) | (Kind::Ingest | Kind::Process, State::Storing | State::Running | State::Done) => {
            tracing::warn!(work, key, %run_id, worker, "lease expired; the attempt is ended");
        }
    }
}

/// What a run is about, for the log.
fn subject(work: &Work) -> String {
    match work {
        Work::Extract(key) => key.to_string(),
        Work::Ingest { upload } => upload.clone(),
        Work::Process { category, external_id } => external_id.as_ref().unwrap_or(category).clone(),
    }
}
