//! How a worker is asked to stop: first in order, then at once.

use tokio::sync::watch;

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
pub struct Shutdown(watch::Sender<Phase>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::channel(Phase::Working).0)
    }
}

impl Shutdown {
    /// Asks for an orderly end; asked again, for one at once.
    pub fn request(&self) {
        self.0.send_modify(|phase| {
            *phase = match *phase {
                Phase::Working => Phase::Finishing,
                Phase::Finishing | Phase::Leaving => Phase::Leaving,
            };
        });
    }

    pub(super) fn leave(&self) {
        self.0.send_replace(Phase::Leaving);
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow() > Phase::Working
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
        let _ = self.0.subscribe().wait_for(|phase| *phase >= wanted).await;
    }
}
