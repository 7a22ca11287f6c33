//! One attempt at a partition, from its claim to its verdict.
//!
//! It ends with a verdict, given back untried, or without its lease. A failure of our own database or sink costs the
//! partition no attempt. Nothing is written after the lease is gone, and the fence in the store stands behind that.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use redrive_core::failure::{ErrorClass, clean_message};
use redrive_core::hold::HoldScope;
use redrive_core::id::TaskId;
use redrive_core::partition::Judgement;
use redrive_core::retry;
use redrive_core::run::Workload as Kind;
use redrive_core::time::Timestamp;
use redrive_metrics::Event;
use redrive_store::raw::{self, RawSink, RunOutcome};
use redrive_store::{ClaimedPartition, Cooldown, DataStore, Recorded};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{ConfiguredSource, Error as ExtractError, Failure, Job, Records, Scope};
use crate::error::{Error, Result, ScratchError, TRY_AGAIN};
use crate::failure::Blame;
use crate::program::ChildTracker;
use crate::settings::{Escape, redact};
use crate::validate::{self, JudgedAttempt, Recorder, Submission, Verdict};
use crate::worker::{AttemptEnd, AttemptResult, Lease, LeaseEnd, Shutdown};

/// What metrics call the hash of the manifest.
const MANIFEST_HASH: &str = "manifest_sha256";

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
    /// Lets a few long attempts be judged at once.
    pub judging: Arc<Semaphore>,
}

/// What the extractor did.
enum Brought {
    Complete,
    Failed(Failure),
    SinkFailed(raw::Error),
    ScratchFailed(ScratchError),
    /// The worker has to leave.
    Stopped,
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

/// How a partition is given back without a verdict.
enum GiveBack {
    /// With the reason, where it lies on this side.
    Untried(Option<String>),
    /// Its source said when to come again.
    Until { message: String, until: Timestamp },
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

    async fn end_without_verdict(self, why: NotJudged) -> AttemptResult {
        let error = match why {
            NotJudged::LeaseEnded(end) => return AttemptResult::Ended(end.into()),
            NotJudged::Overtaken => return AttemptResult::Ended(AttemptEnd::Lost),
            NotJudged::Stopped => return AttemptResult::Ended(self.give_back(GiveBack::Untried(None)).await),
            NotJudged::Unusable { scope, why } => {
                return AttemptResult::Ended(self.end_unusable(scope, why).await);
            }
            NotJudged::RateLimited { message, until } => {
                return AttemptResult::Ended(self.give_back(GiveBack::Until { message, until }).await);
            }
            NotJudged::Failed(error) => error,
            NotJudged::SinkFailed(error) => match self.reject_unless_sink_is_down(error).await {
                Ok(end) => return AttemptResult::Ended(end),
                Err(NotJudged::LeaseEnded(end)) => return AttemptResult::Ended(end.into()),
                Err(NotJudged::Failed(error)) => error,
                Err(NotJudged::SinkFailed(error)) => error.into(),
                Err(NotJudged::Unusable { scope, why }) => {
                    return AttemptResult::Ended(self.end_unusable(scope, why).await);
                }
                Err(NotJudged::Stopped | NotJudged::Overtaken | NotJudged::RateLimited { .. }) => {
                    return AttemptResult::Ended(AttemptEnd::Lost);
                }
            },
        };
        let why = error.to_string();
        let give_back = Box::pin(async move { self.give_back(GiveBack::Untried(Some(why))).await });
        AttemptResult::InfraFailed { error, give_back }
    }

    /// Holds what cannot be used, and only then gives the partition back, so that no worker takes it in between.
    async fn end_unusable(&self, scope: Scope, why: String) -> AttemptEnd {
        let key = &self.claimed.partition.state.key;
        let scope = match scope {
            Scope::Source => HoldScope::Source(key.source.clone()),
            Scope::Customer => HoldScope::Customer(key.source.clone(), key.customer_id.clone()),
        };
        let worker = self.claimed.run.worker.as_deref().unwrap_or_default();
        tracing::warn!(source = %scope, why, "the source cannot be used; it is held, and looked at again in a minute");
        if let Err(error) = self.data.hold_unusable(&scope, &why, worker).await {
            tracing::warn!(source = %scope, %error, "the hold could not be recorded");
        }
        self.give_back(GiveBack::Untried(Some(why))).await
    }

    /// Where the sink works for others, this partition is not to be had, and runs out of attempts like any other.
    async fn reject_unless_sink_is_down(&self, error: raw::Error) -> Result<AttemptEnd, NotJudged> {
        if self.under_lease(async { Ok(self.is_sink_down(&error).await) }).await? {
            return Err(NotJudged::Failed(error.into()));
        }
        let (class, message) = (ErrorClass::Retryable, error.to_string());
        let judgement = Judgement::Rejected { class, message, not_before: None };
        self.record(Judged { judgement, metrics: Map::new(), stderr: self.children.whole_stderr() }).await
    }

    async fn extract(&self) -> Result<Extraction, NotJudged> {
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

    async fn store_and_judge(&self, extraction: Extraction) -> Result<Judged, NotJudged> {
        let is_short = self.settles_soon(&extraction);
        let storing = self.commit_manifest_and_judge(extraction);
        tokio::select! {
            biased;
            () = self.shutdown.leaving() => Err(NotJudged::Stopped),
            judged = async { if is_short { self.sink.at_once(storing).await } else { storing.await } } => judged,
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

    /// Finishes the attempt's directory, whatever the extractor did, and has the validator judge what lies in it.
    fn commit_manifest_and_judge(
        &self,
        extraction: Extraction,
    ) -> impl Future<Output = Result<Judged, NotJudged>> + Send + 'static {
        let Extraction { records, failure, stderr, begun } = extraction;
        let turn = (!records.is_short()).then(|| Arc::clone(&self.judging));
        let job = self.job();
        let (data, sink, source) = (self.data.clone(), self.sink.clone(), Arc::clone(&self.source));
        let state = &self.claimed.partition.state;
        let mut submission = Submission {
            key: state.key.clone(),
            run_id: self.claimed.run.run_id,
            fence: self.fence,
            // Whatever the status is now: accepted, it would take the place of the run that was accepted last.
            replaces: state.current_run_id.and(state.record_count),
            not_before: None,
        };
        async move {
            let (manifest, notes) = match records.finish(outcome(failure.as_ref()), data.now()).await {
                Ok(finished) => finished,
                Err(raw::Error::Conflict { .. }) => return Err(NotJudged::Overtaken),
                Err(error) => return Err(NotJudged::SinkFailed(error)),
            };
            let stored = Instant::now();
            // Never closed, so that there is always a turn.
            let turn = if let Some(judging) = &turn { judging.acquire().await.ok() } else { None };
            let hint = failure.and_then(|failure| failure.retry_after);
            submission.not_before = hint.map(|hint| data.now().saturating_add(hint));
            let judgement = validate::judge_written(&sink, &source.rules, &submission).await?;
            // A program takes its own memory, and may take long.
            drop(turn);
            let (judgement, stderr) = match (&source.validator, judgement) {
                (Some(validator), Judgement::Accepted { records }) => {
                    let objection = validator.judge(&sink.view(), &manifest, &job).await?;
                    // What it said is known when it has ended.
                    job.children.ended().await;
                    (after_validator(objection, records)?, both(stderr, job.children.whole_stderr()))
                }
                (_, judgement) => (judgement, stderr),
            };
            if let Judgement::Rejected { .. } = judgement {
                // What is missing may be missing because all of the sink is.
                sink.check_marker().await.map_err(NotJudged::SinkFailed)?;
            }
            let mut metrics: Map<String, Value> =
                notes.into_iter().map(|(name, note)| (name.to_owned(), note)).collect();
            metrics.insert("extract_ms".to_owned(), millis(stored.duration_since(begun)));
            metrics.insert("validate_ms".to_owned(), millis(stored.elapsed()));
            metrics.insert("records".to_owned(), manifest.records.into());
            metrics.insert("bytes".to_owned(), manifest.bytes.into());
            metrics.insert("parts".to_owned(), manifest.parts.len().into());
            // So that the doctor finds a manifest that was changed afterwards.
            metrics.insert(MANIFEST_HASH.to_owned(), manifest.sha256().to_string().into());
            Ok(Judged { judgement, metrics, stderr })
        }
    }

    async fn record(&self, judged: Judged) -> Result<AttemptEnd, NotJudged> {
        let Judged { judgement, metrics, stderr } = judged;
        let metrics = Value::Object(metrics).to_string();
        let mut claimed = self.claimed.clone();
        self.lease.refresh(&mut claimed.run);
        let judged = JudgedAttempt {
            claimed,
            judgement: self.without_secrets(judgement),
            metrics: metrics.clone(),
            trace: stderr.map(|text| redact(&text, &self.secrets())),
            breaker: self.source.breaker,
        };
        let answer = self.lease.answered(self.recorder.record(judged)).await.map_err(NotJudged::LeaseEnded)?;
        let verdict = answer.map_err(NotJudged::Failed)?;
        self.log(&verdict, &metrics);
        self.count_exhausted(&verdict);
        Ok(match verdict {
            Verdict::Recorded(Judgement::Accepted { records }) => AttemptEnd::Accepted { records },
            Verdict::Recorded(Judgement::Rejected { class, .. }) => AttemptEnd::Rejected { class },
            Verdict::Refused(refused) => AttemptEnd::Refused(refused),
        })
    }

    /// Counts a rejection after which the policy allows no further attempt.
    fn count_exhausted(&self, verdict: &Verdict) {
        let class = match verdict {
            Verdict::Recorded(Judgement::Rejected { class, .. }) => *class,
            Verdict::Recorded(Judgement::Accepted { .. }) | Verdict::Refused(_) => return,
        };
        let partition = &self.claimed.partition;
        if class != ErrorClass::Final && partition.has_one_left(self.source.max_attempts) {
            self.data.metrics().report(vec![Event::RetriesExhausted { workload: Kind::Extract }]);
        }
    }

    /// Gives the partition back, as long as its lease lasts.
    async fn give_back(&self, how: GiveBack) -> AttemptEnd {
        tokio::select! {
            biased;
            end = self.lease.ended() => end.into(),
            is_released = self.release(&how) => match (is_released, how) {
                (false, _) => AttemptEnd::Lost,
                (true, GiveBack::Untried(_)) => AttemptEnd::Released,
                (true, GiveBack::Until { .. }) => AttemptEnd::RateLimited,
            },
        }
    }

    async fn release(&self, how: &GiveBack) -> bool {
        loop {
            let released = match how {
                GiveBack::Untried(why) => self.data.release(&self.claimed.run, why.as_deref()).await,
                GiveBack::Until { message, until } => self.data.rate_limited(&self.claimed.run, message, *until).await,
            };
            match released {
                Ok(Recorded::As(_)) => return true,
                Ok(Recorded::Refused(_) | Recorded::Lost) => return false,
                Err(error) => {
                    tracing::warn!(run_id = %self.claimed.run.run_id, %error, "could not give the partition back");
                    if !error.is_transient() {
                        return false;
                    }
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }

    /// Whether the sink takes nothing from any attempt, or took nothing when this one failed.
    async fn is_sink_down(&self, error: &raw::Error) -> bool {
        error.is_of_the_whole_sink() || self.sink.check().await.is_err()
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

    fn presentable_failure(&self, failure: Failure) -> Failure {
        Failure { message: self.presentable(&failure.message), ..failure }
    }

    /// A text as it may be shown: without secrets.
    fn presentable(&self, text: &str) -> String {
        clean_message(&redact(text, &self.secrets()))
    }

    /// None of these may be shown.
    fn secrets(&self) -> Vec<String> {
        let job = self.job();
        let validator = self.source.validator.as_ref().map(|validator| validator.secrets(&job));
        [self.source.extractor.secrets(&job), validator.unwrap_or_default()].concat()
    }

    /// A rejection may quote records, and a source may send back what it was sent.
    fn without_secrets(&self, judgement: Judgement) -> Judgement {
        match judgement {
            Judgement::Accepted { .. } => judgement,
            Judgement::Rejected { class, message, not_before } => {
                Judgement::Rejected { class, message: self.presentable(&message), not_before }
            }
        }
    }

    fn log(&self, verdict: &Verdict, metrics: &str) {
        let (key, run) = (&self.claimed.partition.state.key, &self.claimed.run);
        let (run_id, attempt) = (run.run_id, run.attempt);
        match verdict {
            Verdict::Recorded(Judgement::Accepted { .. }) => {
                tracing::info!(%key, %run_id, attempt, metrics, "accepted");
            }
            Verdict::Recorded(Judgement::Rejected { class, message, not_before }) => {
                let not_before = not_before.map(|moment| moment.to_string());
                tracing::info!(%key, %run_id, attempt, %class, why = message, not_before, "rejected");
            }
            Verdict::Refused(reason) => tracing::warn!(%key, %run_id, attempt, %reason, "refused: it came too late"),
        }
    }
}

/// What becomes of records that every other rule accepts.
fn after_validator(objection: Option<Failure>, records: u64) -> Result<Judgement, NotJudged> {
    match objection {
        None => Ok(Judgement::Accepted { records }),
        Some(Failure { blame: Blame::Setup, scope, message: why, .. }) => Err(NotJudged::Unusable { scope, why }),
        Some(Failure { class, message, .. }) => {
            Ok(Judgement::Rejected { class, message: clean_message(&message), not_before: None })
        }
    }
}

/// What the extractor wrote on stderr, and what the validator's program did.
fn both(extractor: Option<String>, validator: Option<String>) -> Option<String> {
    match (extractor, validator) {
        (Some(extractor), Some(validator)) if extractor != validator => {
            Some(format!("{}\n--- validate.command\n{validator}", extractor.trim_end()))
        }
        (extractor, validator) => validator.or(extractor),
    }
}

fn outcome(failure: Option<&Failure>) -> RunOutcome {
    failure.map_or(RunOutcome::Complete, |failure| RunOutcome::Failed {
        error_class: failure.class.to_string(),
        message: failure.message.clone(),
    })
}

/// With the program's last words, which may say why.
fn timed_out(limit: Duration, stderr: Option<String>) -> Failure {
    let stderr = stderr.map_or_else(String::new, |lines| format!(": {lines}"));
    Failure::retryable(format!("timed out after {} s{stderr}", limit.as_secs_f64()))
}

fn millis(span: Duration) -> Value {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).into()
}
