//! What holds for a partition whatever happens to it: random walks of control and data events, with right and wrong
//! fences, changing policies and a clock that jumps, from a new partition or from any sound one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod specimen;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestCaseError, TestRunner};
use redrive_core::failure::{ErrorClass, TERMINAL_MARK};
use redrive_core::invariants::{self, Attempt};
use redrive_core::lane::Lane;
use redrive_core::partition::{
    Change, ControlEvent, DataEvent, Event, InFlight, Judgement, Mark, Partition, Reprocess, Standing, Status, Wanted,
    apply, terminal,
};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::{Backoff, HintRule, RetryPolicy};
use redrive_core::run::{State, Verdict};
use redrive_core::time::Timestamp;
use specimen::{HOUR, at, attempt, key, run_id, task_id};

const CASES: u32 = 1_000;
const LONGEST_WALK: usize = 40;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: CASES,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

/// Whose fence a report shows.
#[derive(Debug, Clone, Copy)]
enum Fence {
    Current,
    OtherTask,
    OtherRun,
    /// Of an attempt that has ended.
    Former,
}

#[derive(Debug, Clone)]
enum Ask {
    Retry {
        clear_terminal: bool,
        stale: bool,
    },
    Reprocess,
    Backfill {
        force_pending: bool,
    },
    MarkTerminal {
        threshold: u32,
        why: Option<String>,
    },
    ClearTerminal,
    Pause,
    Resume,
    /// Of the last change that the control plane made, with the version it led to or with a wrong one.
    Undo {
        right_version: bool,
    },
    Claim,
    Release(Fence),
    Accept(Fence, u64),
    Reject(Fence, ErrorClass, String, Option<i64>),
}

#[derive(Debug, Clone)]
struct Step {
    ask: Ask,
    /// Seconds by which the clock moves first, also backwards.
    moved: i64,
    policy: RetryPolicy,
}

fn fences() -> impl Strategy<Value = Fence> {
    prop_oneof![
        8 => Just(Fence::Current),
        1 => Just(Fence::OtherTask),
        1 => Just(Fence::OtherRun),
        1 => Just(Fence::Former),
    ]
}

fn classes() -> impl Strategy<Value = ErrorClass> {
    prop::sample::select(ErrorClass::ALL)
}

fn messages() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["boom", "", "[terminal]", "[terminal] gone", " [terminal]", "a\0b", "é…", " "])
        .prop_map(str::to_owned)
}

fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        6 => (any::<bool>(), any::<bool>()).prop_map(|(clear_terminal, stale)| Ask::Retry { clear_terminal, stale }),
        2 => Just(Ask::Reprocess),
        2 => any::<bool>().prop_map(|force_pending| Ask::Backfill { force_pending }),
        3 => (0u32..4, option::of(messages())).prop_map(|(threshold, why)| Ask::MarkTerminal { threshold, why }),
        2 => Just(Ask::ClearTerminal),
        1 => Just(Ask::Pause),
        3 => Just(Ask::Resume),
        2 => any::<bool>().prop_map(|right_version| Ask::Undo { right_version }),
        9 => Just(Ask::Claim),
        2 => fences().prop_map(Ask::Release),
        4 => (fences(), 0u64..5_000).prop_map(|(fence, records)| Ask::Accept(fence, records)),
        6 => (fences(), classes(), messages(), option::of(0i64..100_000))
            .prop_map(|(fence, class, message, hint)| Ask::Reject(fence, class, message, hint)),
    ]
}

fn policies() -> impl Strategy<Value = RetryPolicy> {
    let backoff = prop_oneof![
        Just(Backoff::Exponential { base: Duration::from_secs(300), multiplier: 2.0, cap: 6 * HOUR }),
        (0usize..4).prop_map(|delays| Backoff::Fixed(vec![HOUR; delays])),
    ];
    (backoff, option::of(0u32..8), option::of(0u32..2_000)).prop_map(|(backoff, max_attempts, max_age)| RetryPolicy {
        backoff,
        jitter: Duration::from_secs(30),
        max_attempts,
        max_age: max_age.map(|hours| hours * HOUR),
        hint: HintRule::AtLeast,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![
        16 => 0i64..7_200,
        2 => -86_400i64..0,
        1 => 0i64..5_000_000,
        1 => -5_000_000i64..5_000_000,
    ];
    let step = (asks(), moved, policies()).prop_map(|(ask, moved, policy)| Step { ask, moved, policy });
    vec(step, 0..=LONGEST_WALK)
}

fn marks() -> impl Strategy<Value = Option<Mark>> {
    option::weighted(0.2, (0i64..1_000).prop_map(|when| Mark { by: "ada".to_owned(), at: at(when), why: None }))
}

/// Any partition that is sound, reachable or not.
fn sound() -> impl Strategy<Value = Partition> {
    let outcome = (any::<bool>(), 0u64..9_999, 0u32..12, prop::sample::select(Status::ALL));
    let error = (classes(), option::weighted(0.9, messages().prop_map(|text| text.replace(TERMINAL_MARK, "x"))));
    let queue = (prop::sample::select(Lane::ALL), any::<bool>(), any::<bool>(), option::of(0i64..9_000));
    (outcome, error, queue, (marks(), marks()), 1u64..1_000).prop_map(
        |((has_run, records, attempts, status), (class, message), (lane, wanted, active, hint), marks, version)| {
            let mut partition = Partition::new(key(), lane, at(0));
            let (state, control) = (&mut partition.state, &mut partition.control);
            state.status = status;
            state.version = version;
            state.attempt_count = attempts;
            if has_run || status == Status::Success {
                (state.current_run_id, state.record_count) = (Some(run_id(90)), Some(records));
            }
            control.paused = marks.0;
            match status {
                Status::Pending => {
                    (state.error_class, state.error_message) = (Some(class), message);
                    control.active = active.then(|| attempt(80));
                }
                Status::Failed => {
                    control.wanted = None;
                    control.not_before = hint.map(at);
                    (state.error_class, state.error_message) = (Some(class), message);
                    control.terminal = marks.1;
                    if control.terminal.is_some() {
                        let text = state.error_message.take().filter(|text| !text.is_empty());
                        state.error_message =
                            Some(text.map_or(TERMINAL_MARK.to_owned(), |text| format!("{TERMINAL_MARK} {text}")));
                    }
                }
                Status::Success => {
                    control.wanted = wanted.then_some(Wanted { lane, queued_at: at(5) });
                    control.reprocess = match (wanted, hint) {
                        (true, _) => Some(Reprocess::default()),
                        (false, Some(_)) => Some(Reprocess { rejected: 1 }),
                        (false, None) => None,
                    };
                    control.not_before = hint.filter(|_| !wanted).map(at);
                    control.active = (wanted && active).then(|| attempt(80));
                }
            }
            partition
        },
    )
}

fn starts() -> impl Strategy<Value = Partition> {
    prop_oneof![prop::sample::select(Lane::ALL).prop_map(|lane| Partition::new(key(), lane, at(0))), sound()]
}

/// One step of a walk, as the checks see it.
struct Seen<'a> {
    before: &'a Partition,
    event: Event<'a>,
    policy: &'a RetryPolicy,
    now: Timestamp,
    outcome: Result<Change, Refused>,
}

impl Seen<'_> {
    fn after(&self) -> Option<&Partition> {
        self.outcome.as_ref().ok().map(|change| &change.after)
    }

    fn control(&self) -> Option<&ControlEvent<'_>> {
        match &self.event {
            Event::Control(event) => Some(event),
            Event::Data(_) => None,
        }
    }

    fn judgement(&self) -> Option<(InFlight, &Judgement)> {
        match &self.event {
            Event::Data(DataEvent::Judged(attempt, judgement)) => Some((*attempt, judgement)),
            Event::Data(DataEvent::Claimed(_) | DataEvent::Released(_)) | Event::Control(_) => None,
        }
    }

    fn is_undo(&self) -> bool {
        matches!(self.event, Event::Control(ControlEvent::Revert { .. }))
    }
}

type Checked = Result<(), TestCaseError>;

fn walk(start: Partition, steps: &[Step], mut check: impl FnMut(&Seen<'_>) -> Checked) -> Checked {
    let mut partition = start;
    let mut now = at(100);
    let mut former = attempt(70);
    let mut last_operation: Option<(Standing, u64)> = None;
    for (nth, Step { ask, moved, policy }) in steps.iter().enumerate() {
        now = Timestamp::from_micros(now.micros().saturating_add(moved * 1_000_000));
        let fresh = attempt(1_000 + u64::try_from(nth).unwrap());
        let current = partition.control.active.unwrap_or(fresh);
        let shown = |fence: Fence| match fence {
            Fence::Current => current,
            Fence::OtherTask => InFlight { task_id: task_id(3), ..current },
            Fence::OtherRun => InFlight { run_id: run_id(3), ..current },
            Fence::Former => former,
        };
        let standing = partition.standing();
        let (undo_to, undo_version) =
            last_operation.as_ref().map_or((&standing, partition.state.version + 1), |(to, version)| (to, *version));
        let event = match ask {
            Ask::Retry { clear_terminal, stale } => {
                Event::Control(ControlEvent::Retry { policy, clear_terminal: *clear_terminal, stale: *stale })
            }
            Ask::Reprocess => Event::Control(ControlEvent::Reprocess),
            Ask::Backfill { force_pending } => {
                Event::Control(ControlEvent::Backfill { policy, force_pending: *force_pending })
            }
            Ask::MarkTerminal { threshold, why } => {
                Event::Control(ControlEvent::MarkTerminal { by: "ada", why: why.as_deref(), threshold: *threshold })
            }
            Ask::ClearTerminal => Event::Control(ControlEvent::ClearTerminal),
            Ask::Pause => Event::Control(ControlEvent::Pause { by: "ada", why: None }),
            Ask::Resume => Event::Control(ControlEvent::Resume),
            Ask::Undo { right_version } => Event::Control(ControlEvent::Revert {
                to: undo_to,
                from_version: if *right_version { undo_version } else { undo_version.wrapping_sub(1) },
            }),
            Ask::Claim => Event::Data(DataEvent::Claimed(fresh)),
            Ask::Release(fence) => Event::Data(DataEvent::Released(shown(*fence))),
            Ask::Accept(fence, records) => {
                Event::Data(DataEvent::Judged(shown(*fence), Judgement::Accepted { records: *records }))
            }
            Ask::Reject(fence, class, message, hint) => {
                let not_before = hint.map(at);
                let rejected = Judgement::Rejected { class: *class, message: message.clone(), not_before };
                Event::Data(DataEvent::Judged(shown(*fence), rejected))
            }
        };
        let outcome = apply(&partition, event.clone(), now);
        let seen = Seen { before: &partition, event, policy, now, outcome };
        check(&seen)?;
        let by_control = seen.control().is_some();
        if let Ok(change) = seen.outcome {
            if by_control {
                last_operation = Some((partition.standing(), change.after.state.version));
            }
            if let (Some(ended), None) = (partition.control.active, change.after.control.active) {
                former = ended;
            }
            partition = change.after;
        }
    }
    Ok(())
}

fn assert_sound(Partition { state, control }: &Partition) -> Checked {
    let message = state.error_message.as_deref().unwrap_or_default();
    prop_assert_eq!(control.terminal.is_some(), message.starts_with(TERMINAL_MARK), "mark and prefix go together");
    prop_assert_eq!(state.current_run_id.is_some(), state.record_count.is_some());
    prop_assert!(control.active.is_none() || control.wanted.is_some(), "an attempt under way is wanted");
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

fn versionless(standing: Standing) -> Standing {
    Standing { version: 0, ..standing }
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
                Event::Data(DataEvent::Released(attempt) | DataEvent::Judged(attempt, _)) => *attempt,
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
            prop_assert_ne!(versionless(after.standing()), versionless(seen.before.standing()));
            let again = apply(after, seen.event.clone(), seen.now);
            let unchanged = matches!(again, Err(Refused::NoOp(_)));
            prop_assert!(unchanged, "asked twice: {again:?}");
            Ok(())
        })?;
    }

    #[test]
    fn a_retry_is_granted_exactly_when_the_rules_allow_it(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(ControlEvent::Retry { clear_terminal, stale, .. }) = seen.control() else { return Ok(()) };
            let Partition { state, control } = seen.before;
            let allowed = match state.status {
                Status::Success => control.reprocess_rejected(),
                Status::Pending => *stale,
                Status::Failed => *clear_terminal || terminal(seen.before, seen.policy, seen.now).is_none(),
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

    #[test]
    fn a_terminal_partition_is_moved_only_by_clear_terminal_or_undo(start in starts(), steps in steps()) {
        walk(start, &steps, |seen| {
            let Some(after) = seen.after() else { return Ok(()) };
            if terminal(seen.before, seen.policy, seen.now).is_some() && after.state.status != Status::Failed {
                let cleared = matches!(seen.control(), Some(ControlEvent::Retry { clear_terminal: true, .. }));
                prop_assert!(cleared || seen.is_undo());
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
            let kept = serde_json::to_string(&seen.before.standing()).unwrap();
            let to: Standing = serde_json::from_str(&kept).unwrap();
            prop_assert_eq!(&to, &seen.before.standing());
            let undo = |from_version| Event::Control(ControlEvent::Revert { to: &to, from_version });
            let undone = apply(after, undo(after.state.version), seen.now).unwrap().after;
            prop_assert_eq!(versionless(undone.standing()), versionless(to.clone()));
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
struct Ledger(Vec<Attempt>);

impl Ledger {
    fn note(&mut self, seen: &Seen<'_>) {
        let (Some(_), Event::Data(event)) = (seen.after(), &seen.event) else { return };
        let (ended, state, verdict) = match event {
            DataEvent::Claimed(InFlight { run_id, task_id }) => {
                return self.0.push(Attempt {
                    run_id: *run_id,
                    task_id: Some(*task_id),
                    number: seen.before.state.attempt_count + 1,
                    state: State::Running,
                    verdict: None,
                    lease_until: Some(seen.now),
                    failures: 0,
                });
            }
            DataEvent::Released(attempt) => (attempt, State::Dead, None),
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
            let to = Standing { wanted: None, ..partition.standing() };
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
                Event::Control(ControlEvent::Backfill { .. }) => "backfill".to_owned(),
                Event::Control(ControlEvent::MarkTerminal { .. }) => "mark terminal".to_owned(),
                Event::Control(ControlEvent::ClearTerminal) => "clear terminal".to_owned(),
                Event::Control(ControlEvent::Pause { .. }) => "pause".to_owned(),
                Event::Control(ControlEvent::Resume) => "resume".to_owned(),
                Event::Control(ControlEvent::Revert { .. }) => "undo".to_owned(),
                Event::Data(DataEvent::Claimed(_)) => "claim".to_owned(),
                Event::Data(DataEvent::Released(_)) => "release".to_owned(),
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
