//! How a program that was told to stop gets its stores to end their calls.

use std::future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How much time the calls of a store have left. A program gives one to every store that it opens, and hurries them all
/// when it is told to stop.
#[derive(Debug, Clone)]
pub struct Hurry(watch::Sender<Option<Rush>>);

#[derive(Debug, Clone, Copy)]
struct Rush {
    since: Instant,
    each: Duration,
}

impl Rush {
    fn end_of(self, begun: Instant) -> Instant {
        begun.max(self.since) + self.each
    }
}

impl Default for Hurry {
    fn default() -> Self {
        Self(watch::channel(None).0)
    }
}

impl Hurry {
    /// Lets no call take longer than this from now on. One that is under way has this long, too.
    pub fn allow(&self, each: Duration) {
        self.0.send_replace(Some(Rush { since: Instant::now(), each }));
    }

    /// Whether a call that began then has to end.
    pub(crate) fn is_over(&self, begun: Instant) -> bool {
        self.0.borrow().is_some_and(|rush| Instant::now() >= rush.end_of(begun))
    }

    /// Returns when a call that begins now has to end: never, as long as there is no hurry.
    pub(crate) async fn over(&self) {
        let begun = Instant::now();
        let mut heard = self.0.subscribe();
        loop {
            let rush = *heard.borrow_and_update();
            let end = async {
                match rush {
                    Some(rush) => tokio::time::sleep_until(rush.end_of(begun)).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                () = end => return,
                // The sender is in `self`, so waiting cannot fail.
                _ = heard.changed() => {}
            }
        }
    }
}
