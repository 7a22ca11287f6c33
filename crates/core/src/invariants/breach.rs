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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("it is a success without a current run")]
    NoCurrentRun,
    #[error("its current run {run} has no record count")]
    NoRecordCount { run: RunId },
    #[error("it has a record count of {records} and no current run")]
    CountWithoutRun { records: u64 },
    #[error("its current run {run} is not one of its runs")]
    ForeignRun { run: RunId },
    #[error("its current run {run} is {state} with {}, and not an accepted one", in_words(.verdict))]
    NotAccepted { run: RunId, state: State, verdict: Option<Verdict> },
    #[error("run {run} was accepted last, and is not its current run")]
    NotCurrent { run: RunId },
    #[error("its attempt_count is {says}, and {verdicts} of its runs have a verdict")]
    AttemptCount { says: u32, verdicts: usize },
    #[error("run {run} is numbered as attempt {found}, and {due} is due")]
    AttemptNumber { run: RunId, found: u32, due: u32 },
    #[error("run {run} is {state} with {}, which no attempt can be", in_words(.verdict))]
    RunState { run: RunId, state: State, verdict: Option<Verdict> },
    #[error("run {run} has {}, and its history has {failures} failures", in_words(.verdict))]
    History { run: RunId, verdict: Option<Verdict>, failures: u64 },
    #[error("run {run} is running without a lease, so no worker would ever take it over")]
    NoLease { run: RunId },
    #[error("runs {run} and {other} are running at once")]
    TwoRunning { run: RunId, other: RunId },
    #[error("run {run} is running, and the partition does not know of it")]
    Unclaimed { run: RunId },
    #[error("the partition says that run {run} is in flight, and {}", found(.state))]
    NotRunning { run: RunId, state: Option<State> },
    #[error("run {run} is in flight for another task than the partition says")]
    OtherFence { run: RunId },
    #[error("run {run} is in flight, and the partition has no place in the queue")]
    Unwanted { run: RunId },
    #[error("it is pending, and neither in the queue nor in flight")]
    Lost,
    #[error("it has failed without an error class and message")]
    NoError,
    #[error("it is a success with an error")]
    ErrorOfSuccess,
    #[error("it is {status} and in the queue without being asked for again")]
    Queued { status: Status },
    #[error(
        "it is {status} and marked to be reprocessed, which only a success can be that is queued, or whose last \
         attempt was rejected"
    )]
    Reprocess { status: Status },
    #[error("its terminal mark and the [terminal] before its error message do not go together")]
    Mark,
    #[error("it is {status} and marked terminal, which only a failure can be")]
    MarkOf { status: Status },
    #[error("it is {status} with a retry hint, which only a failure can have")]
    Hint { status: Status },
}

impl Flaw {
    /// One word for scripts.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NoCurrentRun => "no_current_run",
            Self::NoRecordCount { .. } => "no_record_count",
            Self::CountWithoutRun { .. } => "count_without_run",
            Self::ForeignRun { .. } => "foreign_run",
            Self::NotAccepted { .. } => "not_accepted",
            Self::NotCurrent { .. } => "not_current",
            Self::AttemptCount { .. } => "attempt_count",
            Self::AttemptNumber { .. } => "attempt_number",
            Self::RunState { .. } => "run_state",
            Self::History { .. } => "history",
            Self::NoLease { .. } => "no_lease",
            Self::TwoRunning { .. } => "two_running",
            Self::Unclaimed { .. } => "unclaimed",
            Self::NotRunning { .. } => "not_running",
            Self::OtherFence { .. } => "other_fence",
            Self::Unwanted { .. } => "unwanted",
            Self::Lost => "lost",
            Self::NoError => "no_error",
            Self::ErrorOfSuccess => "error_of_success",
            Self::Queued { .. } => "queued",
            Self::Reprocess { .. } => "reprocess",
            Self::Mark => "mark",
            Self::MarkOf { .. } => "mark_of",
            Self::Hint { .. } => "hint",
        }
    }
}

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
            Self::NoCurrentRun
            | Self::CountWithoutRun { .. }
            | Self::AttemptCount { .. }
            | Self::Lost
            | Self::NoError
            | Self::ErrorOfSuccess
            | Self::Queued { .. }
            | Self::Reprocess { .. }
            | Self::Mark
            | Self::MarkOf { .. }
            | Self::Hint { .. } => None,
        }
    }
}

fn in_words(verdict: &Option<Verdict>) -> String {
    verdict.map_or("no verdict".to_owned(), |verdict| format!("the verdict {verdict}"))
}

fn found(state: &Option<State>) -> String {
    state.map_or("there is no such run of it".to_owned(), |state| format!("it is {state}"))
}
