//! Why a partition is not running now: one reason code, and the arithmetic behind it.

use redrive_core::failure::ErrorClass;
use redrive_core::hold::{Cause, Hold};
use redrive_core::key::PartitionKey;
use redrive_core::outlook::Outlook;
use redrive_core::partition::{Mark, Partition, Status};
use redrive_core::retry::{RetryPolicy, StopReason};
use redrive_core::run::{Run, Verdict};
use redrive_core::time::Timestamp;
use serde::Serialize;

use crate::error::Result;
use crate::insight::Insight;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    #[serde(flatten)]
    pub key: PartitionKey,
    pub status: &'static str,
    pub reason: &'static str,
    /// The reason in words, with its numbers.
    pub because: String,
    /// What an operator can do about it. Each interface has its own words for it.
    #[serde(skip)]
    pub action: Option<Action>,
    pub next_retry_at: Option<Timestamp>,
    pub attempt_count: u32,
    pub max_attempts: Option<u32>,
    /// How many of the attempts at a reprocess were rejected since it was asked for: these are what counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reprocess_rejected: Option<u32>,
    /// What the last attempt said, where it was rejected.
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    pub now: Timestamp,
}

/// What changes how things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Resume,
    /// Retry it now.
    Retry,
    /// Retry it past its mark or its policy.
    RetryClearingTerminal,
    /// Retry it although it is pending.
    RetryStale,
    Reprocess,
    /// Pause it, so that it is not tried again.
    Pause,
}

impl Insight {
    /// Explains one partition; none where there is no entry.
    pub async fn explain(&self, key: &PartitionKey) -> Result<Option<Explanation>> {
        let Some(partition) = self.view().partition(key).await? else { return Ok(None) };
        let holds = self.holds().await?;
        let outlook = self.outlook(&partition, &holds);
        let policy = &self.sources().of(&key.source).retry;
        let (error_class, error_message) = self.last_word(&partition).await?;
        let attempt = match outlook.run_id() {
            Some(run_id) => self.view().run(run_id).await?,
            None => None,
        };
        let scene = Scene {
            partition: &partition,
            policy,
            attempt,
            rejected: error_class.is_some(),
            is_known: self.sources().is_known(&key.source),
            now: self.now(),
        };
        Ok(Some(Explanation {
            key: key.clone(),
            status: partition.state.status.as_str(),
            reason: outlook.code(),
            because: scene.in_words(&outlook),
            action: scene.action(&outlook),
            next_retry_at: outlook.next_retry_at(),
            attempt_count: partition.state.attempt_count,
            max_attempts: policy.attempt_limit(),
            reprocess_rejected: partition.control.reprocess.map(|request| request.rejected),
            error_class,
            error_message,
            now: scene.now,
        }))
    }

    /// What the last attempt said, where it was rejected. A success does not tell of a later attempt; its runs do.
    async fn last_word(&self, partition: &Partition) -> Result<(Option<ErrorClass>, Option<String>)> {
        match partition.state.status {
            Status::Pending | Status::Failed => {
                Ok((partition.state.error_class, partition.state.error_message.clone()))
            }
            Status::Success => {
                let attempts = self.view().attempts(&partition.state.key).await?;
                let last = attempts.into_iter().rfind(|run| run.verdict.is_some());
                let rejected = last.filter(|run| run.verdict == Some(Verdict::Failed));
                Ok(rejected.map_or((None, None), |run| (run.error_class, run.error_message)))
            }
        }
    }
}

/// What the words are made of.
struct Scene<'a> {
    partition: &'a Partition,
    policy: &'a RetryPolicy,
    /// The run that is under way.
    attempt: Option<Run>,
    /// Whether the last attempt was rejected.
    rejected: bool,
    /// Whether this configuration has a section for the source.
    is_known: bool,
    now: Timestamp,
}

impl Scene<'_> {
    fn in_words(&self, outlook: &Outlook) -> String {
        let state = &self.partition.state;
        let (happened, attempts) = match self.partition.control.reprocess {
            Some(request) => (format!("its reprocess was rejected at {}", state.updated_at), request.rejected),
            None => (format!("failed at {}", state.updated_at), state.attempt_count),
        };
        match outlook {
            Outlook::Done => self.done(),
            Outlook::InFlight { .. } => self.in_flight(outlook),
            Outlook::Queued { lane, since } => {
                let place = format!("it waits in lane {lane} since {since}");
                match self.is_known {
                    true => format!("{place} for a worker that has room"),
                    false => format!("{place}, and this configuration has no [sources.{}]", state.key.source),
                }
            }
            Outlook::Held(hold) => held(hold),
            Outlook::Paused(mark) => format!("paused {}", by(mark)),
            Outlook::Marked(mark) => format!("marked terminal {}", by(mark)),
            Outlook::Exhausted(StopReason::AttemptsExhausted) => {
                let limit = self.policy.attempt_limit().unwrap_or(attempts);
                format!("{attempts} attempts of at most {limit}")
            }
            Outlook::Exhausted(StopReason::TooOld) => {
                let (age, limit) =
                    (span(self.now.since(state.created_at)), span(self.policy.max_age.unwrap_or_default()));
                let since = state.created_at;
                format!("wanted since {since} ({age}), and the policy stops at {limit}")
            }
            Outlook::TooOldByThen { until, limit } => {
                format!("{happened}; it would wait until {until}, and the policy stops at {limit}")
            }
            Outlook::Exhausted(StopReason::FinalError) | Outlook::FinalError => {
                "its error is final: trying again gives the same answer, so a person decides".to_owned()
            }
            Outlook::Waiting { until, delay, hinted: true } => {
                format!("{happened}; its source said to come back at {until}, {} later", span(*delay))
            }
            Outlook::Waiting { until, delay, hinted: false } => {
                let (base, spread) = (span(self.policy.delay(attempts)), span(self.policy.jitter));
                format!("{happened}; attempt {attempts} waits {base} ± {spread}: {}, until {until}", span(*delay))
            }
            Outlook::Due { since, delay } => {
                let delay = span(*delay);
                format!("{happened}; its wait of {delay} ended at {since}; the daemon's next tick takes it")
            }
            Outlook::NotQueued => "it was withdrawn from the queue".to_owned(),
        }
    }

    fn action(&self, outlook: &Outlook) -> Option<Action> {
        let reprocess = self.partition.control.reprocess.is_some();
        match outlook {
            Outlook::Paused(_) => Some(Action::Resume),
            Outlook::Marked(_) | Outlook::Exhausted(StopReason::AttemptsExhausted | StopReason::TooOld) => {
                Some(Action::RetryClearingTerminal)
            }
            Outlook::Exhausted(StopReason::FinalError) | Outlook::FinalError | Outlook::TooOldByThen { .. } => {
                Some(Action::Retry)
            }
            Outlook::NotQueued => Some(Action::RetryStale),
            Outlook::Done if reprocess || self.rejected => Some(Action::Reprocess),
            Outlook::Waiting { .. } | Outlook::Due { .. } if reprocess => Some(Action::Pause),
            Outlook::Done
            | Outlook::Waiting { .. }
            | Outlook::Due { .. }
            | Outlook::InFlight { .. }
            | Outlook::Queued { .. }
            | Outlook::Held(_) => None,
        }
    }

    fn done(&self) -> String {
        let current = match self.partition.state.current_run_id {
            Some(run) => format!("run {run} is current"),
            None => "its run is current".to_owned(),
        };
        match self.partition.control.reprocess {
            Some(request) => format!(
                "{current}; {} attempts to reprocess it were rejected, and the policy allows no more",
                request.rejected
            ),
            None if self.rejected => {
                format!("{current}; a later attempt was rejected")
            }
            None => format!("{current}, and no operator asked for another"),
        }
    }

    fn in_flight(&self, outlook: &Outlook) -> String {
        let run = outlook.run_id().map_or_else(|| "a run".to_owned(), |run| format!("run {run}"));
        let worker = self.attempt.as_ref().and_then(|run| run.worker.as_deref()).unwrap_or("a worker");
        let lease = self.attempt.as_ref().and_then(|run| run.lease_until);
        let mut words = match lease {
            Some(until) if until <= self.now => {
                format!(
                    "{run} of {worker} was at work on it, and its lease ran out at {until}; the next worker ends it"
                )
            }
            Some(until) => format!("{run} of {worker} is at work on it, with a lease until {until}"),
            None => format!("{run} of {worker} is at work on it"),
        };
        if let Some(mark) = &self.partition.control.paused {
            words.push_str(&format!("; paused {}, it is not tried again after this", by(mark)));
        }
        words
    }
}

/// Whom a hold is on, who set it and why, and when it ends.
fn held(hold: &Hold) -> String {
    let (scope, since) = (&hold.scope, hold.since);
    let why = hold.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    match (&hold.cause, hold.until) {
        (Cause::Cooldown, Some(until)) => format!("{scope} asked to be left alone until {until}{why}"),
        (Cause::Breaker(probing), _) => format!(
            "the breaker holds {scope} since {since}{why}; one attempt goes ahead at {} to find out whether it is well again",
            probing.at
        ),
        (Cause::Operator, Some(until)) => format!("{} held {scope} at {since} until {until}{why}", hold.by),
        (Cause::Operator | Cause::Cooldown, None) => {
            format!("{} held {scope} at {since} until it is lifted{why}", hold.by)
        }
    }
}

fn by(Mark { by, at, why }: &Mark) -> String {
    why.as_ref().map_or_else(|| format!("by {by} at {at}"), |why| format!("by {by} at {at}: {why}"))
}

/// A span to the second, as people write it; a long one to the hour.
pub(crate) fn span(span: std::time::Duration) -> String {
    let seconds = span.as_secs();
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, 0) => format!("{m} min"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (1, 0, ..) => "1 day".to_owned(),
        (d, 0, ..) => format!("{d} days"),
        (1, h, ..) => format!("1 day {h} h"),
        (d, h, ..) => format!("{d} days {h} h"),
    }
}
