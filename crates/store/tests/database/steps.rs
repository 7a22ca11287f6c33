//! The claims, judgements, faults and keys that most tests of this suite use.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Fault, Run, Verdict, Work, Workload};
use redrive_core::time::Timestamp;
pub use redrive_fixture::rejected;
use redrive_store::{NewRun, Outcome, PartitionClaim, Recorded, RunChangeOutcome, RunClaim};

use crate::support::{LEASE, key};

/// A claim of anything, by worker `w1`.
pub fn claim(limit: u32) -> PartitionClaim {
    PartitionClaim::new("w1", limit, LEASE)
}

pub fn job_claim(limit: u32) -> RunClaim {
    RunClaim::new(Workload::Process, "w1", limit, LEASE)
}

pub fn accepted(records: u64) -> Judgement {
    Judgement::Accepted { records }
}

pub fn passed() -> End {
    End::Completed { verdict: Verdict::Passed, metrics: None }
}

pub fn fault(class: ErrorClass, retry_after: Option<Duration>) -> End {
    fault_under(RetryPolicy::process(), class, retry_after)
}

pub fn fault_under(policy: RetryPolicy, class: ErrorClass, retry_after: Option<Duration>) -> End {
    let (message, trace) = ("boom".to_owned(), Some("at line 1".to_owned()));
    End::Failed { fault: Fault { class, message, trace, retry_after }, metrics: None, policy }
}

/// An archive to be ingested.
pub fn upload(submitted_at: Timestamp) -> NewRun {
    NewRun::new(Work::Ingest { upload: "etc.tar.gz".to_owned() }, None, submitted_at)
}

/// A job with an external id.
pub fn named_job(category: &str, external_id: &str, submitted_at: Timestamp) -> NewRun {
    let (category, external_id) = (category.to_owned(), Some(external_id.to_owned()));
    NewRun::new(Work::Process { category, external_id }, None, submitted_at)
}

pub fn retry(policy: &RetryPolicy) -> ControlEvent<'_> {
    ControlEvent::Retry { policy, clear_terminal: false, stale: false, grant: None }
}

pub fn mark(threshold: u32) -> ControlEvent<'static> {
    ControlEvent::MarkTerminal { by: "ada", why: Some("hopeless"), threshold }
}

pub fn pause() -> ControlEvent<'static> {
    ControlEvent::Pause { by: "ada", why: None }
}

/// Customers of one source, each with one query and `days` days.
pub fn keys(source: &str, customers: &[&str], days: usize) -> Vec<PartitionKey> {
    let dates = (0..days).map(|day| format!("{:04}-{:02}-{:02}", 1900 + day / 336, day / 28 % 12 + 1, day % 28 + 1));
    dates.flat_map(|date| customers.iter().map(move |customer| key(source, customer, "daily", &date))).collect()
}

/// The run as it was recorded, where it was.
pub fn recorded(recorded: Recorded) -> Run {
    match recorded {
        Recorded::As(run) => *run,
        Recorded::Refused(_) | Recorded::Lost => panic!("not recorded: {recorded:?}"),
    }
}

pub fn changed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Changed { .. })
}

/// The run after its change, where it was changed.
pub fn after(outcome: RunChangeOutcome) -> Run {
    match outcome {
        RunChangeOutcome::Changed { after, .. } => after,
        RunChangeOutcome::Refused(_) | RunChangeOutcome::Overtaken(_) => panic!("not changed: {outcome:?}"),
    }
}
