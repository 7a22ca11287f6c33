//! Free permits wait a moment for more of them while there is more to claim than they can take: a claim for many costs little more
//! than a claim for one. They wait no longer than a claim takes, so that a permit is at most twice as long without work.

use std::time::Duration;

use tokio::time::Instant;

use crate::worker::patience::wait_for_more;

#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// How long the last claim took that brought all it was asked for. What is left to claim after any other is announced.
    at_most: Duration,
    /// Since when permits are free that no claim has been made for.
    since: Option<Instant>,
}

impl Gathering {
    /// Permits are free, be it for a while.
    pub(super) fn permits_are_free(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// A claim is made for them.
    pub(super) fn claim_begins(&mut self) {
        self.since = None;
    }

    /// A claim has brought all that it was asked for, in so long a time.
    pub(super) fn was_full(&mut self, took: Duration) {
        self.at_most = wait_for_more(took);
    }

    /// A claim has brought less: whatever comes next is announced, and is claimed at once.
    pub(super) fn was_short(&mut self) {
        *self = Self::default();
    }

    /// Until when permits that are free now wait for more.
    pub(super) fn until(&self) -> Option<Instant> {
        self.since.map(|since| since + self.at_most).filter(|until| Instant::now() < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::patience::LONGEST;

    #[test]
    fn permits_wait_as_long_as_a_claim_takes_and_only_after_one_that_was_full() {
        let mut gathering = Gathering::default();
        gathering.permits_are_free();
        assert_eq!(gathering.until(), None, "nothing was claimed yet");
        gathering.claim_begins();
        gathering.was_full(Duration::from_secs(3600));
        assert_eq!(gathering.until(), None, "no permit is free");
        let before = Instant::now();
        gathering.permits_are_free();
        let until = gathering.until().unwrap();
        assert!(until >= before + LONGEST, "not before they were free");
        assert!(until <= Instant::now() + LONGEST, "however long the claim took");
        gathering.permits_are_free();
        assert_eq!(gathering.until(), Some(until), "more that are free do not prolong the wait");
        gathering.was_short();
        gathering.permits_are_free();
        assert_eq!(gathering.until(), None);
    }
}
