//! One attempt at a job, from its claim to what is recorded of it.
//!
//! It ends with a verdict or a classified failure, given back untried, or without its lease. Nothing is recorded after
//! the lease is gone, and the fence in the store stands behind that.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use redrive_core::failure::{ErrorClass, clean_message};
use redrive_core::run::{self, End, Fault, Run, State, Verdict};
use redrive_store::Recorded;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::workload::ServedSection;
use super::{Answer, Context, Error as HandlerError, Failure, Job, log};
use crate::error::{Error, Result};
use crate::settings::Redactor;
use crate::worker::{AttemptEnd, AttemptResult, Lease, LeaseEnd, Shutdown};

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) served: Arc<ServedSection>,
    pub(super) job: Job,
    pub(super) lease: Lease,
    pub(super) shutdown: Shutdown,
    pub(super) context: Context,
}

/// What the handler did.
enum Tried {
    Answered(Answer),
    Failed(Failure),
    /// It cannot handle any job at present.
    Unusable(String),
    /// The worker has to leave.
    Stopped,
    LeaseEnded(LeaseEnd),
}

/// What a report means to the attempt, once it is recorded.
#[derive(Debug, Clone, Copy)]
enum Means {
    Completed,
    Failed { class: ErrorClass, hint: Option<Duration> },
    GivenBack,
}

/// Where a run stands once its attempt's end is recorded. Of most there is little to say.
pub(super) enum RunAfter {
    Done(Option<Verdict>),
    NotDone(Box<Run>),
}

impl RunAfter {
    pub(super) fn of(run: Run) -> Self {
        match run.state {
            State::Done => Self::Done(run.verdict),
            State::Storing | State::Queued | State::Running | State::Waiting | State::Dead => {
                Self::NotDone(Box::new(run))
            }
        }
    }
}

impl Attempt {
    /// A worker may have thousands of attempts under way that only wait: what they hold meanwhile is kept small.
    pub(super) async fn run(self: Box<Self>) -> AttemptResult {
        let begun = Instant::now();
        log::started(self.job.run());
        let tried = tokio::select! {
            // First, so that a handler that answers at once costs nothing more.
            biased;
            tried = self.handle(begun) => tried,
            end = self.lease.ended() => Tried::LeaseEnded(end),
            () = self.shutdown.leaving() => Tried::Stopped,
        };
        // What was dropped on the way is still ending, and this attempt is not over before it has: no other may have the
        // job.
        self.context.programs_ended().await;
        self.conclude(tried, begun)
    }

    fn conclude(self: Box<Self>, tried: Tried, begun: Instant) -> AttemptResult {
        let end = match tried {
            Tried::Answered(answer) => self.completed(answer, begun),
            Tried::Failed(failure) => self.failed(failure, begun),
            Tried::Stopped => End::Released { why: None },
            Tried::LeaseEnded(end) => return AttemptResult::Ended(end.into()),
            Tried::Unusable(why) => {
                let section = self.served.section.name.clone();
                return self.infra_failed(Error::Unusable { section, why });
            }
        };
        // The handler is done; only the database is waited for. What is recorded is handed over before, so that an attempt
        // which waits does not hold it.
        let (means, answer) = self.report(end);
        AttemptResult::Settling { rest: Box::pin(self.settle(means, answer)) }
    }

    async fn settle(
        self: Box<Self>,
        means: Means,
        answer: impl Future<Output = Result<Recorded<RunAfter>>>,
    ) -> AttemptResult {
        match self.recorded(means, answer).await {
            Ok(end) => AttemptResult::Ended(end),
            Err(error) => self.infra_failed(error),
        }
    }

    /// Something of our own failed: the job is given back.
    fn infra_failed(self: Box<Self>, error: Error) -> AttemptResult {
        let why = Some(error.to_string());
        let give_back = async move {
            let (means, answer) = self.report(End::Released { why });
            self.recorded(means, answer).await.unwrap_or(AttemptEnd::Lost)
        };
        AttemptResult::InfraFailed { error, give_back: Box::pin(give_back) }
    }

    /// Has the handler do its work. Time-outs and panics are failures like any other.
    async fn handle(&self, begun: Instant) -> Tried {
        let handled = self.served.handler.handle(&self.job, &self.context);
        let mut handled = AssertUnwindSafe(handled).catch_unwind();
        let (limit, mut timer) = (self.served.section.timeout, None);
        let ended = poll_fn(|task| {
            if let Poll::Ready(ended) = handled.poll_unpin(task) {
                return Poll::Ready(Some(ended));
            }
            // Only a handler that waits needs a timer.
            let left = || Box::pin(tokio::time::sleep(limit.saturating_sub(begun.elapsed())));
            timer.get_or_insert_with(left).poll_unpin(task).map(|()| None)
        });
        let ended = ended.await;
        // What it has started ends only then.
        drop(handled);
        let Some(ended) = ended else {
            // What a program said is known when it has ended.
            self.context.programs_ended().await;
            let stderr = self.context.last_stderr().map_or_else(String::new, |lines| format!(": {lines}"));
            return Tried::Failed(Failure::retryable(format!("timed out after {} s{stderr}", limit.as_secs_f64())));
        };
        match ended {
            Ok(Ok(answer)) => Tried::Answered(answer),
            Ok(Err(HandlerError::Failed(failure))) => Tried::Failed(failure),
            Ok(Err(HandlerError::Unusable(why))) => Tried::Unusable(self.presentable(&why)),
            Err(_) => Tried::Failed(Failure::retryable("the handler panicked; its log has more")),
        }
    }

    fn completed(&self, answer: Answer, begun: Instant) -> End {
        End::Completed { verdict: answer.verdict, metrics: Some(self.metrics(answer.metrics, begun)) }
    }

    fn failed(&self, failure: Failure, begun: Instant) -> End {
        let failure = failure.waiting_at_most(self.served.section.policy.longest_hint());
        let redactor = Redactor::new(&self.served.handler.secrets(&self.job));
        let fault = Fault {
            class: failure.class,
            message: clean_message(&redactor.redact(&failure.message)),
            trace: self.context.trace().map(|trace| redactor.redact(&trace)),
            retry_after: failure.retry_after,
        };
        let policy = self.served.section.policy.clone();
        End::Failed { fault, metrics: Some(self.metrics(Map::new(), begun)), policy }
    }

    /// What the handler reported, with the duration of this attempt and the number of attempts so far.
    fn metrics(&self, mut metrics: Map<String, Value>, begun: Instant) -> String {
        let (seconds, attempts) = ((begun.elapsed().as_secs_f64() * 1e6).round() / 1e6, self.job.attempt());
        if metrics.is_empty() {
            return format!(r#"{{"attempts":{attempts},"duration_seconds":{seconds:?}}}"#);
        }
        metrics.insert("duration_seconds".to_owned(), seconds.into());
        metrics.insert("attempts".to_owned(), attempts.into());
        Value::Object(metrics).to_string()
    }

    /// Has an end recorded; gives what that means to the attempt, and the store's answer once it is there.
    fn report(&self, end: End) -> (Means, impl Future<Output = Result<Recorded<RunAfter>>> + use<>) {
        let means = match &end {
            End::Failed { fault, policy, .. } => Means::Failed { class: fault.class, hint: fault.hint(policy) },
            End::Completed { .. } => Means::Completed,
            End::Released { .. } | End::RateLimited { .. } => Means::GivenBack,
        };
        let mut run = Arc::clone(self.job.run());
        if self.lease.is_prolonged() {
            self.lease.refresh(Arc::make_mut(&mut run));
        }
        (means, self.served.recorder.complete((run, end)))
    }

    /// Waits for the store's answer, and says what it made of the end.
    async fn recorded(
        &self,
        means: Means,
        answer: impl Future<Output = Result<Recorded<RunAfter>>>,
    ) -> Result<AttemptEnd> {
        let recorded = match self.lease.answered(answer).await {
            Ok(recorded) => recorded?,
            Err(end) => return Ok(end.into()),
        };
        Ok(self.as_recorded(recorded, means))
    }

    fn as_recorded(&self, recorded: Recorded<RunAfter>, means: Means) -> AttemptEnd {
        let run_id = self.job.run_id();
        match recorded {
            Recorded::As(standing) => match means {
                Means::Completed => {
                    self.log_end(&standing, None);
                    AttemptEnd::Accepted { records: 0 }
                }
                Means::Failed { class, hint } => {
                    self.log_end(&standing, hint);
                    AttemptEnd::Rejected { class }
                }
                Means::GivenBack => AttemptEnd::Released,
            },
            Recorded::Refused(_) | Recorded::Lost if self.lease.end() == Some(LeaseEnd::Cancelled) => {
                AttemptEnd::Cancelled
            }
            Recorded::Refused(reason) => {
                tracing::warn!(%run_id, %reason, "refused: it came too late");
                AttemptEnd::Refused(reason)
            }
            Recorded::Lost => AttemptEnd::Lost,
        }
    }

    /// A text as it may be shown: without secrets.
    fn presentable(&self, text: &str) -> String {
        clean_message(&Redactor::new(&self.served.handler.secrets(&self.job)).redact(text))
    }

    /// Says what was recorded, and what comes next.
    fn log_end(&self, standing: &RunAfter, hint: Option<Duration>) {
        match standing {
            RunAfter::Done(verdict) => log::done(self.job.run_id(), self.job.category(), self.job.attempt(), *verdict),
            RunAfter::NotDone(run) => {
                let is_counted = run.retry_count > self.job.retry_count();
                let backoff = if is_counted { run::backoff(run, &self.served.section.policy) } else { Duration::ZERO };
                log::failed(run, backoff.max(hint.unwrap_or_default()));
            }
        }
    }
}
