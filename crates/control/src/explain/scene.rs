//! A partition's reason in words, with its numbers.

use redrive_core::hold::{Cause, Hold};
use redrive_core::outlook::Outlook;
use redrive_core::partition::{Mark, Partition};
use redrive_core::process::Living;
use redrive_core::reason::{Reason, Service};
use redrive_core::retry::{RetryPolicy, StopReason};
use redrive_core::run::Run;
use redrive_core::time::Timestamp;
use redrive_store::InFlightOf;

use super::partition::{Action, attempts, names};

/// What the words are made of.
pub(super) struct Scene<'a> {
    pub(super) partition: &'a Partition,
    pub(super) policy: &'a RetryPolicy,
    /// The run that is under way.
    pub(super) attempt: Option<Run>,
    /// Whether the last attempt was rejected.
    pub(super) rejected: bool,
    pub(super) reason: Reason,
    /// Whether a worker could take it.
    pub(super) service: Service,
    /// How many attempts of its source may be in flight.
    pub(super) limit: Option<u32>,
    /// Who has some of them.
    pub(super) in_flight: Vec<InFlightOf>,
    pub(super) living: &'a Living<'a>,
    pub(super) now: Timestamp,
}

impl Scene<'_> {
    pub(super) fn in_words(&self, outlook: &Outlook) -> String {
        let state = &self.partition.state;
        let attempts = self.partition.tried();
        let happened = match self.partition.control.reprocess {
            Some(_) => format!("its reprocess was rejected at {}", state.updated_at),
            None => format!("failed at {}", state.updated_at),
        };
        match outlook {
            Outlook::Done => self.done(),
            Outlook::InFlight { .. } => self.in_flight(outlook),
            Outlook::Queued { lane, since } => format!("it waits in lane {lane} since {since}{}", self.for_what()),
            Outlook::Held(hold) => held(hold),
            Outlook::Paused(mark) => format!("paused {}", by(mark)),
            Outlook::Marked(mark) => format!("marked terminal {}", by(mark)),
            Outlook::Exhausted(StopReason::AttemptsExhausted) => {
                let limit = self.policy.attempt_limit().unwrap_or(attempts);
                match self.partition.control.granted {
                    0 => format!("{attempts} attempts of at most {limit}"),
                    granted => format!("{attempts} attempts of at most {limit} and {granted} that were granted"),
                }
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
                let spent = self.partition.spent();
                let (base, spread) = (span(self.policy.delay(spent)), span(self.policy.jitter));
                let counted = match self.partition.control.granted {
                    0 => String::new(),
                    granted => format!(", counted as {spent} because {granted} were granted,"),
                };
                let delay = span(*delay);
                format!("{happened}; attempt {attempts}{counted} waits {base} ± {spread}: {delay}, until {until}")
            }
            Outlook::Due { since, delay } => {
                let delay = span(*delay);
                format!("{happened}; its wait of {delay} ended at {since}; {}", self.daemon())
            }
            Outlook::NotQueued => "it was withdrawn from the queue".to_owned(),
        }
    }

    pub(super) fn action(&self, outlook: &Outlook) -> Option<Action> {
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
            Outlook::Due { .. } if self.reason == Reason::NoDaemon => Some(Action::StartDaemon),
            Outlook::Waiting { .. } | Outlook::Due { .. } if reprocess => Some(Action::Pause),
            Outlook::Queued { .. } => match self.service {
                Service::NoWorker => Some(Action::StartWorker),
                Service::Unknown | Service::NoExtract => Some(Action::Configure),
                Service::Served => None,
            },
            Outlook::Done | Outlook::Waiting { .. } | Outlook::Due { .. } | Outlook::InFlight { .. } => None,
            Outlook::Held(_) => Some(Action::LiftHold),
        }
    }

    /// What keeps it in the queue.
    fn for_what(&self) -> String {
        let source = &self.partition.state.key.source;
        match self.service {
            Service::Unknown => {
                format!(", and this configuration has no [sources.{source}], nor does a living worker serve it")
            }
            Service::NoExtract => {
                format!(", and [sources.{source}] has no extract section, so that no worker can serve it")
            }
            Service::NoWorker => format!(", and no living worker serves source {source}"),
            Service::Served if self.reason == Reason::AtLimit => {
                let (have, limit) = (attempts(&self.in_flight), self.limit.unwrap_or_default());
                let by: Vec<String> = self.in_flight.iter().map(holder).collect();
                format!("; {have} of {limit} attempts of source {source} are in flight, by {}", by.join(", "))
            }
            Service::Served if self.reason == Reason::ReprocessQueued => {
                format!(" to be run again, for {} to have room; the success stays readable", self.workers())
            }
            Service::Served => format!(" for {} to have room", self.workers()),
        }
    }

    fn workers(&self) -> String {
        names(self.living.extracting(&self.partition.state.key.source))
    }

    fn daemon(&self) -> &'static str {
        if self.reason == Reason::NoDaemon {
            return "no daemon lives that would take it";
        }
        "the daemon's next tick takes it"
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

/// Who has attempts in flight, and whether their leases have run out.
fn holder(InFlightOf { worker, attempts, expired }: &InFlightOf) -> String {
    let worker = worker.as_deref().unwrap_or("a worker");
    match expired {
        0 => format!("{worker} ({attempts})"),
        expired => {
            format!("{worker} ({attempts}, of which {expired} let the lease run out; the next worker ends them)")
        }
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
