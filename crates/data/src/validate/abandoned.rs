//! Attempts whose worker fell silent leave a manifest that says so before they are rejected.

use redrive_core::run::{Fault, Run};
use redrive_store::DataStore;
use redrive_store::raw::{Error, RawSink, RunHeader, RunOutcome};

use crate::error::Result;

/// Leaves a failed manifest for each abandoned attempt that has none: a partition whose state says failed has left
/// something in the sink. Where the sink does not take it the attempt is ended all the same, or its partition would stay
/// in flight forever.
pub async fn leave_word(data: &DataStore, sink: &RawSink, abandoned: &[Run]) {
    for run in abandoned {
        if let Err(error) = commit_as_failed(data, sink, run).await {
            let (run_id, key) = (run.run_id, run.key().map(tracing::field::display));
            tracing::warn!(%run_id, key, %error, "the manifest of an abandoned attempt could not be written");
        }
        clear_staged(sink, run).await;
    }
}

/// Removes the files that the dead writer had not finished.
async fn clear_staged(sink: &RawSink, run: &Run) {
    let Some(key) = run.key() else { return };
    let run_id = run.run_id;
    match sink.clear_staged(key, run_id).await {
        Ok(0) => {}
        Ok(files) => tracing::info!(%run_id, %key, files, "removed what an abandoned attempt had not finished"),
        Err(error) => tracing::warn!(%run_id, %key, %error, "what an abandoned attempt left was not removed"),
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
        // Another worker has left word at the same moment.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
