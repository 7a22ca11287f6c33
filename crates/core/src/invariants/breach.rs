//! What can be wrong with a partition and its attempts, one word and one sentence for each.

use crate::id::RunId;
use crate::key::PartitionKey;
use crate::partition::Status;
use crate::run::{State, Verdict};

/// An invariant that does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {flaw}")]
pub struct Breach {
    pub key: PartitionKey,
    pub flaw: Flaw,
}

macro_rules! flaws {
    ($($variant:ident { $($field:ident: $kind:ty),* } $word:literal, $text:literal $(, $extra:ident($($of:tt)*))?;)+) => {
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        pub enum Flaw {
            $(#[error($text $(, $extra($($of)*))?)] $variant { $($field: $kind),* },)+
        }

        impl Flaw {
            /// Every word there is, for tests that want one of each.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// One word for scripts.
            pub const fn word(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $word),+ }
            }
        }
    };
}

flaws!(
    NoCurrentRun {} "no_current_run", "it is a success without a current run";
    NoRecordCount { run: RunId } "no_record_count", "its current run {run} has no record count";
    CountWithoutRun { records: u64 } "count_without_run", "it has a record count of {records} and no current run";
    ForeignRun { run: RunId } "foreign_run", "its current run {run} is not one of its runs";
    NotAccepted { run: RunId, state: State, verdict: Option<Verdict> } "not_accepted",
        "its current run {run} is {state} with {}, and not an accepted one", said(.verdict);
    NotCurrent { run: RunId } "not_current", "run {run} was accepted last, and is not its current run";
    AttemptCount { says: u32, verdicts: usize } "attempt_count",
        "its attempt_count is {says}, and {verdicts} of its runs have a verdict";
    AttemptNumber { run: RunId, found: u32, due: u32 } "attempt_number",
        "run {run} is numbered as attempt {found}, and {due} is due";
    RunState { run: RunId, state: State, verdict: Option<Verdict> } "run_state",
        "run {run} is {state} with {}, which no attempt can be", said(.verdict);
    History { run: RunId, verdict: Option<Verdict>, failures: u64 } "history",
        "run {run} has {}, and its history has {failures} failures", said(.verdict);
    NoLease { run: RunId } "no_lease", "run {run} is running without a lease, so nobody would notice a dead worker";
    TwoRunning { run: RunId, other: RunId } "two_running", "runs {run} and {other} are running at once";
    Unclaimed { run: RunId } "unclaimed", "run {run} is running, and the partition does not know of it";
    NotRunning { run: RunId, state: Option<State> } "not_running",
        "run {run} is said to be in flight, and {}", found(.state);
    OtherFence { run: RunId } "other_fence", "run {run} is in flight for another task than the partition says";
    Unwanted { run: RunId } "unwanted", "run {run} is in flight, and the partition has no place in the queue";
    Lost {} "lost", "it is pending, and neither in the queue nor in flight";
    NoError {} "no_error", "it has failed without an error class and message";
    ErrorOfSuccess {} "error_of_success", "it is a success with an error";
    Queued { status: Status } "queued", "it is {status} and in the queue without being asked for again";
    Reprocess { status: Status } "reprocess", "it is {status} and marked to be reprocessed, which only a success can be that is queued, or whose last attempt was rejected";
    Mark {} "mark", "its terminal mark and the [terminal] before its error message do not go together";
    MarkOf { status: Status } "mark_of", "it is {status} and marked terminal, which only a failure can be";
    Hint { status: Status } "hint", "it is {status} with a retry hint, which only a failure can have";
);

impl Flaw {
    /// The run it is about, where there is one.
    pub const fn run_id(&self) -> Option<RunId> {
        match self {
            Self::NoRecordCount { run }
            | Self::ForeignRun { run }
            | Self::NotAccepted { run, .. }
            | Self::NotCurrent { run }
            | Self::AttemptNumber { run, .. }
            | Self::RunState { run, .. }
            | Self::History { run, .. }
            | Self::NoLease { run }
            | Self::TwoRunning { run, .. }
            | Self::Unclaimed { run }
            | Self::NotRunning { run, .. }
            | Self::OtherFence { run }
            | Self::Unwanted { run } => Some(*run),
            Self::NoCurrentRun {}
            | Self::CountWithoutRun { .. }
            | Self::AttemptCount { .. }
            | Self::Lost {}
            | Self::NoError {}
            | Self::ErrorOfSuccess {}
            | Self::Queued { .. }
            | Self::Reprocess { .. }
            | Self::Mark {}
            | Self::MarkOf { .. }
            | Self::Hint { .. } => None,
        }
    }
}

fn said(verdict: &Option<Verdict>) -> String {
    verdict.map_or("no verdict".to_owned(), |verdict| format!("the verdict {verdict}"))
}

fn found(state: &Option<State>) -> String {
    state.map_or("there is no such run of it".to_owned(), |state| format!("it is {state}"))
}
