//! Why a partition is not running now: one reason code, and the arithmetic behind it.

use redrive_core::key::PartitionKey;
use redrive_core::outlook::Outlook;
use redrive_core::partition::Partition;
use redrive_core::retry::{RetryPolicy, Stop};
use redrive_core::run::Verdict;
use redrive_core::time::Timestamp;
use serde::Serialize;

use crate::error::Result;
use crate::plane::ControlPlane;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    #[serde(flatten)]
    pub key: PartitionKey,
    pub status: &'static str,
    pub reason: &'static str,
    /// The reason in words, with its numbers.
    pub because: String,
    pub next_retry_at: Option<Timestamp>,
    pub attempt_count: u32,
    pub max_attempts: Option<u32>,
    pub now: Timestamp,
}

impl ControlPlane {
    /// Explains one partition; none where there is no entry.
    pub async fn explain(&self, key: &PartitionKey) -> Result<Option<Explanation>> {
        let Some(partition) = self.view().partition(key).await? else { return Ok(None) };
        let cooldowns = self.cooldowns().await?;
        let outlook = self.outlook(&partition, &cooldowns);
        let policy = &self.sources.of(&key.source).retry;
        let now = self.now();
        let mut because = in_words(&outlook, &partition, policy, now);
        if outlook == Outlook::Done
            && let Some(rejected) = self.rejected_since(&partition).await?
        {
            because = rejected;
        }
        Ok(Some(Explanation {
            key: key.clone(),
            status: partition.state.status.as_str(),
            reason: outlook.code(),
            because,
            next_retry_at: outlook.next_retry_at(),
            attempt_count: partition.state.attempt_count,
            max_attempts: policy.attempt_limit(),
            now,
        }))
    }
}

impl ControlPlane {
    /// What became of a later attempt at a success, where it was rejected: the success stays, and a person asks again.
    async fn rejected_since(&self, partition: &Partition) -> Result<Option<String>> {
        let attempts = self.view().attempts(&partition.state.key).await?;
        let last = attempts.iter().rfind(|run| run.verdict.is_some());
        let Some(last) = last.filter(|run| run.verdict == Some(Verdict::Failed)) else { return Ok(None) };
        let current = partition.state.current_run_id.map_or_else(String::new, |run| format!("run {run} is current; "));
        let message = last.error_message.as_deref().unwrap_or("no message");
        Ok(Some(format!("{current}a later attempt was rejected ({message}); `state reprocess` asks for another")))
    }
}

fn in_words(outlook: &Outlook, partition: &Partition, policy: &RetryPolicy, now: Timestamp) -> String {
    let state = &partition.state;
    let attempts = state.attempt_count;
    match outlook {
        Outlook::Done => match state.current_run_id {
            Some(run) => format!("run {run} is current, and nobody asked for another"),
            None => "nobody asked for another run".to_owned(),
        },
        Outlook::InFlight { run_id } => format!("run {run_id} is at work on it"),
        Outlook::Queued { lane, since } => {
            format!("it waits in lane {lane} since {since} for a worker that has room")
        }
        Outlook::CoolingDown { until } => format!("its source asked to be left alone until {until}"),
        Outlook::Paused(mark) => format!("paused by {} at {}{}", mark.by, mark.at, why(mark.why.as_deref())),
        Outlook::Marked(mark) => format!("marked terminal by {} at {}{}", mark.by, mark.at, why(mark.why.as_deref())),
        Outlook::Exhausted(Stop::AttemptsExhausted) => {
            let limit = policy.attempt_limit().unwrap_or(attempts);
            format!("{attempts} attempts of at most {limit}; `state retry --clear-terminal` grants one more")
        }
        Outlook::Exhausted(Stop::TooOld) => {
            let (age, limit) = (days(now.since(state.created_at)), days(policy.max_age.unwrap_or_default()));
            format!("wanted since {} ({age}), and the policy stops at {limit}", state.created_at)
        }
        Outlook::Exhausted(Stop::FinalError) | Outlook::FinalError => {
            "its error is final: trying again gives the same answer, so a person decides".to_owned()
        }
        Outlook::Waiting { until, delay, hinted: true } => {
            format!("failed at {}; its source said to come back at {until}, {} later", state.updated_at, span(*delay))
        }
        Outlook::Waiting { until, delay, hinted: false } => {
            let (base, spread) = (span(policy.delay(attempts)), span(policy.jitter));
            let total = span(*delay);
            format!(
                "failed at {}; attempt {attempts} waits {base} ± {spread}: {total}, until {until}",
                state.updated_at
            )
        }
        Outlook::Due { since, delay } => {
            format!(
                "failed at {}; its wait of {} ended at {since}; the daemon's next tick takes it",
                state.updated_at,
                span(*delay)
            )
        }
        Outlook::NotQueued => "it was withdrawn from the queue; `state retry --stale` puts it back".to_owned(),
    }
}

fn why(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}

/// A span to the second, as people write it.
fn span(span: std::time::Duration) -> String {
    let seconds = span.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

fn days(span: std::time::Duration) -> String {
    format!("{} days", span.as_secs() / 86_400)
}
