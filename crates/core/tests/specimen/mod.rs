//! One of each: the partitions and runs that the tests of the rules start from.

#![allow(dead_code, reason = "every test crate uses its own part of these")]

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{
    Change, ControlEvent, DataEvent, Event, InFlight, Judgement, Mark, Partition, Reprocess, Status, Wanted, apply,
};
use redrive_core::refusal::Refused;
use redrive_core::retry::{Backoff, HintRule, RetryPolicy};
use redrive_core::run::{EndedBy, Run, State, Work, Workload};
use redrive_core::time::Timestamp;
use uuid::Uuid;

pub const HOUR: Duration = Duration::from_secs(3600);

/// Seconds after the start of the specimens' time.
pub const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros((1_750_000_000 + seconds) * 1_000_000)
}

pub fn run_id(n: u64) -> RunId {
    RunId::from_uuid(Uuid::from_u64_pair(1, n))
}

pub fn task_id(n: u64) -> TaskId {
    TaskId::from_uuid(Uuid::from_u64_pair(2, n))
}

pub fn attempt(n: u64) -> InFlight {
    InFlight { run_id: run_id(n), task_id: task_id(n) }
}

pub fn key() -> PartitionKey {
    PartitionKey::new("ads", "111-111-1111", "campaign_daily", "2026-01-01").unwrap()
}

pub fn mark(why: &str) -> Mark {
    Mark { by: "ada".to_owned(), at: at(50), why: Some(why.to_owned()) }
}

/// Three attempts, two days.
pub fn policy() -> RetryPolicy {
    RetryPolicy {
        backoff: Backoff::Exponential { base: Duration::from_secs(300), multiplier: 2.0, cap: 6 * HOUR },
        jitter: Duration::ZERO,
        max_attempts: Some(3),
        max_age: Some(48 * HOUR),
        hint: HintRule::AtLeast,
        rate_limit_budget: None,
    }
}

pub fn rejection(message: &str) -> Judgement {
    Judgement::Rejected { class: ErrorClass::Retryable, message: message.to_owned(), not_before: None }
}

pub fn ask(partition: &Partition, event: ControlEvent<'_>, now: Timestamp) -> Result<Partition, Refused> {
    apply(partition, Event::Control(event), now).map(|change| change.after)
}

pub fn report(partition: &Partition, event: DataEvent, now: Timestamp) -> Result<Partition, Refused> {
    apply(partition, Event::Data(event), now).map(|Change { after, .. }| after)
}

pub fn retry(policy: &RetryPolicy) -> ControlEvent<'_> {
    ControlEvent::Retry { policy, clear_terminal: false, stale: false, grant: None }
}

pub fn retry_clearing(policy: &RetryPolicy) -> ControlEvent<'_> {
    ControlEvent::Retry { policy, clear_terminal: true, stale: false, grant: None }
}

pub fn retry_stale(policy: &RetryPolicy) -> ControlEvent<'_> {
    ControlEvent::Retry { policy, clear_terminal: false, stale: true, grant: None }
}

pub fn backfill(policy: &RetryPolicy) -> ControlEvent<'_> {
    ControlEvent::Backfill { policy, force_pending: false }
}

pub fn force_pending(policy: &RetryPolicy) -> ControlEvent<'_> {
    ControlEvent::Backfill { policy, force_pending: true }
}

pub fn pending() -> Partition {
    Partition::new(key(), Lane::Fresh, at(0))
}

pub fn in_flight() -> Partition {
    let mut partition = pending();
    partition.control.active = Some(attempt(1));
    partition.state.version = 2;
    partition
}

pub fn failed() -> Partition {
    let mut partition = pending();
    partition.control.wanted = None;
    partition.state.status = Status::Failed;
    partition.state.attempt_count = 1;
    partition.state.error_class = Some(ErrorClass::Retryable);
    partition.state.error_message = Some("boom".to_owned());
    partition.state.updated_at = at(10);
    partition.state.version = 3;
    partition
}

pub fn marked() -> Partition {
    let mut partition = failed();
    partition.control.terminal = Some(mark("hopeless"));
    partition.state.error_message = Some("[terminal] boom".to_owned());
    partition
}

/// Terminal by [`policy`], which allows three attempts.
pub fn exhausted() -> Partition {
    let mut partition = failed();
    partition.state.attempt_count = 3;
    partition
}

pub fn success() -> Partition {
    let mut partition = pending();
    partition.control.wanted = None;
    partition.state.status = Status::Success;
    partition.state.current_run_id = Some(run_id(90));
    partition.state.record_count = Some(1000);
    partition.state.attempt_count = 1;
    partition.state.updated_at = at(10);
    partition.state.version = 3;
    partition
}

pub fn reprocess_requested() -> Partition {
    let mut partition = success();
    partition.control.wanted = Some(Wanted { lane: Lane::Retry, queued_at: at(20) });
    partition.control.reprocess = Some(Reprocess::default());
    partition.state.version = 4;
    partition
}

pub fn reprocessing() -> Partition {
    let mut partition = reprocess_requested();
    partition.control.active = Some(attempt(1));
    partition.state.version = 5;
    partition
}

/// One attempt at it was rejected at 60, and nobody has asked again.
pub fn reprocess_rejected() -> Partition {
    let mut partition = success();
    partition.control.reprocess = Some(Reprocess { rejected: 1 });
    partition.state.attempt_count = 2;
    partition.state.updated_at = at(60);
    partition.state.version = 6;
    partition
}

pub fn paused(mut partition: Partition) -> Partition {
    partition.control.paused = Some(mark("looking into it"));
    partition
}

pub fn queued(workload: Workload) -> Run {
    Run::new(run_id(1), work(workload), State::Queued, at(0))
}

pub fn work(workload: Workload) -> Work {
    match workload {
        Workload::Extract => Work::Extract(key()),
        Workload::Ingest => Work::Ingest { upload: "etc.tar.gz".to_owned() },
        Workload::Process => Work::Process { category: "any%".to_owned(), external_id: Some("replay 7".to_owned()) },
    }
}

/// Claimed at 10 with a lease until 130, by worker `w1` under task 1.
pub fn running(workload: Workload) -> Run {
    Run {
        state: State::Running,
        attempt: 1,
        task_id: Some(task_id(1)),
        worker: Some("w1".to_owned()),
        started_at: Some(at(10)),
        last_heartbeat: Some(at(10)),
        lease_until: Some(at(130)),
        ..queued(workload)
    }
}

/// Its first try failed at 20; the second is due at 80.
pub fn waiting(workload: Workload) -> Run {
    Run {
        state: State::Waiting,
        retry_count: 1,
        next_retry_at: Some(at(80)),
        error_class: Some(ErrorClass::Retryable),
        error_message: Some("boom".to_owned()),
        lease_until: None,
        ..running(workload)
    }
}

pub fn done(workload: Workload) -> Run {
    Run {
        state: State::Done,
        lease_until: None,
        completed_at: Some(at(30)),
        ended_by: Some(EndedBy::Completed),
        verdict: Some(redrive_core::run::Verdict::Passed),
        ..running(workload)
    }
}

pub fn dead(workload: Workload) -> Run {
    Run {
        state: State::Dead,
        next_retry_at: None,
        error_class: Some(ErrorClass::Final),
        completed_at: Some(at(30)),
        ended_by: Some(EndedBy::Failed),
        ..waiting(workload)
    }
}
