//! One attempt at a partition, from its claim to its verdict.
//!
//! It ends with a verdict, given back untried, or without its lease. A failure of our own database or sink costs the
//! partition no attempt. Nothing is written after the lease is gone, and the fence in the store stands behind that.

mod bring;
mod give_back;
mod judge;

use std::sync::Arc;

use redrive_core::failure::clean_message;
use redrive_core::id::TaskId;
use redrive_core::partition::Judgement;
use redrive_core::time::Timestamp;
use redrive_store::raw::{self, RawSink};
use redrive_store::{ClaimedPartition, DataStore};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{ConfiguredSource, Failure, Job, Records, Scope};
use crate::error::{Error, Result};
use crate::program::ChildTracker;
use crate::settings::{Escape, LatestRedactor};
use crate::validate::Recorder;
use crate::worker::{AttemptResult, Lease, LeaseEnd, Shutdown};

#[derive(Debug)]
pub(super) struct Attempt {
    pub data: DataStore,
    pub sink: RawSink,
    pub recorder: Recorder,
    pub source: Arc<ConfiguredSource>,
    pub claimed: ClaimedPartition,
    pub fence: TaskId,
    pub lease: Lease,
    pub shutdown: Shutdown,
    /// The programs that are started for it.
    pub children: ChildTracker,
    pub redactor: LatestRedactor,
    /// Lets a few long attempts be judged at once.
    pub judging: Arc<Semaphore>,
}

/// What the source gave, before it is stored.
struct Extraction {
    records: Records,
    failure: Option<Failure>,
    /// What the extractor's program wrote on stderr, where it is one.
    stderr: Option<String>,
    begun: Instant,
}

/// What the validator says of what lies in the sink.
struct Judged {
    judgement: Judgement,
    metrics: Map<String, Value>,
    /// What the attempt's programs wrote on stderr.
    stderr: Option<String>,
}

/// Why an attempt has no verdict.
enum NotJudged {
    LeaseEnded(LeaseEnd),
    Stopped,
    /// Another worker ended the attempt as abandoned and left its manifest.
    Overtaken,
    SinkFailed(raw::Error),
    Failed(Error),
    /// What is configured or installed here does not let the source, or one customer of it, be asked.
    Unusable {
        scope: Scope,
        why: String,
    },
    /// The source said when to come again, and may be waited for.
    RateLimited {
        message: String,
        until: Timestamp,
    },
}

impl From<Error> for NotJudged {
    fn from(error: Error) -> Self {
        match error {
            Error::Raw(error) => Self::SinkFailed(error),
            // Only sources whose rules need it write there.
            Error::Scratch(_) | Error::Missing(_) => Self::Unusable { scope: Scope::Source, why: error.to_string() },
            Error::Store(_) | Error::Unusable { .. } | Error::Thread(_) | Error::KeeperGone | Error::CompleterGone => {
                Self::Failed(error)
            }
        }
    }
}

impl Attempt {
    /// Asks the source. An attempt that is short is stored and judged without a permit; a long one needs memory and
    /// processors for that, and keeps it.
    pub(super) async fn run(self) -> AttemptResult {
        match self.under_lease(self.extract()).await {
            Ok(extraction) if self.settles_soon(&extraction) => {
                AttemptResult::Settling { rest: Box::pin(self.settle(extraction)) }
            }
            Ok(extraction) => self.settle(extraction).await,
            Err(why) => self.end_without_verdict(why).await,
        }
    }

    /// Whether all that is left is a short text in memory, to be written and judged by ourselves.
    fn settles_soon(&self, extraction: &Extraction) -> bool {
        extraction.records.is_short() && self.source.validator.is_none()
    }

    async fn settle(self, extraction: Extraction) -> AttemptResult {
        let ended = match self.under_lease(self.store_and_judge(extraction)).await {
            Ok(judged) => self.record(judged).await,
            Err(why) => Err(why),
        };
        match ended {
            Ok(end) => AttemptResult::Ended(end),
            Err(why) => self.end_without_verdict(why).await,
        }
    }

    /// Works for as long as the lease lasts.
    async fn under_lease<T>(&self, work: impl Future<Output = Result<T, NotJudged>>) -> Result<T, NotJudged> {
        let done = tokio::select! {
            biased;
            end = self.lease.ended() => Err(NotJudged::LeaseEnded(end)),
            done = work => done,
        };
        // What was dropped on the way is still ending, and this attempt is not over before it has: no other may have
        // the partition, nor its place among the source's attempts.
        self.children.ended().await;
        done
    }

    fn job(&self) -> Job {
        let (key, run) = (&self.claimed.partition.state.key, &self.claimed.run);
        let mut job = Job {
            key: key.clone(),
            run_id: run.run_id,
            attempt: run.attempt,
            query: None,
            children: self.children.clone(),
        };
        job.query = self.source.queries.get(&key.query_name).map(|query| query.render(&job, Escape::Plain));
        job
    }

    /// A text as it may be shown: without secrets.
    fn presentable(&self, text: &str) -> String {
        clean_message(&self.redacted(text))
    }

    fn redacted(&self, text: &str) -> String {
        self.redactor.of(&self.secrets()).redact(text)
    }

    /// None of these may be shown.
    fn secrets(&self) -> Vec<String> {
        let job = self.job();
        let validator = self.source.validator.as_ref().map(|validator| validator.secrets(&job));
        [self.source.extractor.secrets(&job), validator.unwrap_or_default()].concat()
    }
}
