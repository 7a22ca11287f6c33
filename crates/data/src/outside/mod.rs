//! Workers of somebody else's making, in any language: they claim the jobs of sections that have neither a command nor a URL, beat, and
//! report, each by one call over a network that may lose the question or the answer.
//!
//! Nothing here knows of HTTP. A section's policy, categories, limit and time-out count as they do for this program's own workers.

mod claim;
mod heartbeat;
mod report;
mod slip;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use redrive_core::run::{Run, Work};
use redrive_store::{DataStore, OutsideCall};

use crate::error::Result;
use crate::process::{Section, Sections};

pub use claim::{ClaimAsk, Delivery, GivenRun};
pub use heartbeat::{Beats, HeldRun, SaidOf, Say};
pub use report::{Completion, EndAnswer, FailAnswer, FailureReport, Next, Reported};
pub use slip::{LONGEST_WAIT, MAX_NAME, MAX_RUNS, Slip};

/// How long an outside worker has to speak of a run that was sent to it.
pub const ACK_WINDOW: Duration = Duration::from_secs(15);

/// How often an outside worker is told to beat: three beats fit into the time in which it must first speak.
pub const BEAT: Duration = Duration::from_secs(5);

/// Who calls, and what the caller may touch.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Where the call comes from.
    pub host: String,
    /// The categories that the caller is limited to; none where it is not.
    pub categories: Option<Vec<String>>,
}

impl Caller {
    fn may(&self, category: &str) -> bool {
        self.categories.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| allowed == category))
    }

    fn may_touch(&self, run: &Run) -> bool {
        match &run.work {
            Work::Process { category, .. } => self.may(category),
            Work::Extract(_) | Work::Ingest { .. } => false,
        }
    }
}

/// The side of the data plane that outside workers call.
#[derive(Debug, Clone)]
pub struct OutsideWorkers {
    data: DataStore,
    sections: Arc<Sections>,
    /// How long a lease lasts once its worker has spoken.
    lease: Duration,
    /// Which section is looked at first; the next claim begins with the next one.
    turn: Arc<AtomicUsize>,
}

impl OutsideWorkers {
    pub fn new(data: DataStore, sections: Arc<Sections>, lease: Duration) -> Self {
        Self { data, sections, lease, turn: Arc::default() }
    }

    /// The sections whose jobs are left to outside workers.
    pub fn sections(&self) -> impl Iterator<Item = &Arc<Section>> {
        self.sections.iter().filter(|section| section.handler.is_none())
    }

    /// Ends runs whose worker fell silent: gives those back of which none has spoken yet, and fails the others by their policy. Gives
    /// how many.
    pub async fn sweep(&self) -> Result<usize> {
        crate::worker::end_expired_jobs(&self.data, &self.sections).await
    }

    /// Notes that a worker has called; says whether it is to take on nothing more.
    async fn meet(&self, worker: &str, caller: &Caller, asks_for: Option<Vec<String>>) -> Result<bool> {
        let call = OutsideCall { worker: worker.to_owned(), host: caller.host.clone(), asks_for };
        Ok(self.data.meet(call).await?)
    }

    /// How long an attempt at a run may take, by its section.
    fn timeout(&self, run: &Run) -> Duration {
        timeout(&self.sections, run)
    }
}

fn timeout(sections: &Sections, run: &Run) -> Duration {
    sections.of(run.work.category()).map_or(crate::process::TIMEOUT, |section| section.timeout)
}
