//! How a worker is asked to stop: first in order, then at once.

use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Working,
    /// Claim nothing more; finish what is under way.
    Finishing,
    /// Give back what is under way.
    Leaving,
}

/// Shared by the callers that may stop a worker and by the attempts that have to heed it.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Sender<State>);

#[derive(Debug, Clone, Copy)]
struct State {
    phase: Phase,
    /// When the end was first asked for.
    requested: Option<Instant>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::channel(State { phase: Phase::Working, requested: None }).0)
    }
}

impl Shutdown {
    /// Asks for an orderly end; asked again, for one at once.
    pub fn request(&self) {
        self.0.send_modify(|state| {
            state.phase = match state.phase {
                Phase::Working => Phase::Finishing,
                Phase::Finishing | Phase::Leaving => Phase::Leaving,
            };
            state.requested.get_or_insert_with(Instant::now);
        });
    }

    pub(super) fn leave(&self) {
        self.0.send_modify(|state| state.phase = Phase::Leaving);
    }

    pub fn is_requested(&self) -> bool {
        self.0.borrow().phase > Phase::Working
    }

    /// When the end was first asked for, if it was.
    pub(super) fn requested_at(&self) -> Option<Instant> {
        self.0.borrow().requested
    }

    /// Returns when an orderly end is asked for.
    pub async fn requested(&self) {
        self.reached(Phase::Finishing).await;
    }

    /// Returns when work under way must be given back.
    pub async fn leaving(&self) {
        self.reached(Phase::Leaving).await;
    }

    async fn reached(&self, wanted: Phase) {
        // The sender is in `self`, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|state| state.phase >= wanted).await;
    }
}
