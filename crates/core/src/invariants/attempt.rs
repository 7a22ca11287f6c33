//! An attempt without the texts a run carries, so that a great many can be looked at.

use crate::id::{RunId, TaskId};
use crate::run::{State, Verdict};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFacts {
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    /// One more than the verdicts there were when it was claimed.
    pub number: u32,
    pub state: State,
    pub verdict: Option<Verdict>,
    pub lease_until: Option<Timestamp>,
    /// How many failed tries its history has.
    pub failures: u64,
    /// The hash of its manifest when it was accepted, where its worker reported that.
    pub manifest: Option<String>,
}

impl AttemptFacts {
    pub fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Its worker has died, or cannot reach the store; the next worker ends it.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.is_running() && self.lease_until.is_some_and(|until| until <= now)
    }

    pub fn is_accepted(&self) -> bool {
        self.state == State::Done && self.verdict == Some(Verdict::Passed)
    }
}
