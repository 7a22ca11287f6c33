//! What holds for a run whatever happens to it: random lives of every workload, with right and wrong fences, any policy
//! and a clock that jumps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod lives;
mod specimen;

use std::collections::BTreeMap;
use std::time::Duration;

use lives::{Checked, Seen, live, policies, starts, steps};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use redrive_core::failure::ErrorClass;
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::{HintRule, StopReason};
use redrive_core::run::{
    Change, End, EndedBy, Event, Fault, Incident, Run, RunSnapshot, State, Verdict, Workload, apply,
};

/// Four times the usual number of cases.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.saturating_mul(4),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..usual
    }
}

fn assert_sound(run: &Run) -> Checked {
    match run.state {
        State::Running => prop_assert!(run.lease_until.is_some()),
        State::Storing | State::Queued | State::Done => prop_assert!(run.lease_until.is_none()),
        // The lease of a claim that was cancelled may last on.
        State::Waiting | State::Dead => {}
    }
    prop_assert!(!run.awaits_ack || run.state == State::Running, "only what runs can wait for its worker's word");
    prop_assert_eq!(run.completed_at.is_some(), matches!(run.state, State::Done | State::Dead));
    prop_assert_eq!(run.ended_by.is_some(), run.completed_at.is_some(), "an end has a reason");
    prop_assert_eq!(run.ended_by == Some(EndedBy::Completed), run.state == State::Done);
    match run.state {
        State::Storing => prop_assert!(run.workload() == Workload::Ingest && run.attempt == 0),
        State::Queued => {}
        State::Running => {
            prop_assert!(run.task_id.is_some() && run.worker.is_some() && run.started_at.is_some());
            prop_assert!(run.next_retry_at.is_none() && run.attempt > 0);
        }
        State::Waiting => {
            prop_assert!(run.due_at().is_some(), "anyone can see what it waits for");
            let has_time = run.next_retry_at.or(run.lease_until).is_some();
            prop_assert!(has_time || run.attempt == 0, "a retry has its own time");
            prop_assert_ne!(run.workload(), Workload::Extract);
        }
        State::Done => {
            prop_assert!(run.verdict.is_some() && run.next_retry_at.is_none());
        }
        State::Dead => prop_assert!(run.next_retry_at.is_none(), "the dead wait for nothing"),
    }
    Ok(())
}

/// Whether the wait after a failure costs the run nothing.
fn is_free(seen: &Seen<'_>, fault: &Fault) -> bool {
    let hint = fault.hint(seen.policy);
    let budget = seen.policy.rate_limit_budget.unwrap_or(Duration::MAX);
    seen.policy.hint == HintRule::ExactAndFree
        && hint.is_some_and(|hint| seen.before.rate_limit_waited + hint <= budget)
}

/// Where a run goes that is put back into the queue.
fn free_state(seen: &Seen<'_>) -> State {
    if seen.before.lease_until.is_some_and(|until| until > seen.now) { State::Waiting } else { State::Queued }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn free_waits_add_up_to_no_more_than_the_budget(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, .. }) = seen.change() else { return Ok(()) };
            prop_assert!(after.rate_limit_waited <= policy.rate_limit_budget.unwrap_or(Duration::MAX));
            let expected = match (&seen.event, seen.fault()) {
                (Event::Ended { end: End::Completed { .. }, .. } | Event::RetryRequested, _) => Duration::ZERO,
                (Event::Reverted { to, .. }, _) => Duration::from_micros(u64::try_from(to.rate_limit_waited).unwrap()),
                (_, Some(fault)) if after.state == State::Waiting && is_free(seen, &fault) => {
                    seen.before.rate_limit_waited + fault.hint(seen.policy).unwrap()
                }
                (_, _) => seen.before.rate_limit_waited,
            };
            prop_assert_eq!(after.rate_limit_waited, expected);
            Ok(())
        })?;
    }

    #[test]
    fn every_change_but_a_heartbeat_a_delivery_and_coming_due_gives_a_new_version(
        start in starts(), policy in policies(), steps in steps()
    ) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, expect_version, .. }) = seen.change() else { return Ok(()) };
            prop_assert_eq!(*expect_version, seen.before.version);
            let quiet = matches!(seen.event, Event::Delivered { .. } | Event::Beat { .. } | Event::Due);
            prop_assert_eq!(after.version, seen.before.version + u64::from(!quiet));
            Ok(())
        })?;
    }

    #[test]
    fn only_the_newest_operation_is_undone_and_only_while_nothing_has_happened_since(
        start in starts(), policy in policies(), steps in steps()
    ) {
        live(start, &policy, &steps, |seen| {
            if let Event::Reverted { to, from_version } = &seen.event {
                let is_open = !matches!(seen.before.state, State::Running | State::Done);
                prop_assert_eq!(seen.outcome.is_ok(), is_open && *from_version == seen.before.version);
                if let Some(Change { after, .. }) = seen.change() {
                    let state = match to.state {
                        State::Running | State::Queued => free_state(seen),
                        State::Waiting
                            if to.next_retry_at.is_none() && after.not_before.is_none_or(|at| at <= seen.now) =>
                        {
                            free_state(seen)
                        }
                        State::Storing | State::Waiting | State::Done | State::Dead => to.state,
                    };
                    prop_assert_eq!(after.snapshot(), RunSnapshot { state, version: after.version, ..to.clone() });
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_run_is_queued_only_when_no_lease_of_a_cancelled_claim_lasts(
        start in starts(), policy in policies(), steps in steps()
    ) {
        let mut leased = None;
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, .. }) = seen.change() else { return Ok(()) };
            match (&seen.event, seen.before.state) {
                (Event::Cancelled { .. }, State::Running) => leased = seen.before.held_until(seen.now),
                (Event::Cancelled { .. } | Event::RetryRequested | Event::Reverted { .. } | Event::Due, _) => {
                    // The clock may go back afterwards.
                    leased = leased.filter(|until| *until > seen.now);
                    prop_assert!(after.state != State::Queued || leased.is_none(), "two workers would be at it");
                }
                (_, _) => {}
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_event_leaves_a_sound_run(start in starts(), policy in policies(), steps in steps()) {
        assert_sound(&start)?;
        live(start, &policy, &steps, |seen| seen.change().map_or(Ok(()), |change| assert_sound(&change.after)))?;
    }

    #[test]
    fn no_event_changes_what_a_run_is(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, .. }) = seen.change() else { return Ok(()) };
            let what = |run: &Run| (run.run_id, run.work.clone(), run.submitted_at);
            prop_assert_eq!(what(after), what(seen.before));
            Ok(())
        })?;
    }

    #[test]
    fn a_change_expects_the_state_and_the_fence_it_saw(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            prop_assert_eq!(&apply(seen.before, seen.event.clone(), seen.now), &seen.outcome);
            if let Some(change) = seen.change() {
                prop_assert_eq!((change.expect_state, change.expect_task), (seen.before.state, seen.before.task_id));
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_stale_fence_or_an_expired_lease_changes_nothing(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            let Some(fence) = seen.fence() else { return Ok(()) };
            let current = seen.before.state == State::Running && seen.before.task_id == Some(fence);
            let leased = seen.before.lease_until.is_some_and(|until| until > seen.now);
            match (current, leased) {
                // An extraction is given to no outside worker.
                (true, true) if matches!(seen.event, Event::Delivered { .. }) => {
                    prop_assert_eq!(seen.outcome.is_ok(), seen.before.workload() != Workload::Extract);
                }
                (true, true) => prop_assert!(seen.outcome.is_ok()),
                (true, false) => prop_assert_eq!(&seen.outcome, &Err(Refused::Rule(Reason::LeaseExpired))),
                (false, _) => prop_assert_eq!(&seen.outcome, &Err(Refused::Rule(Reason::StaleFence))),
            }
            Ok(())
        })?;
    }

    #[test]
    fn at_every_moment_a_claim_belongs_either_to_its_worker_or_to_the_lease_keeper(
        start in starts(), policy in policies(), steps in steps()
    ) {
        live(start, &policy, &steps, |seen| {
            if seen.before.state != State::Running {
                return Ok(());
            }
            let task_id = seen.before.task_id.unwrap();
            let released = Event::Ended { task_id, end: End::Released { why: None } };
            let workers = apply(seen.before, released, seen.now).is_ok();
            let policy = seen.policy.clone();
            let keepers = apply(seen.before, Event::LeaseExpired { policy, limit: None }, seen.now).is_ok();
            prop_assert_ne!(workers, keepers);
            Ok(())
        })?;
    }

    #[test]
    fn a_claim_is_one_more_attempt_and_only_a_release_gives_it_back(
        start in starts(), policy in policies(), steps in steps()
    ) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, .. }) = seen.change() else { return Ok(()) };
            let before = seen.before.attempt;
            let expected = match (&seen.event, seen.before.workload()) {
                (Event::Claimed { .. }, _) => before + 1,
                (Event::Ended { end: End::Released { .. }, .. }, Workload::Ingest | Workload::Process) => before - 1,
                (Event::LeaseExpired { .. }, _) if seen.before.awaits_ack => before - 1,
                (_, _) => before,
            };
            prop_assert_eq!(after.attempt, expected);
            Ok(())
        })?;
    }

    #[test]
    fn retry_count_rises_with_counted_retries_and_falls_only_with_success_or_a_person(
        start in starts(), policy in policies(), steps in steps()
    ) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, .. }) = seen.change() else { return Ok(()) };
            let before = seen.before.retry_count;
            let expected = match (&seen.event, seen.fault()) {
                (Event::Ended { end: End::Completed { .. }, .. } | Event::RetryRequested, _) => 0,
                (Event::Reverted { to, .. }, _) => to.retry_count,
                (_, Some(fault)) if after.state == State::Waiting => before + u32::from(!is_free(seen, &fault)),
                (_, _) => before,
            };
            prop_assert_eq!(after.retry_count, expected);
            Ok(())
        })?;
    }

    #[test]
    fn a_failed_try_waits_or_dies_as_the_policy_says(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            let (Some(Change { after, failure, .. }), Some(fault)) = (seen.change(), seen.fault()) else {
                return Ok(());
            };
            let record = failure.as_ref().unwrap();
            let hint = fault.hint(seen.policy);
            let free = is_free(seen, &fault);
            let policy = seen.policy.of_run(seen.before.max_attempts);
            let tries = seen.before.retry_count + 1;
            let stop = if fault.class == ErrorClass::Final {
                Some(StopReason::FinalError)
            } else if seen.policy.max_age.is_some_and(|limit| seen.now.since(seen.before.submitted_at) >= limit) {
                Some(StopReason::TooOld)
            } else if !free && policy.attempt_limit().is_some_and(|limit| tries >= limit) {
                Some(StopReason::AttemptsExhausted)
            } else {
                None
            };
            if seen.before.workload() == Workload::Extract {
                prop_assert_eq!((after.state, record.delay, record.stop), (State::Dead, None, None));
                prop_assert_eq!(after.verdict, Some(Verdict::Failed));
            } else if stop.is_some() {
                prop_assert_eq!((after.state, record.delay, record.stop), (State::Dead, None, stop));
            } else {
                prop_assert_eq!((after.state, record.stop), (State::Waiting, None));
                let delay = record.delay.unwrap();
                prop_assert_eq!(after.next_retry_at, Some(seen.now.saturating_add(delay)));
                let backoff = seen.policy.delay(tries);
                match (free, hint) {
                    (true, Some(hint)) => prop_assert_eq!(delay, hint),
                    (_, hint) => {
                        prop_assert!(delay >= backoff.saturating_sub(seen.policy.jitter));
                        prop_assert!(delay <= (backoff + seen.policy.jitter).max(hint.unwrap_or_default()));
                        prop_assert!(delay >= hint.unwrap_or_default());
                    }
                }
            }
            prop_assert_eq!(after.error_class, Some(fault.class));
            Ok(())
        })?;
    }

    #[test]
    fn the_history_has_one_record_for_every_failed_try_and_no_other(
        start in starts(), policy in policies(), steps in steps()
    ) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, failure, .. }) = seen.change() else { return Ok(()) };
            prop_assert_eq!(failure.is_some(), seen.fault().is_some());
            if let Some(record) = failure {
                prop_assert_eq!((record.at, Some(record.class)), (seen.now, after.error_class));
                prop_assert_eq!(Some(&record.message), after.error_message.as_ref());
                prop_assert_eq!(&record.worker, &seen.before.worker);
            }
            Ok(())
        })?;
    }

    /// SV-2: only executions burn attempts, and what was lost on the way is told.
    #[test]
    fn a_claim_that_no_outside_worker_acknowledged_is_given_back_and_costs_nothing(
        start in starts(), policy in policies(), steps in steps()
    ) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, failure, incident, .. }) = seen.change() else { return Ok(()) };
            let is_lost = seen.before.awaits_ack && matches!(seen.event, Event::LeaseExpired { .. });
            prop_assert_eq!(*incident, is_lost.then_some(Incident::DeliveryLost));
            if is_lost {
                prop_assert_eq!((after.state, failure), (State::Queued, &None));
                prop_assert_eq!(after.attempt, seen.before.attempt - 1);
                prop_assert_eq!(after.retry_count, seen.before.retry_count);
                prop_assert_eq!(&after.error_message, &seen.before.error_message);
            }
            prop_assert_eq!(after.awaits_ack, matches!(seen.event, Event::Delivered { .. }));
            Ok(())
        })?;
    }

    #[test]
    fn done_is_for_ever(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            prop_assert!(seen.before.state != State::Done || seen.outcome.is_err());
            Ok(())
        })?;
    }

    #[test]
    fn dead_is_left_only_when_a_person_asks(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            if seen.before.state == State::Dead && seen.outcome.is_ok() {
                let is_asked = matches!(seen.event, Event::RetryRequested | Event::Reverted { .. });
                prop_assert!(is_asked, "{:?}", seen.event);
            }
            Ok(())
        })?;
    }

    #[test]
    fn an_extraction_never_waits_and_is_never_queued_again(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, .. }) = seen.change() else { return Ok(()) };
            if seen.before.workload() == Workload::Extract {
                prop_assert!(!matches!(after.state, State::Storing | State::Waiting | State::Queued));
                prop_assert_eq!(after.retry_count, seen.before.retry_count);
            }
            Ok(())
        })?;
    }

    #[test]
    fn only_a_queued_run_is_claimed(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            if let Event::Claimed { task_id, .. } = seen.event {
                prop_assert_eq!(seen.outcome.is_ok(), seen.before.state == State::Queued);
                if let Some(Change { after, .. }) = seen.change() {
                    prop_assert_eq!((after.task_id, after.next_retry_at), (Some(task_id), None));
                    prop_assert_eq!(after.retry_count, seen.before.retry_count);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn success_leaves_no_trace_of_a_retry(start in starts(), policy in policies(), steps in steps()) {
        live(start, &policy, &steps, |seen| {
            let Some(Change { after, .. }) = seen.change() else { return Ok(()) };
            if after.state == State::Done {
                prop_assert_eq!((after.retry_count, after.next_retry_at, after.error_class), (0, None, None));
                prop_assert_eq!((&after.error_message, &after.error_traceback), (&None, &None));
            }
            Ok(())
        })?;
    }
}

/// Properties over lives in which nothing happens would hold for nothing.
#[test]
fn the_random_lives_reach_every_kind_of_change() {
    let mut runner = TestRunner::deterministic();
    let mut reached: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..2_000 {
        let start = starts().new_tree(&mut runner).unwrap().current();
        let policy = policies().new_tree(&mut runner).unwrap().current();
        let steps = steps().new_tree(&mut runner).unwrap().current();
        live(start, &policy, &steps, |seen| {
            let what = match &seen.event {
                Event::Stored => "stored",
                Event::NotStored { .. } => "not stored",
                Event::Due => "due",
                Event::Claimed { .. } => "claimed",
                Event::Delivered { .. } => "delivered",
                Event::Beat { .. } => "beat",
                Event::Ended { end: End::Released { .. }, .. } => "released",
                Event::Ended { end: End::RateLimited { .. }, .. } => "rate-limited",
                Event::Ended { end: End::Completed { .. }, .. } => "completed",
                Event::Ended { end: End::Failed { fault, .. }, .. } => fault.class.as_str(),
                Event::LeaseExpired { .. } => "lease expired",
                Event::RetryRequested => "retry",
                Event::Cancelled { .. } => "cancelled",
                Event::Reverted { .. } => "undone",
            };
            let end = seen.change().map_or_else(
                || seen.outcome.as_ref().unwrap_err().reason().as_str(),
                |change| match change.failure.as_ref().and_then(|record| record.stop) {
                    Some(stop) => stop.as_str(),
                    None => change.after.state.as_str(),
                },
            );
            *reached.entry(format!("{what}: {end}")).or_default() += 1;
            Ok(())
        })
        .unwrap();
    }
    for wanted in [
        "stored: queued",
        "due: queued",
        "due: not_due",
        "claimed: running",
        "claimed: in_flight",
        "beat: running",
        "delivered: running",
        "delivered: stale_fence",
        "beat: lease_expired",
        "released: queued",
        "released: dead",
        "completed: done",
        "completed: stale_fence",
        "final: final_error",
        "retryable: waiting",
        "retryable: attempts_exhausted",
        "rate_limited: waiting",
        "retryable: too_old",
        "lease expired: too_old",
        "lease expired: queued",
        "lease expired: waiting",
        "lease expired: attempts_exhausted",
        "lease expired: dead",
        "retry: queued",
        "retry: waiting",
        "cancelled: dead",
        "undone: dead",
        "undone: queued",
        "undone: waiting",
        "undone: changed_since_plan",
        "undone: in_flight",
    ] {
        assert!(reached.get(wanted).is_some_and(|&times| times >= 3), "{wanted} is too rare in {reached:#?}");
    }
}
