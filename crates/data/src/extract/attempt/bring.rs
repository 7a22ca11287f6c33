//! Asking the source: its records, or why there are none, and what its "slow down" means for its siblings.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use redrive_core::failure::ErrorClass;
use redrive_core::retry;
use redrive_core::time::Timestamp;
use redrive_store::Cooldown;
use redrive_store::raw;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{Attempt, Extraction, NotJudged};
use crate::error::{Error, Result, ScratchError};
use crate::extract::{Error as ExtractError, Failure, Records, Scope};
use crate::failure::Blame;

/// What the extractor did.
enum Brought {
    Complete,
    Failed(Failure),
    SinkFailed(raw::Error),
    ScratchFailed(ScratchError),
    /// The worker has to leave.
    Stopped,
}

impl Attempt {
    pub(super) async fn extract(&self) -> Result<Extraction, NotJudged> {
        let missing = self.source.missing_to_judge();
        if !missing.is_empty() {
            // Nothing is asked for that could not be judged.
            return Err(NotJudged::Unusable { scope: Scope::Source, why: missing.join("; ") });
        }
        let begun = Instant::now();
        let mut records = Records::new(self.sink.begin(self.directory())).limited_to(self.source.max_bytes);
        let failure = match self.bring(&mut records).await {
            Brought::Complete => None,
            Brought::Failed(failure) => {
                Some(self.presentable_failure(failure).waiting_at_most(self.source.longest_hint))
            }
            Brought::SinkFailed(error) => return Err(NotJudged::SinkFailed(error)),
            Brought::ScratchFailed(error) => return Err(Error::from(error).into()),
            Brought::Stopped => return Err(NotJudged::Stopped),
        };
        if let Some(failure) = failure.as_ref().filter(|failure| failure.blame == Blame::Setup) {
            return Err(NotJudged::Unusable { scope: failure.scope, why: failure.message.clone() });
        }
        // Before anything else: the siblings must not ask in the meantime.
        let until = self.hold_back_siblings(failure.as_ref()).await;
        // Also where the source failed early: an extractor that gave up on a program has only asked it to end.
        self.children.ended().await;
        match (until, failure) {
            (Some(until), Some(failure)) if self.may_wait(&failure) => {
                Err(NotJudged::RateLimited { message: failure.message, until })
            }
            (_, failure) => Ok(Extraction { records, failure, stderr: self.children.whole_stderr(), begun }),
        }
    }

    /// Has the extractor bring the records. Time-outs and panics are failures like any other.
    async fn bring(&self, records: &mut Records) -> Brought {
        let job = self.job();
        // So that a program's log lines say whose they are.
        let span = tracing::warn_span!("extract", key = %job.key, run_id = %job.run_id);
        let bring = AssertUnwindSafe(self.source.extractor.extract(&job, records).instrument(span)).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = self.shutdown.leaving() => return Brought::Stopped,
            ended = tokio::time::timeout(self.source.timeout, bring) => ended,
        };
        let Ok(ended) = ended else {
            // What a program said is known when it has ended.
            self.children.ended().await;
            return Brought::Failed(timed_out(self.source.timeout, self.children.last_stderr()));
        };
        match ended {
            Ok(Ok(())) => Brought::Complete,
            Ok(Err(ExtractError::Source(failure))) => Brought::Failed(failure),
            Ok(Err(ExtractError::Sink(error))) => Brought::SinkFailed(error),
            Ok(Err(ExtractError::Scratch(error))) => Brought::ScratchFailed(error),
            Err(_) => Brought::Failed(Failure::retryable("the extractor panicked; its log has more")),
        }
    }

    /// Whether the source's own word on when to come again is followed without a verdict: nothing was extracted, and this
    /// request has not waited so for too long already.
    fn may_wait(&self, failure: &Failure) -> bool {
        let waited = self.claimed.partition.control.rate_limit_waited;
        failure
            .retry_after
            .is_some_and(|hint| retry::is_within(self.source.rate_limit_budget, waited.saturating_add(hint)))
    }

    /// Holds back the source, or one customer of it, after a rate limit; gives until when.
    async fn hold_back_siblings(&self, failure: Option<&Failure>) -> Option<Timestamp> {
        let failure = failure.filter(|failure| failure.class == ErrorClass::RateLimited)?;
        let key = &self.claimed.partition.state.key;
        let span = failure.retry_after.unwrap_or(self.source.cooldown);
        let cooldown = Cooldown {
            source: key.source.clone(),
            customer_id: match failure.scope {
                Scope::Customer => Some(key.customer_id.clone()),
                Scope::Source => None,
            },
            until: self.data.now().saturating_add(span),
            why: Some(failure.message.clone()),
        };
        let until = cooldown.until;
        tracing::info!(%key, scope = ?failure.scope, until = %cooldown.until, "told to slow down");
        if let Err(error) = self.data.cool_down(cooldown).await {
            tracing::warn!(%key, %error, "the cooldown could not be recorded");
        }
        Some(until)
    }

    fn directory(&self) -> raw::RunHeader {
        let (key, run) = (&self.claimed.partition.state.key, &self.claimed.run);
        raw::RunHeader {
            key: key.clone(),
            run_id: run.run_id,
            fence: self.fence,
            extractor: self.source.extractor.name().to_owned(),
            started_at: run.started_at.unwrap_or(self.data.now()),
        }
    }

    fn presentable_failure(&self, failure: Failure) -> Failure {
        Failure { message: self.presentable(&failure.message), ..failure }
    }
}

/// With the program's last words, which may say why.
fn timed_out(limit: Duration, stderr: Option<String>) -> Failure {
    let stderr = stderr.map_or_else(String::new, |lines| format!(": {lines}"));
    Failure::retryable(format!("timed out after {} s{stderr}", limit.as_secs_f64()))
}
