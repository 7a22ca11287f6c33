//! The words for where a run stands: for the users of its workload, and for the attempts of a partition.

use super::state::{EndedBy, Run, State, Verdict};
use super::work::Work;
use crate::word::words;

words!(
    /// How an attempt at a partition stands or ended.
    Outcome, "outcome" {
        Running = "running",
        Success = "success",
        Failed = "failed",
        /// Its worker was not heard of until its lease ran out.
        Abandoned = "abandoned",
        /// Its worker gave it back untried.
        Released = "released",
        /// Its source said when to come again.
        RateLimited = "rate_limited",
    }
);

pub fn outcome(run: &Run) -> Outcome {
    match run.ended_by {
        None => Outcome::Running,
        Some(EndedBy::Completed) => Outcome::Success,
        Some(EndedBy::Failed | EndedBy::Cancelled) => Outcome::Failed,
        Some(EndedBy::Abandoned) => Outcome::Abandoned,
        Some(EndedBy::Released) => Outcome::Released,
        Some(EndedBy::RateLimited) => Outcome::RateLimited,
    }
}

/// The word each workload's users know for where a run stands.
pub fn label(run: &Run) -> &'static str {
    match &run.work {
        Work::Ingest { .. } => match run.state {
            State::Storing => "PENDING",
            State::Queued | State::Waiting => "STORED",
            State::Running => "PARSING",
            State::Done => "COMPLETE",
            State::Dead => "FAILED",
        },
        Work::Process { .. } => match run.state {
            // A job that failed before is an error until a worker starts it again.
            State::Queued | State::Waiting if run.error_class.is_some() => "error",
            State::Storing | State::Queued | State::Waiting => "discovered",
            State::Running => "processing",
            State::Dead => "error",
            State::Done => run.verdict.unwrap_or(Verdict::Passed).as_str(),
        },
        Work::Extract(_) => match run.state {
            State::Storing | State::Queued | State::Waiting => "queued",
            State::Running => "extracting",
            State::Done => "success",
            State::Dead => "failed",
        },
    }
}
