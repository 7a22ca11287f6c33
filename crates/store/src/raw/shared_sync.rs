//! One sync of a directory for all threads that wait for it: a sync that begins after an entry was made covers it, whichever
//! thread began it. Attempts of one query all end with a sync of the query's directory.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::sync::{Directory, Identity};

/// The directories that are being synced now.
#[derive(Debug, Default)]
pub(super) struct SharedSyncs {
    queues: Mutex<HashMap<PathBuf, Arc<Queue>>>,
}

/// The syncs of one directory, one after another.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// For the one thread that begins the next sync.
    free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    /// The next sync, which begins when the running one has ended. A thread that comes before then shares it.
    next: Option<Arc<Round>>,
}

/// A sync that several threads wait for.
#[derive(Debug, Default)]
struct Round {
    ended: Condvar,
    /// Set under the lock of the queue's state.
    result: OnceLock<Result<Option<Identity>, Arc<io::Error>>>,
}

impl SharedSyncs {
    /// Makes every entry durable that is in `dir` now; gives which directory was found there.
    pub(super) fn sync(&self, dir: &Path) -> io::Result<Option<Identity>> {
        let queue = Arc::clone(lock(&self.queues).entry(dir.to_owned()).or_default());
        let result = queue.sync(|| {
            let opened = Directory::open(dir)?;
            opened.sync()?;
            opened.identity()
        });
        let mut queues = lock(&self.queues);
        // Two are the table's and this thread's own.
        if Arc::strong_count(&queue) == 2 {
            queues.remove(dir);
        }
        result
    }
}

impl Queue {
    fn sync(&self, work: impl FnOnce() -> io::Result<Option<Identity>>) -> io::Result<Option<Identity>> {
        let mut state = lock(&self.state);
        let round = if state.is_running {
            // The one that runs now may have begun before this thread's entry was made.
            if let Some(round) = state.next.clone() {
                return round.wait(state);
            }
            let round = Arc::clone(state.next.insert(Arc::default()));
            let wait = self.free.wait_while(state, |state| state.is_running);
            state = wait.unwrap_or_else(PoisonError::into_inner);
            state.next = None;
            round
        } else {
            Arc::default()
        };
        state.is_running = true;
        drop(state);
        let result = work().map_err(Arc::new);
        let mut state = lock(&self.state);
        state.is_running = false;
        let _ = round.result.set(result.clone());
        drop(state);
        round.ended.notify_all();
        self.free.notify_one();
        result.map_err(|error| shared(&error))
    }
}

impl Round {
    fn wait(&self, mut state: MutexGuard<'_, State>) -> io::Result<Option<Identity>> {
        loop {
            if let Some(result) = self.result.get() {
                return result.clone().map_err(|error| shared(&error));
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The error as each of those who waited gets it.
fn shared(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole whenever the lock is free, also after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Every thread makes entries and has each of them synced. A sync makes durable what was there when it began.
    #[test]
    fn a_sync_that_is_shared_began_after_the_entry_was_made() {
        const THREADS: u64 = 8;
        const ENTRIES: u64 = 300;
        let (queue, made, durable) = (Queue::default(), AtomicU64::new(0), AtomicU64::new(0));
        let syncs = AtomicU64::new(0);
        let sync = || {
            let seen = made.load(Ordering::SeqCst);
            // Long enough for others to come meanwhile.
            (0..20).for_each(|_| std::thread::yield_now());
            durable.fetch_max(seen, Ordering::SeqCst);
            syncs.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        };
        let work = || {
            for _ in 0..ENTRIES {
                let entry = made.fetch_add(1, Ordering::SeqCst) + 1;
                queue.sync(sync).unwrap();
                assert!(durable.load(Ordering::SeqCst) >= entry, "entry {entry} is not durable");
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
        let syncs = syncs.into_inner();
        assert!(syncs < THREADS * ENTRIES, "{syncs} syncs: none was shared");
    }

    #[test]
    fn directories_are_forgotten_when_nobody_syncs_them_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let syncs = SharedSyncs::default();
        assert!(syncs.sync(folder.path()).is_ok());
        assert!(syncs.sync(&folder.path().join("none")).is_err());
        assert!(lock(&syncs.queues).is_empty());
    }
}
