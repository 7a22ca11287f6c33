//! Storing what came, having the validator judge it, and recording the verdict.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::{ErrorClass, clean_message};
use redrive_core::partition::Judgement;
use redrive_core::run::Workload as Kind;
use redrive_metrics::Event;
use redrive_store::raw::{self, RunOutcome};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{Attempt, Extraction, Judged, NotJudged};
use crate::error::Result;
use crate::extract::Failure;
use crate::failure::Blame;
use crate::validate::{self, JudgedAttempt, Submission, Verdict};
use crate::worker::AttemptEnd;

/// What metrics call the hash of the manifest.
const MANIFEST_HASH: &str = "manifest_sha256";

impl Attempt {
    pub(super) async fn store_and_judge(&self, extraction: Extraction) -> Result<Judged, NotJudged> {
        let is_short = self.settles_soon(&extraction);
        let storing = self.commit_manifest_and_judge(extraction);
        tokio::select! {
            biased;
            () = self.shutdown.leaving() => Err(NotJudged::Stopped),
            judged = async { if is_short { self.sink.at_once(storing).await } else { storing.await } } => judged,
        }
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

    pub(super) async fn record(&self, judged: Judged) -> Result<AttemptEnd, NotJudged> {
        let Judged { judgement, metrics, stderr } = judged;
        let metrics = Value::Object(metrics).to_string();
        let mut claimed = self.claimed.clone();
        self.lease.refresh(&mut claimed.run);
        let judged = JudgedAttempt {
            claimed,
            judgement: self.without_secrets(judgement),
            metrics: metrics.clone(),
            trace: stderr.map(|text| self.redacted(&text)),
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

fn millis(span: Duration) -> Value {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).into()
}
