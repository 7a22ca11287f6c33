//! One attempt at an upload, from its claim to its end: find the bytes, parse them, write the stanzas, record.
//!
//! An object that is missing or damaged is the upload's own trouble and counts. A sink that is gone as a whole is not: the upload is
//! given back untried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{End, Run, State, Verdict, Work};
use redrive_store::raw::{self, BlobFailure, BlobInfo, BlobReader};
use redrive_store::{ParsedBatch, Recorded, StanzasAdded, Upload};
use serde::Serialize;
use tokio::sync::mpsc;

use super::archive;
use super::parse::{Parse, Totals};
use super::trouble::{ErrorType, Trouble};
use super::workload::Served;
use crate::error::Result;
use crate::worker::{AttemptEnd, AttemptResult, Lease, LeaseEnd, Shutdown};

pub(super) struct Attempt {
    pub(super) served: Arc<Served>,
    pub(super) run: Run,
    pub(super) lease: Lease,
    pub(super) shutdown: Shutdown,
}

/// How far an attempt came.
enum Outcome {
    Complete(Totals),
    Failed(Trouble),
    /// The sink as a whole is gone.
    SinkDown(raw::Error),
    /// The run is this worker's no longer.
    Lost,
    /// It was complete before this attempt began.
    AlreadyComplete,
}

/// The metrics of a run that is COMPLETE.
#[derive(Serialize)]
struct Complete {
    files_parsed: u64,
    stanzas_created: u64,
    duration_seconds: f64,
    parse_errors: u64,
    retry_count: u32,
}

/// The metrics of a try that failed.
#[derive(Serialize)]
struct Failed {
    duration_seconds: f64,
    retry_count: u32,
    error_type: &'static str,
}

/// Stops the parser when the attempt is over, however it ends.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Attempt {
    pub(super) async fn run(self) -> AttemptResult {
        let outcome = tokio::select! {
            outcome = self.outcome() => outcome,
            end = self.lease.ended() => return AttemptResult::Ended(end.into()),
            () = self.shutdown.leaving() => return self.settle(End::Released { why: None }, AttemptEnd::Released).await,
        };
        let retry_count = self.run.retry_count;
        match outcome {
            Outcome::Complete(totals) => {
                let metrics = Complete {
                    files_parsed: totals.files,
                    stanzas_created: totals.stanzas,
                    duration_seconds: self.duration_seconds(),
                    parse_errors: totals.parse_errors,
                    retry_count,
                };
                let end = End::Completed { verdict: Verdict::Passed, metrics: serde_json::to_string(&metrics).ok() };
                self.settle(end, AttemptEnd::Accepted { records: totals.stanzas }).await
            }
            Outcome::Failed(trouble) => {
                let (error_type, class) = (trouble.error_type.as_str(), trouble.error_type.class());
                let metrics = Failed { duration_seconds: self.duration_seconds(), retry_count, error_type };
                let metrics = serde_json::to_string(&metrics).ok();
                let end = End::Failed { fault: trouble.fault(), metrics, policy: self.served.policy.clone() };
                self.settle(end, AttemptEnd::Rejected { class }).await
            }
            Outcome::SinkDown(error) => self.give_back(error),
            Outcome::Lost => AttemptResult::Ended(AttemptEnd::Lost),
            Outcome::AlreadyComplete => {
                AttemptResult::Ended(AttemptEnd::Refused(Refused::NoOp(Reason::AlreadyCompleted)))
            }
        }
    }

    async fn outcome(&self) -> Outcome {
        let upload = match self.find().await {
            Ok(upload) => upload,
            Err(outcome) => return outcome,
        };
        let archive = match self.open(&upload).await {
            Ok(archive) => archive,
            Err(error) => return self.sink_failed(error, "opening the stored archive").await,
        };
        let failure = archive.failure();
        let parse = Parse {
            archive,
            stored: BlobInfo { bytes: upload.stored.bytes, sha256: upload.stored.sha256 },
            upload: self.upload_name().to_owned(),
            limits: self.served.limits.clone(),
            batch_rows: self.served.batch_rows,
            large: Arc::clone(&self.served.large),
        };
        let (batches, inbox) = mpsc::channel(1);
        let cancel = CancelOnDrop::default();
        let (cancelled, runtime) = (Arc::clone(&cancel.0), tokio::runtime::Handle::current());
        let parsing = tokio::task::spawn_blocking(move || parse.run(&runtime, &cancelled, &batches));
        match self.write(&upload, inbox).await {
            Ok(()) => self.judge(&upload, parsing.await, &failure).await,
            Err(outcome) => outcome,
        }
    }

    /// Finds the bytes, unless there is nothing to do.
    async fn find(&self) -> Result<Upload, Outcome> {
        let database = |error| Outcome::Failed(Trouble::of(ErrorType::Database, &error, "looking up the upload"));
        let now = self.served.data.view().run(self.run.run_id).await.map_err(database)?;
        match now {
            Some(now) if now.state == State::Done => return Err(Outcome::AlreadyComplete),
            Some(_) => {}
            None => return Err(Outcome::Lost),
        }
        self.served.data.begin_parsing(&self.run).await.map_err(database)?.ok_or(Outcome::Lost)
    }

    /// Opens the stored archive. Where it is not there, it is looked for again once the sink is known to be well: all of the sink
    /// may have been away for a moment.
    async fn open(&self, upload: &Upload) -> Result<BlobReader, raw::Error> {
        let (blobs, object) = (&self.served.blobs, &upload.stored.object);
        if let Some(archive) = blobs.open_object(object).await? {
            return Ok(archive);
        }
        blobs.check().await?;
        blobs.open_object(object).await?.ok_or_else(|| blobs.missing(object))
    }

    /// Tells whom an error of the sink concerns: this upload, or all of them.
    async fn sink_failed(&self, error: raw::Error, doing: &str) -> Outcome {
        if self.served.blobs.is_down(&error).await {
            return Outcome::SinkDown(error);
        }
        Outcome::Failed(Trouble::of(ErrorType::Storage, &error, doing))
    }

    /// Writes batches as they come. What is dropped here makes the parser stop.
    async fn write(&self, upload: &Upload, mut inbox: mpsc::Receiver<ParsedBatch>) -> Result<(), Outcome> {
        while let Some(batch) = inbox.recv().await {
            match self.served.data.add_parsed(&self.run, upload, batch).await {
                Ok(StanzasAdded::New(_)) => {}
                Ok(StanzasAdded::Lost) => return Err(Outcome::Lost),
                Err(error) => {
                    return Err(Outcome::Failed(Trouble::of(ErrorType::Database, &error, "adding stanzas")));
                }
            }
        }
        Ok(())
    }

    /// Tells how parsing ended. Of an archive that is refused, nothing stays; what the sink gave only in part is not the
    /// archive's fault.
    async fn judge(
        &self,
        upload: &Upload,
        parsed: Result<Result<Totals, archive::Error>, tokio::task::JoinError>,
        failure: &BlobFailure,
    ) -> Outcome {
        if let Some(error) = failure.take() {
            return self.sink_failed(error, "reading the stored archive").await;
        }
        match parsed {
            Ok(Ok(totals)) => Outcome::Complete(totals),
            Ok(Err(archive::Error::Refused(refusal))) => {
                match self.served.data.forget_parsed(&self.run, upload).await {
                    Ok(true) => Outcome::Failed(Trouble::of_archive(&refusal, self.upload_name())),
                    Ok(false) => Outcome::Lost,
                    Err(error) => {
                        Outcome::Failed(Trouble::of(ErrorType::Database, &error, "taking stanzas away again"))
                    }
                }
            }
            Ok(Err(error @ archive::Error::Storage(_))) => {
                Outcome::Failed(Trouble::of(ErrorType::Storage, &error, "reading the stored archive"))
            }
            Ok(Err(archive::Error::Cancelled | archive::Error::Stopped)) => Outcome::Lost,
            Err(panicked) => Outcome::Failed(Trouble::of(ErrorType::Internal, &panicked, "parsing the archive")),
        }
    }

    fn upload_name(&self) -> &str {
        match &self.run.work {
            Work::Ingest { upload } => upload,
            Work::Extract(_) | Work::Process { .. } => "",
        }
    }

    fn duration_seconds(&self) -> f64 {
        let now = self.served.data.now();
        self.run.started_at.map_or(0.0, |started| now.since(started).as_secs_f64())
    }

    /// Gives the upload back untried, once the workload is at rest.
    fn give_back(self, error: raw::Error) -> AttemptResult {
        let released = End::Released { why: Some(error.to_string()) };
        let give_back = async move { self.record(released, AttemptEnd::Released).await.unwrap_or(AttemptEnd::Lost) };
        AttemptResult::InfraFailed { error: error.into(), give_back: Box::pin(give_back) }
    }

    async fn settle(self, end: End, ended: AttemptEnd) -> AttemptResult {
        match self.record(end, ended).await {
            Ok(end) => AttemptResult::Ended(end),
            // Nothing could be recorded: the lease runs out, and the run is tried again by its policy.
            Err(error) => AttemptResult::InfraFailed { error, give_back: Box::pin(async { AttemptEnd::Lost }) },
        }
    }

    /// Records an end, and says what the store made of it.
    async fn record(mut self, end: End, ended: AttemptEnd) -> Result<AttemptEnd> {
        self.lease.refresh(&mut self.run);
        let recorded = match self.lease.answered(self.served.recorder.complete((self.run.clone(), end))).await {
            Ok(recorded) => recorded?,
            Err(end) => return Ok(end.into()),
        };
        Ok(match recorded {
            Recorded::As(_) => ended,
            Recorded::Refused(_) | Recorded::Lost if self.lease.end() == Some(LeaseEnd::Cancelled) => {
                AttemptEnd::Cancelled
            }
            Recorded::Refused(refused) => AttemptEnd::Refused(refused),
            Recorded::Lost => AttemptEnd::Lost,
        })
    }
}
