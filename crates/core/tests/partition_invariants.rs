//! What holds for a partition whatever happens to it: random walks of control and data events, with right and wrong
//! fences, changing policies and a clock that jumps, from a new partition or from any sound one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod specimen;
mod walks;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use redrive_core::failure::TERMINAL_MARK;
use redrive_core::invariants::{self, AttemptFacts};
use redrive_core::lane::Lane;
use redrive_core::partition::{
    Control, ControlEvent, ControlSnapshot, DataEvent, Event, InFlight, Judgement, Mark, Partition, Status, Terminal,
    Wanted, apply, terminal,
};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::{Grant, RetryPolicy, StopReason};
use redrive_core::run::{State, Verdict};
use specimen::{at, key};
use walks::{Checked, Seen, starts, steps, walk};

/// Four times the usual number of cases.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.saturating_mul(4),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..usual
    }
}

fn assert_sound(Partition { state, control }: &Partition) -> Checked {
    let message = state.error_message.as_deref().unwrap_or_default();
    prop_assert_eq!(control.terminal.is_some(), message.starts_with(TERMINAL_MARK), "mark and prefix go together");
    prop_assert_eq!(state.current_run_id.is_some(), state.record_count.is_some());
    prop_assert!(control.active.is_none() || control.wanted.is_some(), "an attempt under way is wanted");
    let answered = state.status == Status::Success && control.reprocess.is_none();
    prop_assert!(!answered || control.granted == 0, "what was granted ends with a success");
    match state.status {
        Status::Pending => {
            prop_assert!(control.wanted.is_some(), "a pending partition has a place in the queue");
            prop_assert!(control.reprocess.is_none() && control.terminal.is_none() && control.not_before.is_none());
        }
        Status::Failed => {
            prop_assert!(control.wanted.is_none() && control.active.is_none() && control.reprocess.is_none());
            prop_assert!(state.error_class.is_some());
        }
        Status::Success => {
            prop_assert!(state.current_run_id.is_some(), "a success has its run");
            prop_assert!(state.error_class.is_none() && state.error_message.is_none());
            prop_assert!(
                control.wanted.is_none() || control.reprocess.is_some(),
                "a success is queued only on request"
            );
            prop_assert!(control.terminal.is_none());
            prop_assert!(
                control.not_before.is_none() || control.reprocess_rejected(),
                "a hint is for what comes again"
            );
            if control.reprocess_rejected() {
                prop_assert!(control.reprocess.is_some_and(|request| request.rejected > 0));
            }
        }
    }
    Ok(())
}

/// A bare mark and a marked empty message read the same, so an empty message does not outlive its mark.
fn text(partition: &Partition) -> Option<&str> {
    partition.state.error_message.as_deref().filter(|text| !text.is_empty())
}

fn too_old(seen: &Seen<'_>) -> bool {
    seen.policy.max_age.is_some_and(|limit| seen.now.since(seen.before.state.created_at) >= limit)
}

/// How many attempts there are still to be had.
fn left(partition: &Partition, policy: &RetryPolicy) -> Option<u32> {
    let limit = policy.attempt_limit()?;
    Some((limit + partition.control.granted).saturating_sub(partition.tried()))
}

fn versionless(standing: ControlSnapshot) -> ControlSnapshot {
    ControlSnapshot { version: 0, ..standing }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_event_leaves_a_sound_partition(start in starts(), steps in steps()) {
        assert_sound(&start)?;
        walk(start, &steps, |seen| seen.after().map_or(Ok(()), assert_sound))?;
    }

    #[test]
    fn only_a_verdict_raises_attempt_count_and_by_exactly_one(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            let verdicts = u32::from(seen.judgement().is_some());
            prop_assert_eq!(after.state.attempt_count, seen.before.state.attempt_count + verdicts);
            Ok(())
        })?;
    }

    #[test]
    fn only_an_accepted_run_becomes_the_current_one(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            let outcome = match seen.judgement() {
                Some((attempt, Judgement::Accepted { records })) => (Some(attempt.run_id), Some(*records)),
                Some((_, Judgement::Rejected { .. })) | None => {
                    (seen.before.state.current_run_id, seen.before.state.record_count)
                }
            };
            prop_assert_eq!((after.state.current_run_id, after.state.record_count), outcome);
            Ok(())
        })?;
    }

    #[test]
    fn no_control_event_touches_outcomes_or_the_attempt_under_way(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let (Some(_), Some(after)) = (seen.control(), seen.after()) else { return Ok(()) };
            let kept = |partition: &Partition| {
                let state = partition.state.clone();
                let run = (state.current_run_id, state.record_count, state.attempt_count);
                (state.key, state.created_at, run, state.error_class, partition.control.active)
            };
            prop_assert_eq!(kept(after), kept(seen.before));
            Ok(())
        })?;
    }

    #[test]
    fn no_event_changes_what_a_partition_is(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            prop_assert_eq!(&after.state.key, &seen.before.state.key);
            prop_assert_eq!(after.state.created_at, seen.before.state.created_at);
            Ok(())
        })?;
    }

    #[test]
    fn only_the_control_plane_leads_from_failed_to_pending(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            if (seen.before.state.status, after.state.status) == (Status::Failed, Status::Pending) {
                prop_assert!(seen.control().is_some());
            }
            Ok(())
        })?;
    }

    #[test]
    fn only_a_verdict_makes_a_success_or_a_failure(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            let (before, after) = (seen.before.state.status, after.state.status);
            if before != after && after != Status::Pending {
                prop_assert!(seen.judgement().is_some() || seen.is_undo());
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_success_is_left_only_by_force_pending_or_undo(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            if seen.before.state.status == Status::Success && after.state.status != Status::Success {
                prop_assert_eq!(after.state.status, Status::Pending);
                let forced = matches!(seen.control(), Some(ControlEvent::Backfill { force_pending: true, .. }));
                prop_assert!(forced || seen.is_undo());
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_rejection_of_a_success_changes_only_the_count_of_attempts(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let (Some(after), Some((_, Judgement::Rejected { .. }))) = (seen.after(), seen.judgement()) else {
                return Ok(());
            };
            if seen.before.state.status == Status::Success {
                let mut expected = seen.before.state.clone();
                expected.attempt_count += 1;
                expected.version += 1;
                expected.updated_at = seen.now;
                prop_assert_eq!(&after.state, &expected);
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_is_claimed_while_in_flight_or_paused_or_unwanted(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Event::Data(DataEvent::Claimed(attempt)) = seen.event else { return Ok(()) };
            let control = &seen.before.control;
            let open = control.active.is_none() && control.paused.is_none() && control.wanted.is_some();
            prop_assert_eq!(seen.outcome.is_ok(), open && seen.before.state.status != Status::Failed);
            if let Some(after) = seen.after() {
                prop_assert_eq!(after.control.active, Some(attempt));
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_report_counts_only_with_the_fence_of_the_attempt_under_way(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let attempt = match &seen.event {
                Event::Data(
                    DataEvent::Released(attempt)
                    | DataEvent::Judged(attempt, _)
                    | DataEvent::RateLimited { attempt, .. },
                ) => *attempt,
                Event::Data(DataEvent::Claimed(_)) | Event::Control(_) => return Ok(()),
            };
            match (seen.before.control.active == Some(attempt), &seen.outcome) {
                (true, Ok(change)) => prop_assert_eq!(change.after.control.active, None),
                (false, Err(Refused::Rule(Reason::StaleFence))) => {}
                (_, outcome) => prop_assert!(false, "{outcome:?}"),
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_change_raises_the_version_by_one_and_expects_the_one_it_saw(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            prop_assert_eq!(&apply(seen.before, seen.event.clone(), seen.now), &seen.outcome, "apply is a function");
            if let Ok(change) = &seen.outcome {
                prop_assert_eq!(change.expect_version, seen.before.state.version);
                prop_assert_eq!(change.after.state.version, seen.before.state.version + 1);
            }
            Ok(())
        })?;
    }

    #[test]
    fn asking_twice_changes_no_more_than_asking_once(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let (Some(event), Some(after)) = (seen.control(), seen.after()) else { return Ok(()) };
            if matches!(event, ControlEvent::Retry { stale: true, .. } | ControlEvent::Revert { .. }) {
                return Ok(());
            }
            prop_assert_ne!(versionless(after.snapshot()), versionless(seen.before.snapshot()));
            let again = apply(after, seen.event.clone(), seen.now);
            let unchanged = matches!(again, Err(Refused::NoOp(_)));
            prop_assert!(unchanged, "asked twice: {again:?}");
            Ok(())
        })?;
    }

    #[test]
    fn a_withdrawal_leaves_the_success_and_nothing_beside_it_but_a_pause(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(ControlEvent::Withdraw) = seen.control() else { return Ok(()) };
            let asked = seen.before.control.reprocess.is_some() && seen.before.state.status == Status::Success;
            prop_assert_eq!(seen.outcome.is_ok(), asked && seen.before.control.active.is_none());
            if let Some(after) = seen.after() {
                let mut expected = seen.before.state.clone();
                expected.version += 1;
                prop_assert_eq!(&after.state, &expected);
                let paused = seen.before.control.paused.clone();
                prop_assert_eq!(&after.control, &Control { paused, ..Control::default() });
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_retry_is_granted_exactly_when_the_rules_allow_it(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(ControlEvent::Retry { clear_terminal, stale, grant, .. }) = seen.control() else {
                return Ok(());
            };
            let Partition { state, control } = seen.before;
            let allowed = match state.status {
                Status::Success => control.reprocess_rejected(),
                Status::Pending => *stale,
                Status::Failed => match terminal(seen.before, seen.policy, seen.now) {
                    None => true,
                    Some(Terminal::Marked(_)) => *clear_terminal,
                    Some(Terminal::ByPolicy(_)) => *clear_terminal || (grant.is_some() && !too_old(seen)),
                },
            };
            let free = control.active.is_none() && control.paused.is_none();
            prop_assert_eq!(seen.outcome.is_ok(), allowed && free);
            if let Some(after) = seen.after() {
                let expected = match state.status {
                    Status::Success => (Status::Success, state.updated_at),
                    Status::Pending | Status::Failed => (Status::Pending, seen.now),
                };
                prop_assert_eq!((after.state.status, after.state.updated_at), expected);
                prop_assert_eq!(after.control.wanted, Some(Wanted { lane: Lane::Retry, queued_at: seen.now }));
                prop_assert_eq!(after.control.reprocess, control.reprocess, "automation keeps count");
                prop_assert_eq!(&after.control.terminal, &None);
            } else if state.status == Status::Pending && !stale {
                prop_assert_eq!(&seen.outcome, &Err(Refused::NoOp(Reason::AlreadyPending)));
            }
            Ok(())
        })?;
    }

    /// OP-9
    #[test]
    fn a_retry_gives_exactly_what_it_grants_and_nothing_else_gives(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            let (had, has) = (seen.before.control.granted, after.control.granted);
            let Some(ControlEvent::Retry { policy, clear_terminal, grant, .. }) = seen.control() else {
                // A verdict, a new request or an undo may end a grant; an undo alone puts one back.
                prop_assert!(has == had || has == 0 || seen.is_undo(), "{had} became {has}");
                return Ok(());
            };
            let Some(limit) = policy.attempt_limit() else {
                prop_assert_eq!(had, has, "without a limit there is nothing to grant");
                return Ok(());
            };
            let used_up = seen.before.state.status == Status::Failed && left(seen.before, policy) == Some(0);
            let given = match grant {
                Some(Grant::Attempts(number)) => number.get(),
                Some(Grant::Full) => limit,
                None => u32::from(*clear_terminal && used_up),
            };
            prop_assert_eq!(left(after, policy), left(seen.before, policy).map(|left| left + given));
            Ok(())
        })?;
    }

    #[test]
    fn a_terminal_partition_is_moved_only_by_clear_terminal_a_grant_or_undo(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            let stopped = terminal(seen.before, seen.policy, seen.now);
            if stopped.is_some() && after.state.status != Status::Failed {
                let (cleared, granted) = match seen.control() {
                    Some(ControlEvent::Retry { clear_terminal, grant, .. }) => (*clear_terminal, grant.is_some()),
                    _ => (false, false),
                };
                let used_up = stopped == Some(Terminal::ByPolicy(StopReason::AttemptsExhausted)) && !too_old(seen);
                prop_assert!(cleared || seen.is_undo() || (granted && used_up));
            }
            Ok(())
        })?;
    }

    #[test]
    fn pausing_and_resuming_change_nothing_but_the_pause(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let paused = match seen.control() {
                Some(ControlEvent::Pause { .. }) => Some(Mark { by: "ada".to_owned(), at: seen.now, why: None }),
                Some(ControlEvent::Resume) => None,
                _ => return Ok(()),
            };
            prop_assert_eq!(seen.outcome.is_ok(), paused.is_some() != seen.before.control.paused.is_some());
            if let Some(after) = seen.after() {
                let mut expected = seen.before.clone();
                expected.control.paused = paused;
                expected.state.version += 1;
                prop_assert_eq!(after, &expected);
            }
            Ok(())
        })?;
    }

    #[test]
    fn an_undo_at_once_gives_the_earlier_standing_back(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let (Some(_), Some(after)) = (seen.control(), seen.after()) else { return Ok(()) };
            // The audit keeps standings as JSON; what comes back from there must do.
            let kept = serde_json::to_string(&seen.before.snapshot()).unwrap();
            let to: ControlSnapshot = serde_json::from_str(&kept).unwrap();
            prop_assert_eq!(&to, &seen.before.snapshot());
            let undo = |from_version| Event::Control(ControlEvent::Revert { to: &to, from_version });
            let undone = apply(after, undo(after.state.version), seen.now).unwrap().after;
            prop_assert_eq!(versionless(undone.snapshot()), versionless(to.clone()));
            prop_assert_eq!(text(&undone), text(seen.before));
            prop_assert_eq!(undone.state.version, after.state.version + 1);
            for wrong in [after.state.version - 1, after.state.version + 1] {
                let why = if after.control.active.is_some() { Reason::InFlight } else { Reason::ChangedSincePlan };
                prop_assert_eq!(apply(after, undo(wrong), seen.now), Err(Refused::Rule(why)));
            }
            Ok(())
        })?;
    }
}

/// What the table of runs would hold after a walk: an attempt for each claim, ended as it was reported.
#[derive(Default)]
struct Ledger(Vec<AttemptFacts>);

impl Ledger {
    fn note(&mut self, seen: &Seen<'_>) {
        let (Some(_), Event::Data(event)) = (seen.after(), &seen.event) else { return };
        let (ended, state, verdict) = match event {
            DataEvent::Claimed(InFlight { run_id, task_id }) => {
                return self.0.push(AttemptFacts {
                    run_id: *run_id,
                    task_id: Some(*task_id),
                    number: seen.before.state.attempt_count + 1,
                    state: State::Running,
                    verdict: None,
                    lease_until: Some(seen.now),
                    failures: 0,
                    manifest: None,
                });
            }
            DataEvent::Released(attempt) | DataEvent::RateLimited { attempt, .. } => (attempt, State::Dead, None),
            DataEvent::Judged(attempt, Judgement::Accepted { .. }) => (attempt, State::Done, Some(Verdict::Passed)),
            DataEvent::Judged(attempt, Judgement::Rejected { .. }) => (attempt, State::Dead, Some(Verdict::Failed)),
        };
        let attempt = self.0.iter_mut().find(|attempt| attempt.run_id == ended.run_id).unwrap();
        (attempt.state, attempt.verdict, attempt.lease_until) = (state, verdict, None);
        attempt.failures = u64::from(verdict == Some(Verdict::Failed));
    }
}

/// A new partition, or one that an undone backfill has left.
fn beginnings() -> impl Strategy<Value = Partition> {
    (prop::sample::select(Lane::ALL), any::<bool>()).prop_map(|(lane, withdrawn)| {
        let mut partition = Partition::new(key(), lane, at(0));
        if withdrawn {
            let to = ControlSnapshot { wanted: None, ..partition.snapshot() };
            let undo = Event::Control(ControlEvent::Revert { to: &to, from_version: 1 });
            partition = apply(&partition, undo, at(1)).unwrap().after;
        }
        partition
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_walk_by_the_rules_leaves_anything_to_the_doctor(start in beginnings(), steps in steps()) {
        let mut ledger = Ledger::default();
        prop_assert_eq!(invariants::check(&start, &ledger.0), vec![]);
        walk(start, &steps, |seen| {
            ledger.note(seen);
            let breaches = seen.after().map_or(vec![], |after| invariants::check(after, &ledger.0));
            prop_assert_eq!(breaches, vec![]);
            Ok(())
        })?;
    }
}

/// Properties over walks that never get anywhere would hold for nothing.
#[test]
fn the_random_walks_reach_every_kind_of_change() {
    let mut runner = TestRunner::deterministic();
    let mut reached: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..500 {
        let start = starts().new_tree(&mut runner).unwrap().current();
        let steps = steps().new_tree(&mut runner).unwrap().current();
        walk(start, &steps, |seen| {
            let what = match &seen.event {
                Event::Control(ControlEvent::Retry { clear_terminal, stale, .. }) => {
                    format!("retry {clear_terminal} {stale}")
                }
                Event::Control(ControlEvent::Reprocess) => "reprocess".to_owned(),
                Event::Control(ControlEvent::Withdraw) => "withdraw".to_owned(),
                Event::Control(ControlEvent::Backfill { .. }) => "backfill".to_owned(),
                Event::Control(ControlEvent::MarkTerminal { .. }) => "mark terminal".to_owned(),
                Event::Control(ControlEvent::ClearTerminal) => "clear terminal".to_owned(),
                Event::Control(ControlEvent::Pause { .. }) => "pause".to_owned(),
                Event::Control(ControlEvent::Resume) => "resume".to_owned(),
                Event::Control(ControlEvent::Revert { .. }) => "undo".to_owned(),
                Event::Data(DataEvent::Claimed(_)) => "claim".to_owned(),
                Event::Data(DataEvent::Released(_)) => "release".to_owned(),
                Event::Data(DataEvent::RateLimited { .. }) => "rate limit".to_owned(),
                Event::Data(DataEvent::Judged(_, Judgement::Accepted { .. })) => "accept".to_owned(),
                Event::Data(DataEvent::Judged(_, Judgement::Rejected { .. })) => "reject".to_owned(),
            };
            let from = seen.before.state.status;
            let end = seen.outcome.as_ref().map_or_else(|refused| refused.reason().as_str(), |_| "done");
            *reached.entry(format!("{from}: {what}: {end}")).or_default() += 1;
            Ok(())
        })
        .unwrap();
    }
    for wanted in [
        "failed: retry false false: done",
        "failed: retry false false: terminal",
        "failed: retry true false: done",
        "failed: retry false false: paused",
        "pending: retry false false: already_pending",
        "pending: retry false true: done",
        "pending: retry false true: in_flight",
        "success: retry false false: done",
        "success: reprocess: done",
        "success: reprocess: already_pending",
        "success: withdraw: done",
        "success: withdraw: not_queued",
        "success: withdraw: in_flight",
        "success: backfill: done",
        "failed: backfill: done",
        "failed: mark terminal: done",
        "failed: mark terminal: below_threshold",
        "failed: clear terminal: done",
        "pending: pause: done",
        "pending: resume: done",
        "pending: undo: done",
        "pending: undo: changed_since_plan",
        "failed: undo: done",
        "pending: claim: done",
        "pending: claim: in_flight",
        "pending: claim: paused",
        "success: claim: done",
        "success: claim: not_queued",
        "pending: release: done",
        "pending: release: stale_fence",
        "pending: accept: done",
        "pending: accept: stale_fence",
        "success: accept: done",
        "pending: reject: done",
        "success: reject: done",
        "success: reject: stale_fence",
    ] {
        assert!(reached.get(wanted).is_some_and(|&times| times >= 5), "{wanted} is too rare in {reached:#?}");
    }
}
