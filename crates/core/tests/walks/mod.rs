//! Random walks: events of both planes, with right and wrong fences, from a new partition or from any sound one.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redrive_core::failure::{ErrorClass, TERMINAL_MARK};
use redrive_core::lane::Lane;
use redrive_core::partition::{
    Change, ControlEvent, ControlSnapshot, DataEvent, Event, InFlight, Judgement, Mark, Partition, Reprocess, Status,
    Wanted, apply,
};
use redrive_core::refusal::Refused;
use redrive_core::retry::{Backoff, Grant, HintRule, RetryPolicy};
use redrive_core::time::Timestamp;

use crate::specimen::{HOUR, at, attempt, key, run_id, task_id};

const LONGEST_WALK: usize = 40;

/// Whose fence a report shows.
#[derive(Debug, Clone, Copy)]
pub enum Fence {
    Current,
    OtherTask,
    OtherRun,
    /// Of an attempt that has ended.
    Former,
}

#[derive(Debug, Clone)]
pub enum Ask {
    Retry {
        clear_terminal: bool,
        stale: bool,
        grant: Option<Grant>,
    },
    Reprocess,
    Withdraw,
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
pub struct Step {
    pub ask: Ask,
    /// Seconds by which the clock moves first, also backwards.
    pub moved: i64,
    pub policy: RetryPolicy,
}

pub fn fences() -> impl Strategy<Value = Fence> {
    prop_oneof![
        8 => Just(Fence::Current),
        1 => Just(Fence::OtherTask),
        1 => Just(Fence::OtherRun),
        1 => Just(Fence::Former),
    ]
}

pub fn classes() -> impl Strategy<Value = ErrorClass> {
    prop::sample::select(ErrorClass::ALL)
}

pub fn messages() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["boom", "", "[terminal]", "[terminal] gone", " [terminal]", "a\0b", "é…", " "])
        .prop_map(str::to_owned)
}

pub fn grants() -> impl Strategy<Value = Grant> {
    prop_oneof![
        1 => Just(Grant::Full),
        3 => (1u32..4).prop_map(|number| Grant::Attempts(NonZeroU32::new(number).unwrap())),
    ]
}

pub fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        6 => (any::<bool>(), any::<bool>(), option::weighted(0.3, grants()))
            .prop_map(|(clear_terminal, stale, grant)| Ask::Retry { clear_terminal, stale, grant }),
        2 => Just(Ask::Reprocess),
        1 => Just(Ask::Withdraw),
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

pub fn policies() -> impl Strategy<Value = RetryPolicy> {
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
        rate_limit_budget: None,
    })
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![
        16 => 0i64..7_200,
        2 => -86_400i64..0,
        1 => 0i64..5_000_000,
        1 => -5_000_000i64..5_000_000,
    ];
    let step = (asks(), moved, policies()).prop_map(|(ask, moved, policy)| Step { ask, moved, policy });
    vec(step, 0..=LONGEST_WALK)
}

pub fn marks() -> impl Strategy<Value = Option<Mark>> {
    option::weighted(0.2, (0i64..1_000).prop_map(|when| Mark { by: "ada".to_owned(), at: at(when), why: None }))
}

/// Any partition that is sound, reachable or not.
pub fn sound() -> impl Strategy<Value = Partition> {
    let outcome = (any::<bool>(), 0u64..9_999, 0u32..12, prop::sample::select(Status::ALL));
    let error = (classes(), option::weighted(0.9, messages().prop_map(|text| text.replace(TERMINAL_MARK, "x"))));
    let queue = (prop::sample::select(Lane::ALL), any::<bool>(), any::<bool>(), option::of(0i64..9_000), 0u32..4);
    (outcome, error, queue, (marks(), marks()), 1u64..1_000).prop_map(
        |(
            (has_run, records, attempts, status),
            (class, message),
            (lane, wanted, active, hint, granted),
            marks,
            version,
        )| {
            let mut partition = Partition::new(key(), lane, at(0));
            let (state, control) = (&mut partition.state, &mut partition.control);
            state.status = status;
            state.version = version;
            state.attempt_count = attempts;
            if has_run || status == Status::Success {
                (state.current_run_id, state.record_count) = (Some(run_id(90)), Some(records));
            }
            control.paused = marks.0;
            control.granted = granted;
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
                    control.granted = control.reprocess.map_or(0, |_| granted);
                }
            }
            partition
        },
    )
}

pub fn starts() -> impl Strategy<Value = Partition> {
    prop_oneof![prop::sample::select(Lane::ALL).prop_map(|lane| Partition::new(key(), lane, at(0))), sound()]
}

/// One step of a walk, as the checks see it.
pub struct Seen<'a> {
    pub before: &'a Partition,
    pub event: Event<'a>,
    pub policy: &'a RetryPolicy,
    pub now: Timestamp,
    pub outcome: Result<Change, Refused>,
}

impl Seen<'_> {
    pub fn after(&self) -> Option<&Partition> {
        self.outcome.as_ref().ok().map(|change| &change.after)
    }

    pub fn control(&self) -> Option<&ControlEvent<'_>> {
        match &self.event {
            Event::Control(event) => Some(event),
            Event::Data(_) => None,
        }
    }

    pub fn judgement(&self) -> Option<(InFlight, &Judgement)> {
        match &self.event {
            Event::Data(DataEvent::Judged(attempt, judgement)) => Some((*attempt, judgement)),
            Event::Data(DataEvent::Claimed(_) | DataEvent::Released(_) | DataEvent::RateLimited { .. })
            | Event::Control(_) => None,
        }
    }

    pub fn is_undo(&self) -> bool {
        matches!(self.event, Event::Control(ControlEvent::Revert { .. }))
    }
}

pub type Checked = Result<(), TestCaseError>;

pub fn walk(start: Partition, steps: &[Step], mut check: impl FnMut(&Seen<'_>) -> Checked) -> Checked {
    let mut partition = start;
    let mut now = at(100);
    let mut former = attempt(70);
    let mut last_operation: Option<(ControlSnapshot, u64)> = None;
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
        let standing = partition.snapshot();
        let (undo_to, undo_version) =
            last_operation.as_ref().map_or((&standing, partition.state.version + 1), |(to, version)| (to, *version));
        let event = match ask {
            Ask::Retry { clear_terminal, stale, grant } => Event::Control(ControlEvent::Retry {
                policy,
                clear_terminal: *clear_terminal,
                stale: *stale,
                grant: *grant,
            }),
            Ask::Reprocess => Event::Control(ControlEvent::Reprocess),
            Ask::Withdraw => Event::Control(ControlEvent::Withdraw),
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
                last_operation = Some((partition.snapshot(), change.after.state.version));
            }
            if let (Some(ended), None) = (partition.control.active, change.after.control.active) {
                former = ended;
            }
            partition = change.after;
        }
    }
    Ok(())
}
