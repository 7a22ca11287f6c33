//! A worker that drains: whether it has something to stay for, and what it goes on without.

use redrive_store::{Backlog, Queued};

use super::Worker;
use crate::error::{Error, Result};

/// A draining worker gives up after this many empty claims although the backlog says that there is work.
const FRUITLESS: u32 = 5;

impl Worker {
    pub(super) fn is_listing(&self) -> bool {
        self.listings.as_ref().is_some_and(|listings| *listings.borrow() > 0)
    }

    /// Whether nothing is due any more. What a limit holds back is due when an attempt of another worker has ended or
    /// its lease has; what is paused or cools down is not.
    pub(super) async fn is_drained(&mut self) -> Result<bool> {
        let (mut is_drained, mut elsewhere) = (true, 0);
        for served in self.served.iter_mut().filter(|served| !served.is_out) {
            let Backlog { queued, in_flight } = served.workload.backlog().await?;
            is_drained &= match queued {
                Queued::Nothing => true,
                Queued::HeldBack => false,
                // It came after the claim, or its place did.
                Queued::Claimable => served.fruitless >= FRUITLESS,
            };
            served.fruitless = if queued == Queued::Claimable { served.fruitless + 1 } else { 0 };
            elsewhere += in_flight;
        }
        self.done.elsewhere = is_drained.then_some(elsewhere);
        Ok(is_drained)
    }

    /// Goes on draining without a workload that cannot be used. Any other fault ends the drain.
    pub(super) fn drop_out(&mut self, nth: usize, error: Error) -> Result<()> {
        match error {
            Error::Unusable { .. } => {}
            Error::Store(_)
            | Error::Raw(_)
            | Error::Scratch(_)
            | Error::Missing(_)
            | Error::Thread(_)
            | Error::KeeperGone
            | Error::CompleterGone => return Err(error),
        }
        let served = &mut self.served[nth];
        if !served.is_out {
            tracing::error!(workload = served.workload.name(), %error, "left out of the drain");
        }
        served.is_out = true;
        self.unusable.get_or_insert(error);
        Ok(())
    }
}
