//! Permits: how many attempts a worker does at once. An attempt that only settles gives its permit up before it has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::Notify;

/// What the worker's loop and its attempts know of permits that were given up.
#[derive(Debug, Default)]
pub(super) struct Permits(Arc<GivenUp>);

#[derive(Debug, Default)]
struct GivenUp {
    /// How many were given up so far.
    count: AtomicU64,
    /// From which count on the loop wants to know.
    wake_at: AtomicU64,
    wake: Notify,
}

/// One of the worker's permits, used until this is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    /// How many the attempts of its workload use.
    used: Arc<AtomicU32>,
    given_up: Arc<GivenUp>,
}

impl Permits {
    pub(super) fn take(&self, used: &Arc<AtomicU32>) -> Permit {
        used.fetch_add(1, Ordering::AcqRel);
        Permit { used: Arc::clone(used), given_up: Arc::clone(&self.0) }
    }

    /// How many were given up so far.
    pub(super) fn given_up(&self) -> u64 {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Returns when so many were given up, counted from the beginning.
    pub(super) async fn wait_for(&self, count: u64) {
        self.0.wake_at.store(count, Ordering::SeqCst);
        while self.given_up() < count {
            self.0.wake.notified().await;
        }
    }
}

impl Permit {
    /// Frees the permit, and wakes the loop if it waits for no more than this one: the loop hears of the attempt itself
    /// only when it has ended.
    pub(super) fn give_up(self) {
        let given_up = Arc::clone(&self.given_up);
        drop(self);
        let count = given_up.count.fetch_add(1, Ordering::SeqCst) + 1;
        if count >= given_up.wake_at.load(Ordering::SeqCst) {
            given_up.wake.notify_one();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.used.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_loop_is_woken_once_enough_permits_are_given_up() {
        let (permits, used) = (Permits::default(), Arc::default());
        let mut taken: Vec<Permit> = (0..3).map(|_| permits.take(&used)).collect();
        assert_eq!(used.load(Ordering::Relaxed), 3);
        let mut waiting = Box::pin(permits.wait_for(permits.given_up() + 2));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        taken.pop().unwrap().give_up();
        assert!(futures_util::poll!(&mut waiting).is_pending(), "one is not enough");
        drop(taken.pop());
        assert!(futures_util::poll!(&mut waiting).is_pending(), "the loop hears of an attempt that has ended");
        taken.pop().unwrap().give_up();
        waiting.await;
        assert_eq!(used.load(Ordering::Relaxed), 0);
        permits.wait_for(2).await;
    }
}
