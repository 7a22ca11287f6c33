//! The obligations on runs, one by one. The tests' names stand in the traceability table.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod specimen;

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::{RetryPolicy, StopReason};
use redrive_core::run::{
    Change, End, EndedBy, Event, Fault, Incident, Outcome, Run, State, Verdict, Workload, apply, label, outcome,
};
use redrive_core::time::Timestamp;
use specimen::{HOUR, at, dead, done, queued, running, task_id, waiting};

const OWN_POLICY: [Workload; 2] = [Workload::Ingest, Workload::Process];

fn policy(workload: Workload) -> RetryPolicy {
    match workload {
        Workload::Extract => RetryPolicy::partitions(),
        Workload::Ingest => RetryPolicy::ingest(),
        Workload::Process => RetryPolicy::process(),
    }
}

/// Applies an event under the run's own policy.
fn happen(run: &Run, mut event: Event, now: Timestamp) -> Result<Change, Refused> {
    if let Event::Ended { end: End::Failed { policy: own, .. }, .. } | Event::LeaseExpired { policy: own, .. } =
        &mut event
    {
        *own = policy(run.workload());
    }
    apply(run, event, now)
}

fn silent() -> Event {
    Event::LeaseExpired { policy: RetryPolicy::process(), limit: None }
}

fn failed_with(n: u64, fault: Fault) -> Event {
    Event::Ended { task_id: task_id(n), end: End::Failed { fault, metrics: None, policy: RetryPolicy::process() } }
}

fn released(n: u64, why: Option<&str>) -> Event {
    Event::Ended { task_id: task_id(n), end: End::Released { why: why.map(str::to_owned) } }
}

fn fault(class: ErrorClass, retry_after: Option<u64>) -> Fault {
    Fault {
        class,
        message: "boom".to_owned(),
        trace: Some("at line 3".to_owned()),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

fn failed(class: ErrorClass, retry_after: Option<u64>) -> Event {
    failed_with(1, fault(class, retry_after))
}

fn claimed(n: u64, now: Timestamp) -> Event {
    let lease_until = now.saturating_add(Duration::from_secs(120));
    Event::Claimed { task_id: task_id(n), worker: format!("w{n}"), lease_until }
}

fn completed(n: u64) -> Event {
    Event::Ended {
        task_id: task_id(n),
        end: End::Completed { verdict: Verdict::Passed, metrics: Some("{}".to_owned()) },
    }
}

/// Fails every try with `class` until the run waits no longer, and tells the delays.
fn delays_until_dead(workload: Workload, class: ErrorClass) -> (Vec<u64>, Change) {
    let (mut run, mut now, mut delays) = (queued(workload), at(0), Vec::new());
    for n in 1..100 {
        run = happen(&run, claimed(n, now), now).unwrap().after;
        let change = happen(&run, failed_with(n, fault(class, None)), now).unwrap();
        match change.after.state {
            State::Waiting => {
                let when = change.after.next_retry_at.unwrap();
                delays.push(when.since(now).as_secs());
                now = when;
                run = happen(&change.after, Event::Due, now).unwrap().after;
            }
            State::Dead => return (delays, change),
            State::Storing | State::Queued | State::Running | State::Done => panic!("{change:?}"),
        }
    }
    panic!("{workload} is retried for ever");
}

#[test]
fn retryable_jobs_back_off_from_a_minute_to_an_hour_and_die_at_the_eighth_attempt() {
    let (delays, last) = delays_until_dead(Workload::Process, ErrorClass::Retryable);
    assert_eq!(delays, [60, 120, 240, 480, 960, 1920, 3600]);
    assert_eq!((last.after.attempt, last.after.retry_count), (8, 7));
    assert_eq!(last.after.next_retry_at, None);
    assert_eq!(last.failure.unwrap().stop, Some(StopReason::AttemptsExhausted));
}

#[test]
fn transient_errors_of_an_archive_are_retried_after_60_180_and_600_seconds() {
    let (delays, last) = delays_until_dead(Workload::Ingest, ErrorClass::Retryable);
    assert_eq!(delays, [60, 180, 600]);
    assert_eq!((last.after.attempt, last.after.retry_count), (4, 3));
    assert_eq!(label(&last.after), "FAILED");
}

#[test]
fn a_rate_limit_without_a_hint_backs_off_like_any_error() {
    let (limited, _) = delays_until_dead(Workload::Process, ErrorClass::RateLimited);
    let (retryable, _) = delays_until_dead(Workload::Process, ErrorClass::Retryable);
    assert_eq!(limited, retryable);
}

#[test]
fn a_final_error_kills_a_run_at_once() {
    for workload in OWN_POLICY {
        let change = happen(&running(workload), failed(ErrorClass::Final, Some(5)), at(20)).unwrap();
        let after = change.after;
        assert_eq!((after.state, after.next_retry_at, after.retry_count), (State::Dead, None, 0));
        assert_eq!(after.completed_at, Some(at(20)));
        assert_eq!(after.error_class, Some(ErrorClass::Final));
        assert_eq!(
            (after.error_message.as_deref(), after.error_traceback.as_deref()),
            (Some("boom"), Some("at line 3"))
        );
        assert_eq!(change.failure.unwrap().stop, Some(StopReason::FinalError));
        for n in 2..5 {
            assert!(happen(&dead(workload), claimed(n, at(99)), at(99)).is_err());
        }
    }
}

#[test]
fn a_hint_of_the_source_is_kept_exactly_and_costs_no_retry() {
    for workload in OWN_POLICY {
        for retry_count in [0, 3, 7, 99] {
            let before = Run { retry_count, ..running(workload) };
            let change = happen(&before, failed(ErrorClass::RateLimited, Some(7)), at(20)).unwrap();
            assert_eq!(change.after.state, State::Waiting);
            assert_eq!(change.after.next_retry_at, Some(at(27)));
            assert_eq!(change.after.retry_count, retry_count);
            assert_eq!(change.failure.unwrap().delay, Some(Duration::from_secs(7)));
        }
        let change = happen(&running(workload), failed(ErrorClass::Retryable, Some(7)), at(20)).unwrap();
        assert_eq!((change.after.next_retry_at, change.after.retry_count), (Some(at(80)), 1), "no rate limit, no hint");
    }
}

#[test]
fn work_past_its_age_is_not_retried() {
    let aged = RetryPolicy { max_age: Some(HOUR), ..RetryPolicy::process() };
    let before = Run { lease_until: Some(at(9_999)), ..running(Workload::Process) };
    for (now, state) in [(at(3_599), State::Waiting), (at(3_600), State::Dead)] {
        for hint in [None, Some(7)] {
            let end = End::Failed { fault: fault(ErrorClass::RateLimited, hint), metrics: None, policy: aged.clone() };
            let change = apply(&before, Event::Ended { task_id: task_id(1), end }, now).unwrap();
            assert_eq!(change.after.state, state);
        }
    }
}

#[test]
fn a_failed_try_is_recorded_as_it_was() {
    let change = happen(&running(Workload::Process), failed(ErrorClass::Retryable, None), at(20)).unwrap();
    let record = change.failure.unwrap();
    assert_eq!((record.at, record.class, record.message.as_str()), (at(20), ErrorClass::Retryable, "boom"));
    assert_eq!((record.trace.as_deref(), record.worker.as_deref()), (Some("at line 3"), Some("w1")));
    assert_eq!((record.delay, record.stop), (Some(Duration::from_secs(60)), None));
}

#[test]
fn what_a_failure_says_is_cleaned_before_it_is_kept() {
    let fault = Fault {
        message: "[terminal]\0".to_owned() + &"x".repeat(10_000),
        trace: Some("\u{202e}x\0".repeat(100_000)),
        ..fault(ErrorClass::Retryable, None)
    };
    let change = happen(&running(Workload::Process), failed_with(1, fault), at(20)).unwrap();
    let (message, trace) = (change.after.error_message.unwrap(), change.after.error_traceback.unwrap());
    assert!(message.starts_with("(terminal)x") && message.len() <= 4_096);
    assert!(!trace.contains(['\0', '\u{202e}']) && trace.len() <= 65_536);
    let record = change.failure.unwrap();
    assert_eq!((record.message, record.trace), (message, Some(trace)));
}

#[test]
fn a_lost_worker_counts_as_a_retryable_failure() {
    for workload in OWN_POLICY {
        let change = happen(&running(workload), silent(), at(130)).unwrap();
        assert_eq!((change.after.state, change.after.retry_count), (State::Waiting, 1));
        assert_eq!(change.after.next_retry_at, Some(at(190)));
        assert_eq!(change.after.error_class, Some(ErrorClass::Retryable));
        let record = change.failure.unwrap();
        assert_eq!((record.message.as_str(), record.worker.as_deref()), ("lease expired", Some("w1")));
    }
}

#[test]
fn a_run_that_kills_its_workers_runs_out_of_attempts() {
    let (mut run, mut now) = (queued(Workload::Process), at(0));
    for n in 1..=8 {
        run = happen(&run, claimed(n, now), now).unwrap().after;
        now = run.lease_until.unwrap();
        run = happen(&run, silent(), now).unwrap().after;
        if let Some(when) = run.next_retry_at {
            now = when;
            run = happen(&run, Event::Due, now).unwrap().after;
        }
    }
    assert_eq!((run.state, run.attempt), (State::Dead, 8));
}

#[test]
fn a_lease_is_over_at_its_last_moment_for_the_worker_and_its_keeper_alike() {
    let beat = || Event::Beat { task_id: task_id(1), lease_until: at(250) };
    for workload in Workload::ALL.iter().copied() {
        let run = running(workload);
        assert!(happen(&run, beat(), at(129)).is_ok());
        assert_eq!(happen(&run, silent(), at(129)), Err(Refused::Rule(Reason::InFlight)));
        assert!(happen(&run, silent(), at(130)).is_ok());
        for late in [beat(), completed(1), failed(ErrorClass::Final, None), released(1, None)] {
            assert_eq!(happen(&run, late, at(130)), Err(Refused::Rule(Reason::LeaseExpired)));
        }
    }
}

#[test]
fn an_attempt_is_abandoned_by_its_lease_and_not_by_its_words() {
    let extraction = running(Workload::Extract);
    let said = happen(&extraction, failed_with(1, Fault::lease_expired()), at(20)).unwrap();
    assert_eq!(outcome(&said.after), Outcome::Failed, "a source that says so has not lost its worker");
    let gone = happen(&extraction, silent(), at(130)).unwrap();
    assert_eq!((outcome(&gone.after), gone.after.lease_until), (Outcome::Abandoned, None));
    let given_back = happen(&extraction, released(1, None), at(20)).unwrap();
    assert_eq!(outcome(&given_back.after), Outcome::Released);
    assert_eq!((outcome(&extraction), outcome(&done(Workload::Extract))), (Outcome::Running, Outcome::Success));
}

#[test]
fn a_beat_moves_only_the_heartbeat_and_the_lease() {
    let before = running(Workload::Ingest);
    let change = happen(&before, Event::Beat { task_id: task_id(1), lease_until: at(160) }, at(40)).unwrap();
    assert_eq!(change.after, Run { last_heartbeat: Some(at(40)), lease_until: Some(at(160)), ..before });
}

#[test]
fn starting_sets_the_task_and_clears_next_retry_at_and_keeps_retry_count() {
    for workload in OWN_POLICY {
        let due = happen(&waiting(workload), Event::Due, at(80)).unwrap().after;
        let after = happen(&due, claimed(2, at(90)), at(90)).unwrap().after;
        assert_eq!((after.state, after.attempt), (State::Running, 2));
        assert_eq!((after.next_retry_at, after.retry_count), (None, 1));
        assert_eq!((after.task_id, after.worker.as_deref()), (Some(task_id(2)), Some("w2")));
        assert_eq!((after.started_at, after.last_heartbeat), (Some(at(90)), Some(at(90))));
        assert_eq!(after.lease_until, Some(at(210)));
    }
}

#[test]
fn success_clears_the_retry_fields() {
    let retried = Run { state: State::Running, lease_until: Some(at(130)), ..waiting(Workload::Process) };
    let before = Run { next_retry_at: None, error_traceback: Some("at line 3".to_owned()), ..retried };
    for verdict in Verdict::ALL.iter().copied() {
        let end = End::Completed { verdict, metrics: Some("{\"a\":1}".to_owned()) };
        let change = happen(&before, Event::Ended { task_id: task_id(1), end }, at(100)).unwrap();
        let expected = Run {
            state: State::Done,
            retry_count: 0,
            error_class: None,
            error_message: None,
            error_traceback: None,
            lease_until: None,
            completed_at: Some(at(100)),
            ended_by: Some(EndedBy::Completed),
            verdict: Some(verdict),
            metrics: Some("{\"a\":1}".to_owned()),
            version: before.version + 1,
            ..before.clone()
        };
        assert_eq!((change.after, change.failure), (expected, None));
    }
}

#[test]
fn a_retry_is_picked_up_when_it_is_due_and_no_sooner() {
    let run = waiting(Workload::Process);
    assert_eq!(happen(&run, Event::Due, at(79)), Err(Refused::NoOp(Reason::NotDue)));
    assert_eq!(happen(&run, claimed(2, at(79)), at(79)), Err(Refused::NoOp(Reason::NotDue)));
    let due = happen(&run, Event::Due, at(80)).unwrap().after;
    assert_eq!(due, Run { state: State::Queued, ..run }, "it competes by the age of its submission");
}

#[test]
fn a_person_need_not_wait_for_a_backoff_but_cannot_hurry_what_was_never_tried() {
    let run = waiting(Workload::Process);
    let hurried = happen(&run, Event::RetryRequested, at(30)).unwrap().after;
    assert_eq!((hurried.state, hurried.next_retry_at, hurried.retry_count), (State::Queued, None, 0));
    let undo = Event::Reverted { to: run.snapshot(), from_version: hurried.version };
    let undone = happen(&hurried, undo, at(31)).unwrap().after;
    assert_eq!(undone, Run { version: hurried.version + 1, ..run }, "it waits for its time again");
    let planned = Run { state: State::Waiting, not_before: Some(at(90)), ..queued(Workload::Process) };
    assert_eq!(happen(&planned, Event::RetryRequested, at(30)), Err(Refused::NoOp(Reason::AlreadyPending)));
}

#[test]
fn an_upload_is_worked_on_only_once_it_is_stored() {
    let upload = Run { state: State::Storing, ..queued(Workload::Ingest) };
    assert_eq!(label(&upload), "PENDING");
    assert_eq!(happen(&upload, Event::Due, at(9_999)), Err(Refused::NoOp(Reason::NotDue)));
    assert!(happen(&upload, claimed(1, at(10)), at(10)).is_err());
    let stored = happen(&upload, Event::Stored, at(10)).unwrap().after;
    assert_eq!((stored.state, label(&stored)), (State::Queued, "STORED"));
    let not_an_upload = waiting(Workload::Ingest);
    assert_eq!(happen(&not_an_upload, Event::Stored, at(10)), Err(Refused::NoOp(Reason::AlreadyPending)));
}

#[test]
fn a_completed_run_is_never_worked_on_again() {
    for workload in Workload::ALL.iter().copied() {
        let run = done(workload);
        assert_eq!(happen(&run, claimed(2, at(99)), at(99)), Err(Refused::NoOp(Reason::AlreadyCompleted)));
        assert_eq!(happen(&run, Event::RetryRequested, at(99)), Err(Refused::NoOp(Reason::AlreadyCompleted)));
        let cancelled = Event::Cancelled { by: "ada".to_owned() };
        assert_eq!(happen(&run, cancelled, at(99)), Err(Refused::NoOp(Reason::AlreadyCompleted)));
        assert_eq!(happen(&run, completed(1), at(99)), Err(Refused::Rule(Reason::StaleFence)));
    }
}

#[test]
fn a_run_in_flight_is_not_claimed_again() {
    for workload in Workload::ALL.iter().copied() {
        for now in [at(20), at(9_999)] {
            assert_eq!(happen(&running(workload), claimed(2, now), now), Err(Refused::Rule(Reason::InFlight)));
        }
    }
}

#[test]
fn an_orderly_shutdown_burns_no_attempt() {
    for workload in OWN_POLICY {
        let before = Run { attempt: 3, retry_count: 2, ..running(workload) };
        let change = happen(&before, released(1, None), at(20)).unwrap();
        assert_eq!((change.after.state, change.after.attempt), (State::Queued, 2));
        assert_eq!((change.after.retry_count, change.after.started_at), (2, None));
        assert_eq!(change.failure, None);
        let again = happen(&change.after, claimed(2, at(21)), at(21)).unwrap().after;
        assert_eq!(again.attempt, 3);
    }
}

#[test]
fn an_extraction_never_retries_itself() {
    for event in [failed(ErrorClass::Retryable, None), failed(ErrorClass::RateLimited, Some(7))] {
        let change = happen(&running(Workload::Extract), event, at(20)).unwrap();
        assert_eq!((change.after.state, change.after.next_retry_at), (State::Dead, None));
        assert_eq!((change.after.verdict, change.after.retry_count), (Some(Verdict::Failed), 0));
        assert_eq!(change.failure.unwrap().delay, None);
    }
    let expired = happen(&running(Workload::Extract), silent(), at(130)).unwrap();
    assert_eq!((expired.after.state, expired.after.verdict), (State::Dead, Some(Verdict::Failed)));
    let given_back = happen(&running(Workload::Extract), released(1, None), at(20)).unwrap();
    assert_eq!((given_back.after.state, given_back.after.verdict), (State::Dead, None), "released, not judged");
    assert_eq!(given_back.failure, None);
    assert_eq!(given_back.after.error_message.as_deref(), Some("released by its worker"));
    let why = Some("the disk is full");
    let given_back = happen(&running(Workload::Extract), released(1, why), at(20)).unwrap();
    assert_eq!(given_back.after.error_message.as_deref(), Some("released by its worker: the disk is full"));
}

#[test]
fn a_persons_retry_of_an_exhausted_run_starts_a_fresh_count() {
    let (_, last) = delays_until_dead(Workload::Process, ErrorClass::Retryable);
    let asked = happen(&last.after, Event::RetryRequested, at(99_000)).unwrap().after;
    assert_eq!((asked.state, asked.completed_at, asked.retry_count), (State::Queued, None, 0));
    assert_eq!((last.after.ended_by, asked.ended_by), (Some(EndedBy::Failed), None));
    let again = happen(&asked, claimed(9, at(99_010)), at(99_010)).unwrap().after;
    assert_eq!(again.attempt, 9, "attempts count on");
    let failed = happen(&again, failed_with(9, fault(ErrorClass::Retryable, None)), at(99_020)).unwrap().after;
    assert_eq!((failed.state, failed.retry_count, failed.next_retry_at), (State::Waiting, 1, Some(at(99_080))));
}

#[test]
fn free_waits_are_bounded_by_the_budget_and_then_attempts_bound_the_rest() {
    let (mut run, mut now, mut free, mut counted) = (queued(Workload::Process), at(0), 0, 0);
    for n in 1..100 {
        run = happen(&run, claimed(n, now), now).unwrap().after;
        let failed = happen(&run, failed_with(n, fault(ErrorClass::RateLimited, Some(2 * 3600))), now).unwrap().after;
        match failed.state {
            State::Waiting if failed.retry_count == run.retry_count => free += 1,
            State::Waiting => counted += 1,
            State::Storing | State::Queued | State::Running | State::Done | State::Dead => {
                assert_eq!((free, counted, failed.state), (12, 7, State::Dead), "12 x 2 h, then 8 attempts");
                assert_eq!(failed.rate_limit_waited, 24 * HOUR);
                let asked = happen(&failed, Event::RetryRequested, now).unwrap().after;
                assert_eq!((asked.retry_count, asked.rate_limit_waited), (0, Duration::ZERO));
                return;
            }
        }
        assert_eq!(failed.next_retry_at.unwrap().since(now), 2 * HOUR, "never sooner than the hint says");
        now = failed.next_retry_at.unwrap();
        run = happen(&failed, Event::Due, now).unwrap().after;
    }
    panic!("it waits for ever");
}

#[test]
fn a_runs_own_attempts_go_before_the_policys() {
    for (max_attempts, retry_count, state) in
        [(1, 0, State::Dead), (2, 0, State::Waiting), (20, 18, State::Waiting), (20, 19, State::Dead)]
    {
        let run = Run { max_attempts: Some(max_attempts), retry_count, ..running(Workload::Process) };
        let after = happen(&run, failed(ErrorClass::Retryable, None), at(20)).unwrap().after;
        assert_eq!(after.state, state, "{max_attempts} attempts, {retry_count} retries");
    }
}

#[test]
fn a_job_submitted_for_later_waits_as_discovered() {
    let job = Run { state: State::Waiting, not_before: Some(at(50)), ..queued(Workload::Process) };
    assert_eq!((label(&job), job.next_retry_at), ("discovered", None));
    assert_eq!(happen(&job, Event::Due, at(49)), Err(Refused::NoOp(Reason::NotDue)));
    let due = happen(&job, Event::Due, at(50)).unwrap().after;
    assert_eq!((due.state, label(&due)), (State::Queued, "discovered"));
    let run = happen(&due, claimed(1, at(51)), at(51)).unwrap().after;
    let failed = happen(&run, failed(ErrorClass::Retryable, None), at(60)).unwrap().after;
    assert_eq!((failed.due_at(), label(&failed)), (Some(at(120)), "error"));
    let upload = Run { state: State::Storing, not_before: Some(at(50)), ..queued(Workload::Ingest) };
    for (now, state) in [(at(49), State::Waiting), (at(50), State::Queued)] {
        assert_eq!(happen(&upload, Event::Stored, now).unwrap().after.state, state);
    }
}

#[test]
fn a_cancel_or_a_retry_is_undone_as_long_as_nothing_has_happened_since() {
    let cancel = Event::Cancelled { by: "ada".to_owned() };
    for before in [queued(Workload::Process), waiting(Workload::Process)] {
        let cancelled = happen(&before, cancel.clone(), at(20)).unwrap().after;
        let undo = Event::Reverted { to: before.snapshot(), from_version: cancelled.version };
        let undone = happen(&cancelled, undo.clone(), at(21)).unwrap().after;
        assert_eq!(undone, Run { version: cancelled.version + 1, task_id: None, ..before });
        assert_eq!(happen(&undone, undo, at(22)), Err(Refused::Rule(Reason::ChangedSincePlan)));
    }
    let retried = happen(&dead(Workload::Process), Event::RetryRequested, at(20)).unwrap().after;
    let undo = Event::Reverted { to: dead(Workload::Process).snapshot(), from_version: retried.version };
    let undone = happen(&retried, undo.clone(), at(21)).unwrap().after;
    assert_eq!(undone, Run { version: retried.version + 1, ..dead(Workload::Process) });
    let run = happen(&retried, claimed(2, at(21)), at(21)).unwrap().after;
    assert_eq!(happen(&run, undo.clone(), at(22)), Err(Refused::Rule(Reason::InFlight)));
    let given_back = happen(&run, released(2, None), at(22)).unwrap().after;
    assert_eq!(happen(&given_back, undo, at(23)), Err(Refused::Rule(Reason::ChangedSincePlan)));
    let cancelled = happen(&running(Workload::Process), cancel, at(20)).unwrap().after;
    let undo = Event::Reverted { to: running(Workload::Process).snapshot(), from_version: cancelled.version };
    let over = cancelled.lease_until.unwrap();
    let undone = happen(&cancelled, undo.clone(), at(21)).unwrap().after;
    assert_eq!((undone.state, undone.due_at()), (State::Waiting, Some(over)), "its worker may not have stopped yet");
    assert_eq!(happen(&cancelled, undo, over).unwrap().after.state, State::Queued, "its worker has stopped");
}

/// The handler of a claim that was cancelled may run until the claim's lease ends.
#[test]
fn a_cancelled_run_waits_for_the_end_of_its_lease_before_it_is_tried_again() {
    let cancel = || Event::Cancelled { by: "ada".to_owned() };
    for workload in OWN_POLICY {
        let running = running(workload);
        let over = running.lease_until.unwrap();
        let cancelled = happen(&running, cancel(), at(20)).unwrap().after;
        assert_eq!((cancelled.state, cancelled.lease_until), (State::Dead, Some(over)));
        let asked = happen(&cancelled, Event::RetryRequested, at(21)).unwrap().after;
        assert_eq!((asked.state, asked.due_at(), asked.next_retry_at), (State::Waiting, Some(over), None));
        assert_eq!(happen(&asked, Event::Due, at(22)), Err(Refused::NoOp(Reason::NotDue)));
        let due = happen(&asked, Event::Due, over).unwrap().after;
        assert_eq!((due.state, due.lease_until), (State::Queued, None));

        let again = happen(&asked, cancel(), at(23)).unwrap().after;
        let back = Event::Reverted { to: asked.snapshot(), from_version: again.version };
        let undone = happen(&again, back.clone(), at(24)).unwrap().after;
        assert_eq!((undone.state, undone.due_at()), (State::Waiting, Some(over)), "however often it is asked for");
        assert_eq!(happen(&again, back, over).unwrap().after.state, State::Queued, "it waited for that lease only");
        assert_eq!(happen(&cancelled, Event::RetryRequested, over).unwrap().after.state, State::Queued);
        let late = happen(&running, cancel(), over).unwrap().after;
        assert_eq!(late.lease_until, None, "a lease that has passed holds nothing back");
    }
}

#[test]
fn a_cancelled_run_refuses_its_old_worker() {
    for workload in OWN_POLICY {
        let cancel = || Event::Cancelled { by: "ada".to_owned() };
        let after = happen(&running(workload), cancel(), at(20)).unwrap().after;
        assert_eq!((after.state, after.task_id, after.completed_at), (State::Dead, None, Some(at(20))));
        assert_eq!(
            (after.ended_by, after.error_message.as_deref()),
            (Some(EndedBy::Cancelled), Some("cancelled by ada"))
        );
        assert_eq!(happen(&after, cancel(), at(21)), Err(Refused::NoOp(Reason::AlreadyCompleted)));

        let over = after.lease_until.unwrap();
        let asked = happen(&after, Event::RetryRequested, over).unwrap().after;
        let anew = happen(&asked, claimed(2, over), over).unwrap().after;
        for run in [after, asked, anew] {
            let beat = Event::Beat { task_id: task_id(1), lease_until: at(500) };
            for late in [beat, completed(1), failed(ErrorClass::Retryable, None), released(1, None)] {
                assert_eq!(happen(&run, late, at(24)), Err(Refused::Rule(Reason::StaleFence)));
            }
        }
        for idle in [queued(workload), waiting(workload)] {
            assert_eq!(happen(&idle, cancel(), at(20)).unwrap().after.state, State::Dead);
        }
    }
}

#[test]
fn every_state_has_the_word_its_users_know() {
    use Workload::{Extract, Ingest, Process};
    let upload = Run { state: State::Storing, ..queued(Ingest) };
    let due = |workload| Run { state: State::Queued, ..waiting(workload) };
    let found = |verdict| Run { verdict: Some(verdict), ..done(Process) };
    for (run, word) in [
        (upload, "PENDING"),
        (queued(Ingest), "STORED"),
        (due(Ingest), "STORED"),
        (running(Ingest), "PARSING"),
        (waiting(Ingest), "STORED"),
        (done(Ingest), "COMPLETE"),
        (dead(Ingest), "FAILED"),
        (queued(Process), "discovered"),
        (due(Process), "error"),
        (running(Process), "processing"),
        (waiting(Process), "error"),
        (found(Verdict::Passed), "passed"),
        (found(Verdict::NeedsReview), "needs_review"),
        (found(Verdict::Failed), "failed"),
        (dead(Process), "error"),
        (running(Extract), "extracting"),
        (done(Extract), "success"),
        (dead(Extract), "failed"),
    ] {
        assert_eq!(label(&run), word, "{} {}", run.workload(), run.state);
    }
}

/// SV-2: the answer to a claim may be lost on its way.
#[test]
fn a_claim_whose_answer_was_lost_is_given_back_and_the_first_word_of_its_worker_ends_that_risk() {
    let run = happen(&queued(Workload::Process), claimed(1, at(10)), at(10)).unwrap().after;
    let delivered = Event::Delivered { task_id: task_id(1), lease_until: at(25) };
    let sent = happen(&run, delivered.clone(), at(10)).unwrap().after;
    assert_eq!((sent.awaits_ack, sent.lease_until, sent.version), (true, Some(at(25)), run.version));

    let lost = happen(&sent, silent(), at(25)).unwrap();
    assert_eq!((lost.after.state, lost.after.attempt, lost.after.retry_count), (State::Queued, 0, 0));
    assert_eq!((lost.failure, lost.incident), (None, Some(Incident::DeliveryLost)));
    assert_eq!(happen(&lost.after, completed(1), at(26)), Err(Refused::Rule(Reason::StaleFence)));

    let again = Event::Delivered { task_id: task_id(1), lease_until: at(39) };
    assert_eq!(
        happen(&sent, again, at(24)).unwrap().after.lease_until,
        Some(at(39)),
        "sent again, it has its time again"
    );
    let beaten = happen(&sent, Event::Beat { task_id: task_id(1), lease_until: at(144) }, at(24)).unwrap().after;
    let silent = happen(&beaten, silent(), at(144)).unwrap();
    assert_eq!((silent.after.state, silent.after.attempt, silent.incident), (State::Waiting, 1, None), "it was at it");
    assert_eq!(happen(&sent, completed(1), at(24)).unwrap().after.state, State::Done, "a short job needs no beat");
}

/// SV-2: a worker that beat until its time was over did not fall silent.
#[test]
fn an_attempt_that_took_as_long_as_it_may_is_told_from_one_whose_worker_fell_silent() {
    let run = running(Workload::Process);
    let after = |limit: u64| {
        let limit = Some(Duration::from_secs(limit));
        let expired = Event::LeaseExpired { policy: RetryPolicy::process(), limit };
        apply(&run, expired, at(130)).unwrap()
    };
    let used = after(120);
    assert_eq!(used.after.error_message.as_deref(), Some("timed out after 120 s"));
    assert_eq!((used.after.state, used.after.retry_count), (State::Waiting, 1));
    let silent = after(121);
    assert_eq!(silent.after.error_message.as_deref(), Some("lease expired"), "its lease ended before its time");
    let last = Run { max_attempts: Some(1), ..run.clone() };
    let ended = |limit: Option<Duration>| {
        let expired = Event::LeaseExpired { policy: RetryPolicy::process(), limit };
        apply(&last, expired, at(130)).unwrap().after.ended_by
    };
    assert_eq!(ended(Some(Duration::from_secs(120))), Some(EndedBy::Failed));
    assert_eq!(ended(None), Some(EndedBy::Abandoned));
}
