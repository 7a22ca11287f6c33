//! Ticks for browsers: which topics may have changed, at most once a second each. What changed is not in them; a page asks
//! again for what it shows. One task looks at the database for all streams, and only while there are some.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_store::{Changed, Store};
use tokio::sync::watch;

/// How often the database is looked at, and so how often a topic ticks at most.
const PAUSE: Duration = Duration::from_secs(1);

/// What a page may be about.
pub(crate) const TOPICS: [&str; 5] = ["partitions", "runs", "holds", "operations", "processes"];

/// How often each topic has ticked.
pub(crate) type Ticks = [u64; TOPICS.len()];

#[derive(Debug, Default)]
pub struct Events(Mutex<Option<watch::Sender<Ticks>>>);

impl Events {
    /// Follows the ticks from now on.
    pub(crate) fn follow(&self, store: &Store) -> watch::Receiver<Ticks> {
        let mut hub = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The task ends when nobody follows any more, and drops its end with that.
        if let Some(ticks) = hub.as_ref().filter(|ticks| ticks.receiver_count() > 0) {
            return ticks.subscribe();
        }
        let (ticks, followed) = watch::channel(Ticks::default());
        *hub = Some(ticks.clone());
        drop(tokio::spawn(tick(store.clone(), ticks)));
        followed
    }
}

async fn tick(store: Store, ticks: watch::Sender<Ticks>) {
    let mut changes = None;
    while ticks.receiver_count() > 0 {
        tokio::time::sleep(PAUSE).await;
        let mut following = match changes.take() {
            Some(following) => following,
            None => match store.changes().await {
                Ok(following) => following,
                Err(error) => {
                    tracing::debug!(%error, "changes cannot be followed; the next look tries again");
                    continue;
                }
            },
        };
        // Where a look fails, everything may have changed when the next one succeeds.
        let changed = match following.look().await {
            Ok(changed) => {
                changes = Some(following);
                changed
            }
            Err(_) => Changed { work: true, operations: true, processes: true },
        };
        count(&ticks, changed);
    }
}

fn count(ticks: &watch::Sender<Ticks>, changed: Changed) {
    let Changed { work, operations, processes } = changed;
    // What a person does is not always announced as work, and always has its row in the audit trail.
    let work = work || operations;
    let ticking = [work, work, work, operations, processes];
    if ticking.contains(&true) {
        ticks.send_modify(|ticks| {
            for (ticks, ticking) in ticks.iter_mut().zip(ticking) {
                *ticks += u64::from(ticking);
            }
        });
    }
}
