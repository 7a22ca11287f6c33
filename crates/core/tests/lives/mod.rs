//! Random lives of runs: events in any order, with right and wrong fences, under any policy.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redrive_core::failure::ErrorClass;
use redrive_core::refusal::Refused;
use redrive_core::retry::{Backoff, HintRule, RetryPolicy};
use redrive_core::run::{Change, End, Event, Fault, Run, RunSnapshot, State, Verdict, Workload, apply};
use redrive_core::time::Timestamp;

use crate::specimen::{HOUR, at, dead, done, queued, running, task_id, waiting};

const LONGEST_LIFE: usize = 40;

#[derive(Debug, Clone)]
pub enum Ask {
    Stored,
    NotStored,
    /// At once, or when its time has come.
    Due {
        awaited: bool,
    },
    Claim {
        lease: i64,
    },
    /// Sends the claim to an outside worker.
    Deliver {
        right: bool,
        lease: i64,
    },
    Beat {
        right: bool,
        lease: i64,
    },
    Release {
        right: bool,
    },
    Complete {
        right: bool,
        verdict: Verdict,
    },
    Fail {
        right: bool,
        class: ErrorClass,
        retry_after: Option<u64>,
    },
    LeaseExpired,
    Retry,
    Cancel,
    /// Takes the newest retry or cancel back; right where nothing has happened since.
    Undo {
        right: bool,
    },
}

#[derive(Debug, Clone)]
pub struct Step {
    pub ask: Ask,
    /// Seconds by which the clock moves first, also backwards.
    pub moved: i64,
}

pub fn leases() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 120i64..600, 1 => -10i64..10]
}

pub fn asks() -> impl Strategy<Value = Ask> {
    let right = || prop::bool::weighted(0.85);
    let class = prop_oneof![
        1 => Just(ErrorClass::Final),
        6 => Just(ErrorClass::Retryable),
        4 => Just(ErrorClass::RateLimited),
    ];
    let verdict = prop::sample::select(Verdict::ALL);
    prop_oneof![
        1 => Just(Ask::Stored),
        1 => Just(Ask::NotStored),
        8 => prop::bool::weighted(0.8).prop_map(|awaited| Ask::Due { awaited }),
        12 => leases().prop_map(|lease| Ask::Claim { lease }),
        4 => (right(), leases()).prop_map(|(right, lease)| Ask::Deliver { right, lease }),
        2 => (right(), leases()).prop_map(|(right, lease)| Ask::Beat { right, lease }),
        2 => right().prop_map(|right| Ask::Release { right }),
        1 => (right(), verdict).prop_map(|(right, verdict)| Ask::Complete { right, verdict }),
        9 => (right(), class, option::of(0u64..1_000))
            .prop_map(|(right, class, retry_after)| Ask::Fail { right, class, retry_after }),
        4 => Just(Ask::LeaseExpired),
        3 => Just(Ask::Retry),
        2 => Just(Ask::Cancel),
        3 => right().prop_map(|right| Ask::Undo { right }),
    ]
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![16 => 0i64..40, 3 => 0i64..7_200, 1 => -3_600i64..0, 1 => -9_000_000i64..9_000_000];
    vec((asks(), moved).prop_map(|(ask, moved)| Step { ask, moved }), 0..=LONGEST_LIFE)
}

pub fn policies() -> impl Strategy<Value = RetryPolicy> {
    let backoff = prop_oneof![
        (0u64..100).prop_map(|base| Backoff::Exponential {
            base: Duration::from_secs(base),
            multiplier: 2.0,
            cap: HOUR
        }),
        vec((0u64..700).prop_map(Duration::from_secs), 0..4).prop_map(Backoff::Fixed),
    ];
    let hint = prop::sample::select(vec![HintRule::ExactAndFree, HintRule::ExactAndFree, HintRule::AtLeast]);
    let any = (backoff, 0u64..30, option::of(0u32..10), option::weighted(0.3, 0u32..9), hint).prop_map(
        |(backoff, jitter, max_attempts, max_age, hint)| RetryPolicy {
            backoff,
            jitter: Duration::from_secs(jitter),
            max_attempts,
            max_age: max_age.map(|hours| hours * HOUR),
            hint,
            rate_limit_budget: Some(HOUR),
        },
    );
    prop_oneof![1 => Just(RetryPolicy::ingest()), 1 => Just(RetryPolicy::process()), 2 => any]
}

pub fn starts() -> impl Strategy<Value = Run> {
    let workload = prop_oneof![
        2 => Just(Workload::Ingest),
        2 => Just(Workload::Process),
        1 => Just(Workload::Extract),
    ];
    (workload, 0u32..6, 0u32..12).prop_map(|(workload, form, retry_count)| match (workload, form) {
        (Workload::Ingest, 0) => Run { state: State::Storing, ..queued(workload) },
        (Workload::Extract, 0 | 1) | (_, 2) => running(workload),
        (Workload::Process, 1) => {
            Run { state: State::Waiting, not_before: Some(at(150)), max_attempts: Some(2), ..queued(workload) }
        }
        (Workload::Ingest | Workload::Process, 3) => Run { retry_count, ..waiting(workload) },
        (_, 4) => done(workload),
        (_, 5) => Run { retry_count, ..dead(workload) },
        (_, _) => queued(workload),
    })
}

pub struct Seen<'a> {
    pub before: &'a Run,
    pub event: Event,
    pub policy: &'a RetryPolicy,
    pub now: Timestamp,
    pub outcome: Result<Change, Refused>,
}

impl Seen<'_> {
    pub fn change(&self) -> Option<&Change> {
        self.outcome.as_ref().ok()
    }

    /// The fence that the event shows, where it must show one.
    pub fn fence(&self) -> Option<redrive_core::id::TaskId> {
        match &self.event {
            Event::Delivered { task_id, .. } | Event::Beat { task_id, .. } | Event::Ended { task_id, .. } => {
                Some(*task_id)
            }
            Event::Stored
            | Event::NotStored { .. }
            | Event::Due
            | Event::Claimed { .. }
            | Event::LeaseExpired { .. }
            | Event::RetryRequested
            | Event::Cancelled { .. }
            | Event::Reverted { .. } => None,
        }
    }

    /// The error of a try that failed.
    pub fn fault(&self) -> Option<Fault> {
        match &self.event {
            Event::Ended { end: End::Failed { fault, .. }, .. } => Some(fault.clone()),
            // The answer to its claim was lost: nothing was tried.
            Event::LeaseExpired { .. } if self.before.awaits_ack => None,
            Event::LeaseExpired { .. } => Some(Fault::lease_expired()),
            Event::NotStored { fault, .. } => Some(fault.clone()),
            Event::Stored
            | Event::Due
            | Event::Claimed { .. }
            | Event::Delivered { .. }
            | Event::Beat { .. }
            | Event::Ended { end: End::Released { .. } | End::RateLimited { .. } | End::Completed { .. }, .. }
            | Event::RetryRequested
            | Event::Cancelled { .. }
            | Event::Reverted { .. } => None,
        }
    }
}

pub type Checked = Result<(), TestCaseError>;

pub fn live(start: Run, policy: &RetryPolicy, steps: &[Step], mut check: impl FnMut(&Seen<'_>) -> Checked) -> Checked {
    let (mut run, mut now, mut operation) = (start, at(100), None::<(RunSnapshot, u64)>);
    for (nth, Step { ask, moved }) in steps.iter().enumerate() {
        now = Timestamp::from_micros(now.micros().saturating_add(moved * 1_000_000));
        if let (Ask::Due { awaited: true }, Some(when)) = (ask, run.due_at()) {
            now = now.max(when);
        }
        let fresh = task_id(1_000 + u64::try_from(nth).unwrap());
        let shown = |right: bool| if right { run.task_id.unwrap_or(fresh) } else { task_id(3) };
        let until = |seconds: i64| Timestamp::from_micros(now.micros().saturating_add(seconds * 1_000_000));
        let event = match *ask {
            Ask::Stored => Event::Stored,
            Ask::NotStored => {
                let message = "too large".to_owned();
                let fault = Fault { class: ErrorClass::Final, message, trace: None, retry_after: None };
                Event::NotStored { fault, metrics: None }
            }
            Ask::Due { .. } => Event::Due,
            Ask::Claim { lease } => {
                Event::Claimed { task_id: fresh, worker: "w".to_owned(), lease_until: until(lease) }
            }
            Ask::Deliver { right, lease } => Event::Delivered { task_id: shown(right), lease_until: until(lease) },
            Ask::Beat { right, lease } => Event::Beat { task_id: shown(right), lease_until: until(lease) },
            Ask::Release { right } => Event::Ended { task_id: shown(right), end: End::Released { why: None } },
            Ask::Complete { right, verdict } => {
                Event::Ended { task_id: shown(right), end: End::Completed { verdict, metrics: None } }
            }
            Ask::Fail { right, class, retry_after } => {
                let retry_after = retry_after.map(Duration::from_secs);
                let fault = Fault { class, message: "boom".to_owned(), trace: None, retry_after };
                let end = End::Failed { fault, metrics: None, policy: policy.clone() };
                Event::Ended { task_id: shown(right), end }
            }
            Ask::LeaseExpired => Event::LeaseExpired { policy: policy.clone(), limit: None },
            Ask::Retry => Event::RetryRequested,
            Ask::Cancel => Event::Cancelled { by: "ada".to_owned() },
            Ask::Undo { right } => {
                let (to, from_version) = operation.clone().unwrap_or_else(|| (run.snapshot(), 1_000_000));
                Event::Reverted { to, from_version: if right { from_version } else { from_version + 1 } }
            }
        };
        let outcome = apply(&run, event.clone(), now);
        let seen = Seen { before: &run, event, policy, now, outcome };
        check(&seen)?;
        if let Ok(change) = seen.outcome {
            if let Event::RetryRequested | Event::Cancelled { .. } = seen.event {
                operation = Some((run.snapshot(), change.after.version));
            }
            run = change.after;
        }
    }
    Ok(())
}
