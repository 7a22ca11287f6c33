//! Attempts whose worker fell silent: rejected as retryable, with a manifest that says so.

use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Fault, Run, Workload};
use redrive_store::DataStore;
use redrive_store::raw::{Error, RawSink, RunHeader, RunOutcome};

use crate::error::Result;

/// How many are ended at once.
const SOME: u32 = 100;

/// Ends what has outlived its lease; gives how many. The manifest goes first: whatever state says failed has left
/// something in the sink. Where the sink does not take it the attempt is ended all the same, or its partition would stay
/// in flight for ever.
pub async fn end_abandoned(data: &DataStore, sink: &RawSink) -> Result<usize> {
    let mut count = 0;
    loop {
        let overdue = data.view().overdue(SOME).await?;
        for run in &overdue {
            leave_word(data, sink, run).await;
        }
        if overdue.is_empty() {
            return Ok(count);
        }
        let ended = data.expire(SOME, policy).await?;
        for run in &ended {
            if !overdue.iter().any(|seen| seen.run_id == run.run_id) {
                leave_word(data, sink, run).await;
            }
            let (key, run_id, worker) = (name(run), run.run_id, run.worker.as_deref());
            tracing::warn!(key, %run_id, worker, "lease expired; the attempt is ended");
        }
        count += ended.len();
        if ended.is_empty() {
            // Somebody else is ending them.
            return Ok(count);
        }
    }
}

fn policy(run: &Run) -> RetryPolicy {
    match run.workload() {
        Workload::Extract => RetryPolicy::partitions(),
        Workload::Ingest => RetryPolicy::ingest(),
        Workload::Process => RetryPolicy::process(),
    }
}

/// What the run is about, for the log; only extractions have a key.
fn name(run: &Run) -> Option<String> {
    run.key().map(ToString::to_string)
}

async fn leave_word(data: &DataStore, sink: &RawSink, run: &Run) {
    if let Err(error) = commit_as_failed(data, sink, run).await {
        let (key, run_id) = (name(run), run.run_id);
        tracing::warn!(key, %run_id, %error, "no word could be left of an abandoned attempt");
    }
}

/// Leaves a manifest where the attempt has left none. A worker that comes back to life finds it there and can commit
/// nothing.
async fn commit_as_failed(data: &DataStore, sink: &RawSink, run: &Run) -> Result<()> {
    let (Some(key), Some(fence)) = (run.key().cloned(), run.task_id) else { return Ok(()) };
    match sink.view().manifest(&key, run.run_id).await {
        Ok(None) => {}
        // One that cannot be understood is there all the same.
        Ok(Some(_)) | Err(Error::Manifest { .. } | Error::Format { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let started_at = run.started_at.unwrap_or(data.now());
    let attempt = RunHeader { key, run_id: run.run_id, fence, extractor: "none".to_owned(), started_at };
    let Fault { class, message, .. } = Fault::lease_expired();
    let outcome = RunOutcome::Failed { error_class: class.to_string(), message };
    match sink.begin(attempt).finish(outcome, data.now()).await {
        // Somebody else has left word at the same moment.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
