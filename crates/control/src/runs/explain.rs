//! Why a run is not running now: one reason code, and the arithmetic behind it.

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::process::Living;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Incident, Run, RunContext, RunReason, State, Work, Workload};
use redrive_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::queues::Queue;
use crate::error::Result;
use crate::explain::span;
use crate::insight::Insight;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunExplanation {
    pub id: RunId,
    pub workload: Workload,
    pub category: String,
    /// The word that users of the workload know.
    pub status: &'static str,
    pub state: State,
    pub reason: RunReason,
    /// The reason in words, with its numbers.
    pub because: String,
    /// What an operator can do about it. Each interface has its own words for it.
    #[serde(skip)]
    pub action: Option<RunAction>,
    pub next_retry_at: Option<Timestamp>,
    pub retry_count: u32,
    pub max_attempts: Option<u32>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub now: Timestamp,
}

/// What changes how things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunAction {
    /// Start a fresh count.
    Retry,
    /// Add the category to a section.
    Configure,
    /// Look at the partition.
    ExplainPartition,
    StartWorker,
}

impl Insight {
    /// Explains a run, as this configuration sees it.
    pub async fn explain_run(&self, run: &Run) -> Result<RunExplanation> {
        let queue = self.queues().of(run.work.category());
        let policy = match (&run.work, queue) {
            (Work::Ingest { .. }, _) => self.uploads().retry.clone(),
            (Work::Extract(key), _) => self.sources().of(&key.source).retry.clone(),
            (Work::Process { .. }, Some(queue)) => queue.retry.clone(),
            (Work::Process { .. }, None) => RetryPolicy::process(),
        };
        let policy = policy.of_run(run.max_attempts).into_owned();
        let around = self.surroundings(run, queue).await?;
        let now = self.now();
        let reason = run::reason(run, &around, now);
        let scene = Scene { run, queue, around: &around, policy: &policy, now };
        let because = format!("{}{}", scene.in_words(reason), self.told_of(run).await?);
        Ok(RunExplanation {
            id: run.run_id,
            workload: run.workload(),
            category: run.work.category().to_owned(),
            status: run::label(run),
            state: run.state,
            reason,
            because,
            action: action(reason),
            next_retry_at: waits_until(run),
            retry_count: run.retry_count,
            max_attempts: policy.attempt_limit(),
            error_class: run.error_class,
            error_message: run.error_message.clone(),
            now,
        })
    }

    async fn surroundings(&self, run: &Run, queue: Option<&Queue>) -> Result<RunContext> {
        let (stop, delay) = match run.state {
            State::Dead | State::Waiting => {
                let failures = self.view().run_failures(run.run_id).await?;
                failures.last().map_or((None, None), |last| (last.record.stop, last.record.delay))
            }
            State::Storing | State::Queued | State::Running | State::Done => (None, None),
        };
        let limit = queue.and_then(|queue| queue.max_in_flight);
        let in_flight = match (run.state, queue) {
            (State::Queued, Some(queue)) => {
                self.view().runs_in_flight(run.workload(), queue.categories.clone()).await?
            }
            (State::Storing | State::Queued | State::Running | State::Waiting | State::Done | State::Dead, _) => 0,
        };
        let has_worker = match run.state {
            State::Queued | State::Waiting => self.is_asked_for(run).await?,
            State::Storing | State::Running | State::Done | State::Dead => true,
        };
        Ok(RunContext { stop, delay, served: queue.is_some(), has_worker, in_flight, limit })
    }

    /// Whether a living worker asks for runs like this one.
    async fn is_asked_for(&self, run: &Run) -> Result<bool> {
        let processes = self.view().processes().await?;
        let living = Living::of(&processes, self.now());
        Ok(match run.workload() {
            Workload::Process => living.handles(run.work.category()),
            workload @ (Workload::Ingest | Workload::Extract) => {
                living.iter().any(|process| process.serves.workloads.contains(&workload))
            }
        })
    }

    /// What outside workers have said of a run, or failed to say, while it is not over.
    async fn told_of(&self, run: &Run) -> Result<String> {
        match run.state {
            State::Running => {
                let progress = self.view().run_progress(run).await?;
                Ok(progress.map_or_else(String::new, |said| format!("; its worker says how far it is: {said}")))
            }
            State::Queued | State::Waiting => {
                let incidents = self.view().run_incidents(run.run_id).await?;
                let lost = incidents.iter().filter(|past| past.incident == Incident::DeliveryLost).count();
                Ok(match lost {
                    0 => String::new(),
                    1 => "; it was sent to a worker once that did not answer in time".to_owned(),
                    more => format!("; it was sent to workers {more} times that did not answer in time"),
                })
            }
            State::Storing | State::Done | State::Dead => Ok(String::new()),
        }
    }
}

/// When a run that waits comes due.
fn waits_until(run: &Run) -> Option<Timestamp> {
    run.due_at().filter(|_| run.state == State::Waiting)
}

fn action(reason: RunReason) -> Option<RunAction> {
    match reason {
        RunReason::FinalError | RunReason::AttemptsExhausted | RunReason::TooOld | RunReason::Cancelled => {
            Some(RunAction::Retry)
        }
        RunReason::UnknownCategory => Some(RunAction::Configure),
        RunReason::Ended => Some(RunAction::ExplainPartition),
        RunReason::NoWorker => Some(RunAction::StartWorker),
        RunReason::Storing
        | RunReason::Queued
        | RunReason::AtLimit
        | RunReason::InFlight
        | RunReason::LeaseExpired
        | RunReason::Waiting
        | RunReason::Due
        | RunReason::Done => None,
    }
}

/// What the words are made of.
struct Scene<'a> {
    run: &'a Run,
    queue: Option<&'a Queue>,
    around: &'a RunContext,
    policy: &'a RetryPolicy,
    now: Timestamp,
}

impl Scene<'_> {
    fn in_words(&self, reason: RunReason) -> String {
        let run = self.run;
        let section = self.queue.map_or_else(String::new, |queue| format!(" of [process.{}]", queue.name));
        let worker = run.worker.as_deref().unwrap_or("a worker");
        match reason {
            RunReason::Storing => "its input is still being stored".to_owned(),
            RunReason::Queued => {
                let since = run.submitted_at;
                format!(
                    "it was submitted at {since} and waits for a worker{section} that has room; the oldest goes first"
                )
            }
            RunReason::AtLimit => {
                let (running, limit) = (self.around.in_flight, self.around.limit.unwrap_or_default());
                format!("{running} of at most {limit} runs{section} are under way")
            }
            RunReason::UnknownCategory => {
                format!("this configuration has no [process] section for category {:?}", run.work.category())
            }
            RunReason::NoWorker => format!("no living worker{section} asks for it"),
            RunReason::InFlight => match run.lease_until {
                Some(until) => format!("{worker} is at work on it, with a lease until {until}"),
                None => format!("{worker} is at work on it"),
            },
            RunReason::LeaseExpired => {
                let until = run.lease_until.map_or_else(String::new, |until| format!(" at {until}"));
                format!("{worker} was at work on it, and its lease ran out{until}; the next worker ends that try")
            }
            RunReason::Waiting => self.waiting(),
            RunReason::Due => "its wait is over; the next worker that has room takes it".to_owned(),
            RunReason::Done => match run.verdict {
                Some(verdict) => format!("it ended with verdict {verdict}{}", self.ended_at()),
                None => format!("it is done{}", self.ended_at()),
            },
            RunReason::FinalError => {
                format!(
                    "its error is final{}: trying again gives the same answer, so a person decides",
                    self.ended_at()
                )
            }
            RunReason::AttemptsExhausted => {
                let limit =
                    self.policy.attempt_limit().map_or_else(String::new, |limit| format!(" of at most {limit}"));
                let tried = run.retry_count.saturating_add(1);
                format!("{tried} attempts{limit} have failed; the last one ended{}", self.ended_at())
            }
            RunReason::TooOld => {
                let limit = span(self.policy.max_age.unwrap_or_default());
                format!("submitted at {}, and the policy stops after {limit}", run.submitted_at)
            }
            RunReason::Cancelled => run.error_message.clone().unwrap_or_else(|| "it was cancelled".to_owned()),
            RunReason::Ended => "it was one attempt at a partition, and it is over".to_owned(),
        }
    }

    fn waiting(&self) -> String {
        let run = self.run;
        let Some(until) = waits_until(run) else { return "it waits".to_owned() };
        let left = span(until.since(self.now));
        let limit = self.policy.attempt_limit().map_or_else(String::new, |limit| format!(" of at most {limit}"));
        match run.error_class {
            _ if run.held_until(self.now) == Some(until) => {
                let worker = run.worker.as_deref().unwrap_or("a worker");
                format!(
                    "it was cancelled while {worker} had it; that worker lets go of it at {until} at the latest, {left} from now"
                )
            }
            Some(ErrorClass::RateLimited) if run::is_hinted(run, self.around.delay, self.policy) => {
                format!("the source asked for patience until {until}, {left} from now")
            }
            Some(ErrorClass::RateLimited | ErrorClass::Retryable | ErrorClass::Final) => {
                format!("attempt {}{limit} failed; the next one is at {until}, {left} from now", run.retry_count.max(1))
            }
            None => format!("its submitter wants it started at {until} or later, {left} from now"),
        }
    }

    fn ended_at(&self) -> String {
        self.run.completed_at.map_or_else(String::new, |at| format!(" at {at}"))
    }
}
