//! One attempt, from its claim to its verdict.
//!
//! It ends in one of three ways: with a verdict, given back untried, or lost to somebody else. What of ours fails on the
//! way, the database or the sink as a whole, costs the partition no attempt. Whatever happens, nothing is written after
//! the lease is gone, and the fence in the store stands behind that.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use redrive_core::failure::{ErrorClass, clean_message};
use redrive_core::id::TaskId;
use redrive_core::partition::Judgement;
use redrive_core::refusal::Refused;
use redrive_store::raw::{self, Manifest, RawSink, RunOutcome};
use redrive_store::{ClaimedPartition, Cooldown, DataStore, Recorded};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::keeper::Held;
use super::plan::SourcePlan;
use super::stop::Stop;
use crate::error::{Error, Result, ScratchError, TRY_AGAIN};
use crate::extract::{self, Failure, Job, Records, Scope};
use crate::program::ChildTracker;
use crate::settings::{Escape, redact};
use crate::validate::{Submission, Validator, Verdict};

/// What became of an attempt.
#[derive(Debug)]
pub enum End {
    Accepted {
        records: u64,
    },
    Rejected {
        class: ErrorClass,
    },
    /// The verdict came too late, and changed nothing.
    Refused(Refused),
    /// Given back untried: no attempt is counted.
    Released,
    /// The lease was gone before there was a verdict.
    Lost,
}

/// How far an attempt came by itself.
#[derive(Debug)]
pub(super) enum Course {
    Ended(End),
    /// Something of ours failed. The worker has to know before the partition is given back: it would claim it again.
    Broken(Box<Attempt>, Error),
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub data: DataStore,
    pub sink: RawSink,
    pub source: Arc<SourcePlan>,
    pub claimed: ClaimedPartition,
    pub fence: TaskId,
    pub held: Held,
    pub stop: Stop,
    /// The programs that are started for it.
    pub children: ChildTracker,
}

/// What an extraction left, when it left anything.
struct Left {
    manifest: Manifest,
    metrics: Map<String, Value>,
    failure: Option<Failure>,
}

impl Attempt {
    pub(super) async fn run(self) -> Course {
        let end = tokio::select! {
            biased;
            () = self.held.lost() => Ok(End::Lost),
            end = self.work() => end,
        };
        // What was dropped on the way is still ending, and this attempt is not over before it has: nobody else may have
        // the partition, nor its place among the source's attempts.
        self.children.ended().await;
        match end {
            Ok(End::Released) => Course::Ended(self.give_back(None).await),
            Ok(end @ (End::Accepted { .. } | End::Rejected { .. } | End::Refused(_) | End::Lost)) => Course::Ended(end),
            Err(error) => Course::Broken(Box::new(self), error),
        }
    }

    /// Gives the partition back untried, as long as its lease lasts.
    pub(super) async fn give_back(&self, why: Option<&str>) -> End {
        if self.release(why).await { End::Released } else { End::Lost }
    }

    async fn work(&self) -> Result<End> {
        let gone = match self.extract().await {
            Ok(left) => match self.settle(left).await {
                Err(Error::Raw(error)) => Gone::Sink(error),
                end => return end,
            },
            Err(gone) => gone,
        };
        match gone {
            Gone::Stopped => Ok(End::Released),
            Gone::Overtaken => Ok(End::Lost),
            Gone::Scratch(error) => Err(error.into()),
            Gone::Sink(error) if self.is_sink_down(&error).await => Err(error.into()),
            // It works for others: this partition is not to be had, and runs out of attempts like any other.
            Gone::Sink(error) => {
                let (class, message) = (ErrorClass::Retryable, error.to_string());
                let judgement = Judgement::Rejected { class, message, not_before: None };
                self.record(judgement, Map::new()).await
            }
        }
    }

    /// Whether the sink would take nothing from anybody now.
    async fn is_sink_down(&self, error: &raw::Error) -> bool {
        error.problem() == Some(&raw::Problem::Full) || self.sink.check().await.is_err()
    }

    async fn extract(&self) -> std::result::Result<Left, Gone> {
        let run = &self.claimed.run;
        let job = self.job();
        let started_at = run.started_at.unwrap_or(self.data.now());
        let extractor = self.source.extractor.name().to_owned();
        let directory =
            raw::RunHeader { key: job.key.clone(), run_id: run.run_id, fence: self.fence, extractor, started_at };
        let mut records = Records::new(self.sink.begin(directory));
        let begun = Instant::now();
        let brought = {
            let bring = AssertUnwindSafe(self.source.extractor.extract(&job, &mut records)).catch_unwind();
            tokio::select! {
                biased;
                () = self.stop.leaving() => return Err(Gone::Stopped),
                brought = tokio::time::timeout(self.source.timeout, bring) => brought,
            }
        };
        let failure = match brought {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(extract::Error::Source(failure)))) => Some(failure),
            Ok(Ok(Err(extract::Error::Sink(error)))) => return Err(Gone::Sink(error)),
            Ok(Ok(Err(extract::Error::Scratch(error)))) => return Err(Gone::Scratch(error)),
            Ok(Err(_)) => Some(Failure::retryable("the extractor panicked; its log has more")),
            Err(_) => {
                // What a program said is known when it has ended.
                self.children.ended().await;
                Some(timed_out(self.source.timeout, self.children.last_stderr()))
            }
        };
        let failure = failure.map(|failure| Failure { message: self.presentable(&failure.message), ..failure });
        if let Some(failure) = &failure {
            // Before anything else: the siblings must not ask in the meantime.
            self.cool_down(failure).await;
        }
        // Also where the source failed early: whoever gave up on a program has only asked it to end.
        self.children.ended().await;
        let outcome = failure.as_ref().map_or(RunOutcome::Complete, |failure| RunOutcome::Failed {
            error_class: failure.class.to_string(),
            message: failure.message.clone(),
        });
        let finished = records.finish(outcome, self.data.now()).await;
        if let Err(raw::Error::Conflict { .. }) = &finished {
            return Err(Gone::Overtaken);
        }
        let (manifest, notes) = finished.map_err(Gone::Sink)?;
        let mut metrics: Map<String, Value> = notes.into_iter().map(|(name, note)| (name.to_owned(), note)).collect();
        metrics.insert("extract_ms".to_owned(), millis(begun.elapsed()));
        Ok(Left { manifest, metrics, failure })
    }

    /// Has the validator judge what was left, and record it.
    async fn settle(&self, left: Left) -> Result<End> {
        let Left { manifest, mut metrics, failure } = left;
        let state = &self.claimed.partition.state;
        let hint = failure.and_then(|failure| failure.retry_after);
        let submission = Submission {
            key: state.key.clone(),
            run_id: self.claimed.run.run_id,
            fence: self.fence,
            // Whatever the status is now: accepted, it would take the place of the run that was accepted last.
            replaces: state.current_run_id.and(state.record_count),
            not_before: hint.map(|hint| self.data.now().saturating_add(hint)),
        };
        let (validator, begun) = (self.validator(), Instant::now());
        let judgement = tokio::select! {
            biased;
            () = self.stop.leaving() => return Ok(End::Released),
            judgement = validator.judge(&self.source.rules, &submission) => judgement?,
        };
        metrics.insert("validate_ms".to_owned(), millis(begun.elapsed()));
        metrics.insert("records".to_owned(), manifest.records.into());
        metrics.insert("bytes".to_owned(), manifest.bytes.into());
        metrics.insert("parts".to_owned(), manifest.parts.len().into());
        self.record(judgement, metrics).await
    }

    fn validator(&self) -> Validator {
        Validator::new(self.data.clone(), self.sink.view())
    }

    async fn record(&self, judgement: Judgement, metrics: Map<String, Value>) -> Result<End> {
        let metrics = Value::Object(metrics).to_string();
        let judgement = self.without_secrets(judgement);
        let verdict = self.validator().record(&self.claimed.run, judgement, &metrics).await?;
        self.tell(&verdict, &metrics);
        Ok(match verdict {
            Verdict::Recorded(Judgement::Accepted { records }) => End::Accepted { records },
            Verdict::Recorded(Judgement::Rejected { class, .. }) => End::Rejected { class },
            Verdict::Refused(refused) => End::Refused(refused),
        })
    }

    fn tell(&self, verdict: &Verdict, metrics: &str) {
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
        clean_message(&redact(text, &self.source.extractor.secrets()))
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

    async fn cool_down(&self, failure: &Failure) {
        if failure.class != ErrorClass::RateLimited {
            return;
        }
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
        tracing::info!(%key, scope = ?failure.scope, until = %cooldown.until, "told to slow down");
        if let Err(error) = self.data.cool_down(cooldown).await {
            tracing::warn!(%key, %error, "the cooldown could not be recorded");
        }
    }

    /// Gives the partition back, as long as its lease lasts; says whether it was.
    async fn release(&self, why: Option<&str>) -> bool {
        let give_back = async {
            loop {
                match self.data.release(&self.claimed.run, why).await {
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
        };
        tokio::select! {
            biased;
            () = self.held.lost() => false,
            given = give_back => given,
        }
    }
}

/// Why an extraction left nothing that could be judged.
enum Gone {
    Stopped,
    /// Somebody ended the attempt as abandoned and left its manifest.
    Overtaken,
    Sink(raw::Error),
    Scratch(ScratchError),
}

/// With what its program had said by then, which may be why.
fn timed_out(limit: Duration, said: Option<String>) -> Failure {
    let said = said.map_or_else(String::new, |lines| format!(": {lines}"));
    Failure::retryable(format!("timed out after {} s{said}", limit.as_secs_f64()))
}

fn millis(span: Duration) -> Value {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).into()
}
