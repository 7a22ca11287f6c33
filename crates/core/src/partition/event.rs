//! What can happen to a partition, and what comes of it.

use super::state::{ControlSnapshot, InFlight, Partition};
use crate::failure::ErrorClass;
use crate::retry::{Grant, RetryPolicy};
use crate::time::Timestamp;

/// What the control plane may ask for.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlEvent<'a> {
    /// Requeue a failed partition, or a success whose reprocess was rejected; with `stale`, also one that has been
    /// pending for too long. A grant is given first, and may be what allows the retry.
    Retry {
        policy: &'a RetryPolicy,
        clear_terminal: bool,
        stale: bool,
        grant: Option<Grant>,
    },
    /// Ask for a new run of a success, which stays until the new one is accepted.
    Reprocess,
    /// Take a request to reprocess back, also one whose last attempt was rejected. The success stays as it is.
    Withdraw,
    /// A backfill met a partition that is there already.
    Backfill {
        policy: &'a RetryPolicy,
        force_pending: bool,
    },
    MarkTerminal {
        by: &'a str,
        why: Option<&'a str>,
        threshold: u32,
    },
    ClearTerminal,
    Pause {
        by: &'a str,
        why: Option<&'a str>,
    },
    Resume,
    /// Undo: put back what an operation changed, if nothing has happened since.
    Revert {
        to: &'a ControlSnapshot,
        from_version: u64,
    },
}

/// The validator's judgement of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    Accepted { records: u64 },
    Rejected { class: ErrorClass, message: String, not_before: Option<Timestamp> },
}

/// What the data plane may report.
#[derive(Debug, Clone, PartialEq)]
pub enum DataEvent {
    Claimed(InFlight),
    /// The worker gave it back untried, in an orderly shutdown.
    Released(InFlight),
    Judged(InFlight, Judgement),
    /// The source said when to come again, and nothing was extracted: the worker gave it back until then.
    RateLimited {
        attempt: InFlight,
        until: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    Control(ControlEvent<'a>),
    Data(DataEvent),
}

/// What must still be true, and what becomes true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub expect_version: u64,
    /// Whether there was anything to remember before, and so a control row.
    pub had_control: bool,
    pub after: Partition,
}
