//! What a worker reports of a run: completed, failed, or given back. The same report again gets the same answer.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::{ErrorClass, clean_message};
use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{Change, End, Fault, ReportKind, Run, State, Verdict};
use redrive_core::time::Timestamp;
use redrive_store::{OutsideReport, ReportOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Caller, OutsideWorkers, Slip};
use crate::error::Result;
use crate::process::log;

/// The longest metrics that are kept, in bytes.
const MAX_METRICS: usize = 64 << 10;

/// A run that was completed.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub verdict: Verdict,
    pub metrics: Map<String, Value>,
}

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReport {
    pub class: ErrorClass,
    pub message: String,
    pub traceback: Option<String>,
    pub retry_after: Option<Duration>,
}

/// What becomes of a run whose try failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    Retry,
    Stopped,
}

/// The answer to a run that was completed, or given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EndAnswer {
    pub state: State,
    /// What was reported; none where the run was given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

impl EndAnswer {
    fn of(change: &Change) -> String {
        json!(Self { state: change.after.state, verdict: change.after.verdict }).to_string()
    }
}

/// The answer to a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailAnswer {
    pub next: Next,
    /// When it is tried again.
    pub at: Option<Timestamp>,
    /// Why it is tried then, or not at all.
    pub why: String,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    /// JSON.
    Answer(String),
    /// The run is no longer the reporter's; what was said is kept in its history as late.
    LeaseLost,
    Forbidden,
    Absent,
}

impl OutsideWorkers {
    pub async fn complete(
        &self,
        run: (RunId, TaskId),
        completion: Completion,
        caller: &Caller,
    ) -> Result<Result<Reported, Slip>> {
        if Value::Object(completion.metrics.clone()).to_string().len() > MAX_METRICS {
            return Ok(Err(Slip::Metrics));
        }
        let said = json!({"verdict": completion.verdict.as_str(), "metrics": completion.metrics});
        let data = self.data.clone();
        let end = move |run: &Run| {
            let metrics = Some(metrics(run, completion.metrics.clone(), data.now()));
            End::Completed { verdict: completion.verdict, metrics }
        };
        Ok(Ok(self.report(run, ReportKind::Complete, said, caller, end, EndAnswer::of).await?))
    }

    pub async fn fail(&self, run: (RunId, TaskId), failure: FailureReport, caller: &Caller) -> Result<Reported> {
        let said = json!({"error_class": failure.class.as_str(), "message": clean_message(&failure.message)});
        let (data, sections) = (self.data.clone(), Arc::clone(&self.sections));
        let end = move |run: &Run| {
            let policy = sections.policy(run);
            let fault = Fault {
                class: failure.class,
                message: failure.message.clone(),
                trace: failure.traceback.clone(),
                retry_after: failure.retry_after.map(|hint| hint.min(policy.longest_hint())),
            };
            End::Failed { fault, metrics: Some(metrics(run, Map::new(), data.now())), policy }
        };
        self.report(run, ReportKind::Fail, said, caller, end, |change| fail_answer(change).to_string()).await
    }

    /// Gives a run back untried.
    pub async fn release(&self, run: (RunId, TaskId), caller: &Caller) -> Result<Reported> {
        let end = |_: &Run| End::Released { why: None };
        self.report(run, ReportKind::Release, json!({}), caller, end, EndAnswer::of).await
    }

    async fn report(
        &self,
        (run_id, task_id): (RunId, TaskId),
        kind: ReportKind,
        said: Value,
        caller: &Caller,
        end: impl Fn(&Run) -> End + Send + Sync + 'static,
        answer: impl Fn(&Change) -> String + Send + Sync + 'static,
    ) -> Result<Reported> {
        let mut said = said;
        said["report"] = kind.as_str().into();
        let report = OutsideReport { run_id, task_id, kind, said: said.to_string() };
        let allowed = caller.clone();
        let told = self.data.report(report, move |run| allowed.may_touch(run), end, answer).await?;
        let (reported, worker) = match told {
            ReportOutcome::Answer { answer, worker, change } => {
                if let Some(change) = change {
                    log::reported(&change);
                }
                (Reported::Answer(answer), worker)
            }
            ReportOutcome::Late { worker } => {
                tracing::warn!(%run_id, worker, report = kind.as_str(), "too late: the run is no longer this worker's");
                (Reported::LeaseLost, worker)
            }
            ReportOutcome::NotAllowed => (Reported::Forbidden, None),
            ReportOutcome::Absent => (Reported::Absent, None),
        };
        if let Some(worker) = worker.filter(|_| matches!(reported, Reported::Answer(_))) {
            self.meet(&worker, caller, None).await?;
        }
        Ok(reported)
    }
}

/// What becomes of a run whose try failed, as the worker is told.
fn fail_answer(change: &Change) -> Value {
    let run = &change.after;
    let stop = change.failure.as_ref().and_then(|failure| failure.stop);
    let (next, why) = match (run.state, stop) {
        (State::Waiting, _) => (Next::Retry, run.error_class.map_or("retryable", ErrorClass::as_str)),
        (_, Some(stop)) => (Next::Stopped, stop.as_str()),
        (_, None) => (Next::Stopped, run.state.as_str()),
    };
    json!(FailAnswer { next, at: run.next_retry_at, why: why.to_owned() })
}

/// What a worker reported, with the duration of its attempt and the number of attempts so far.
fn metrics(run: &Run, mut metrics: Map<String, Value>, now: Timestamp) -> String {
    let seconds = now.since(run.started_at.unwrap_or(now)).as_secs_f64();
    metrics.insert("duration_seconds".to_owned(), seconds.into());
    metrics.insert("attempts".to_owned(), run.attempt.into());
    Value::Object(metrics).to_string()
}
