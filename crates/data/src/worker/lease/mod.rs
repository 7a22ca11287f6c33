//! Keeps the leases of what is under way, on a thread and a database connection of its own: work that blocks every other
//! thread, or a pool that has run dry, must not cost a lease.

mod heartbeat_loop;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use redrive_core::id::{RunId, TaskId};
use redrive_core::run::Run;
use redrive_core::time::Timestamp;
use redrive_store::{Listen, Open, Options, Store, StoreUrl};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tracing::Span;

use self::heartbeat_loop::HeartbeatLoop;
use crate::error::{Error, Result};

/// How long the answer to a report is waited for when the lease has ended.
const LAST_ANSWER: Duration = Duration::from_secs(5);

/// How a worker's leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    pub lease: Duration,
    pub heartbeat: Duration,
}

impl LeaseTerms {
    /// How long before its end a lease is given up.
    fn margin(self) -> Duration {
        self.lease / 8
    }
}

/// Why a lease is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// An operator cancelled the run.
    Cancelled,
    /// It could not be prolonged in time, or the run was taken from this worker.
    Lost,
}

/// Gives out leases that a thread keeps until they are dropped.
#[derive(Debug, Clone)]
pub struct LeaseKeeper(Arc<Holder>);

/// What the holders of leases share. The thread ends with it.
#[derive(Debug)]
struct Holder {
    leases: Arc<Leases>,
    /// Wakes the thread; closed when the thread has ended.
    nudge: mpsc::Sender<()>,
}

/// A lease that is being kept, until this is dropped.
#[derive(Debug)]
pub struct Lease {
    run_id: RunId,
    /// A run that is claimed again has another.
    task_id: TaskId,
    ending: Arc<Ending>,
    keeper: LeaseKeeper,
}

/// How a lease has ended, once it has; and word of it to the one attempt that waits for it.
#[derive(Debug, Default)]
struct Ending {
    end: OnceLock<LeaseEnd>,
    told: Notify,
    /// When the lease was prolonged last, and until when, by the store's clock.
    prolonged: Mutex<Option<(Timestamp, Timestamp)>>,
}

impl Ending {
    /// Only the first word counts.
    fn tell(&self, end: LeaseEnd) {
        let _ = self.end.set(end);
        self.told.notify_waiters();
    }

    fn prolonged(&self) -> MutexGuard<'_, Option<(Timestamp, Timestamp)>> {
        // Both are set at once, also before a panic.
        self.prolonged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait(&self) -> LeaseEnd {
        loop {
            // Listens before it looks, so that no word comes in between.
            let told = self.told.notified();
            match self.end.get() {
                Some(end) => return *end,
                None => told.await,
            }
        }
    }
}

impl Lease {
    /// Returns when the lease has ended, and never before.
    pub async fn ended(&self) -> LeaseEnd {
        self.ending.wait().await
    }

    /// How the lease has ended, if it has.
    pub fn end(&self) -> Option<LeaseEnd> {
        self.ending.end.get().copied()
    }

    /// Waits for what became of a report. When the lease ends in the meantime, a heartbeat may only have come after the
    /// report was written: the answer is waited for a little longer, because nothing else tells which it was.
    pub async fn answered<T>(&self, report: impl Future<Output = T>) -> std::result::Result<T, LeaseEnd> {
        let mut report = pin!(report);
        let end = tokio::select! {
            biased;
            answer = &mut report => return Ok(answer),
            end = self.ended() => end,
        };
        tokio::time::timeout(LAST_ANSWER, report).await.map_err(|_| end)
    }

    /// Brings a claimed run up to date with its last heartbeat.
    pub fn refresh(&self, run: &mut Run) {
        if let Some((at, until)) = *self.ending.prolonged() {
            (run.last_heartbeat, run.lease_until) = (Some(at), Some(until));
        }
    }

    /// Whether there was a heartbeat since the claim.
    pub(crate) fn is_prolonged(&self) -> bool {
        self.ending.prolonged().is_some()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // This worker may have claimed the run anew before it let go of it.
        if let Entry::Occupied(held) = self.keeper.0.leases.lock().held.entry(self.run_id)
            && held.get().task_id == self.task_id
        {
            held.remove();
        }
    }
}

/// What the thread and the leases' holders share.
#[derive(Debug)]
struct Leases {
    terms: LeaseTerms,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    held: HashMap<RunId, Held, RandomState>,
    /// When the thread looks next by itself.
    wake_at: Instant,
    /// The thread has ended, and nobody keeps anything.
    is_closed: bool,
    /// A heartbeat was asked for before its time.
    beat_now: bool,
}

#[derive(Debug)]
struct Held {
    task_id: TaskId,
    ends: Instant,
    ending: Arc<Ending>,
    /// Of the attempt, so that what is said of its lease says whose it is.
    span: Span,
}

impl Leases {
    fn new(terms: LeaseTerms) -> Self {
        let table = Table { held: HashMap::default(), wake_at: Instant::now(), is_closed: false, beat_now: false };
        Self { terms, table: Mutex::new(table) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Every change of the table is whole when the lock is free, also after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseKeeper {
    /// Starts the thread and opens its connection. The thread ends when the last handle and the last lease are gone.
    pub async fn start(url: &StoreUrl, options: Options, terms: LeaseTerms) -> Result<Self> {
        let (nudge, nudges) = mpsc::channel(1);
        let (ready, opened) = oneshot::channel();
        // It waits for no announcement.
        let (url, options) = (url.clone(), Options { connections: 1, listen: Listen::Never, ..options });
        let leases = Arc::new(Leases::new(terms));
        let shared = Arc::clone(&leases);
        let body = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(Error::Thread(error)))),
            };
            runtime.block_on(async {
                match Store::open(&url, Open::Current, options).await {
                    Ok(store) => {
                        let _ = ready.send(Ok(()));
                        HeartbeatLoop::new(store.data(), shared).run(nudges).await;
                    }
                    Err(error) => drop(ready.send(Err(error.into()))),
                }
            });
        };
        std::thread::Builder::new().name("lease keeper".to_owned()).spawn(body).map_err(Error::Thread)?;
        opened.await.unwrap_or(Err(Error::KeeperGone))?;
        Ok(Self(Arc::new(Holder { leases, nudge })))
    }

    /// Keeps leases that nothing prolongs, for tests of what holds them.
    #[cfg(test)]
    pub(super) fn without_thread(terms: LeaseTerms) -> Self {
        let leases = Arc::new(Leases::new(terms));
        Self(Arc::new(Holder { leases, nudge: mpsc::channel(1).0 }))
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.0.leases.lock().held.len()
    }

    /// Has the thread send a heartbeat now: a run was cancelled, and its handler is to hear of it.
    pub fn beat_now(&self) {
        self.0.leases.lock().beat_now = true;
        self.nudge();
    }

    fn nudge(&self) {
        // A nudge that is on its way already will do.
        let _ = self.0.nudge.try_send(());
    }

    /// Keeps a lease that was got by a claim asked for at `asked`. What is said of it is said in the span of now.
    pub fn hold(&self, run_id: RunId, task_id: TaskId, asked: Instant) -> Lease {
        let mut table = self.0.leases.lock();
        let lease = self.hold_in(&mut table, run_id, task_id, asked, Span::current());
        self.held_since(table, asked);
        lease
    }

    /// The same for all that one claim has brought, each with the span of its attempt.
    pub(super) fn hold_all(&self, claimed: impl Iterator<Item = (RunId, TaskId, Span)>, asked: Instant) -> Vec<Lease> {
        let mut table = self.0.leases.lock();
        let hold = |(run_id, task_id, span)| self.hold_in(&mut table, run_id, task_id, asked, span);
        let leases = claimed.map(hold).collect();
        self.held_since(table, asked);
        leases
    }

    fn hold_in(&self, table: &mut Table, run_id: RunId, task_id: TaskId, asked: Instant, span: Span) -> Lease {
        let ending = Arc::new(Ending::default());
        if table.is_closed {
            ending.tell(LeaseEnd::Lost);
        }
        let ends = asked + self.0.leases.terms.lease;
        let held = Held { task_id, ends, ending: Arc::clone(&ending), span };
        // A claim of the run that is not the current one any more is kept no longer.
        if let Some(before) = table.held.insert(run_id, held) {
            before.ending.tell(LeaseEnd::Lost);
        }
        Lease { run_id, task_id, ending, keeper: self.clone() }
    }

    /// Wakes the thread where a lease that was got now has to be looked at before it would wake by itself.
    fn held_since(&self, table: MutexGuard<'_, Table>, asked: Instant) {
        let terms = self.0.leases.terms;
        let is_sooner = asked + terms.lease - terms.margin() < table.wake_at;
        drop(table);
        if is_sooner {
            self.nudge();
        }
    }
}
