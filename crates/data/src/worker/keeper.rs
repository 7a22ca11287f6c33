//! Keeps the leases of what is under way, on a thread and a database connection of its own: work that blocks every other
//! thread, or a pool that has run dry, must not cost a lease.
//!
//! It fences its own worker, too. When a lease could not be prolonged and is about to end, the attempt is told that it
//! is lost before anybody else may take its partition.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::id::{RunId, TaskId};
use redrive_store::{DataStore, Open, Options, Store, StoreUrl};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::error::{Error, Result, TRY_AGAIN};

/// How a worker's leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub lease: Duration,
    pub heartbeat: Duration,
}

impl Terms {
    /// How long before its end a lease is given up.
    fn margin(self) -> Duration {
        self.lease / 8
    }
}

#[derive(Debug, Clone)]
pub struct Keeper {
    orders: mpsc::UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    Hold(RunId, Hold),
    LetGo(RunId),
}

#[derive(Debug)]
struct Hold {
    task_id: TaskId,
    ends: Instant,
    lost: watch::Sender<bool>,
}

/// A lease that is being kept, until this is dropped.
#[derive(Debug)]
pub struct Held {
    run_id: RunId,
    lost: watch::Receiver<bool>,
    keeper: Keeper,
}

impl Held {
    /// Returns when the lease is lost, and never before.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        // A keeper that is gone keeps nothing.
        let _ = lost.wait_for(|lost| *lost).await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.keeper.orders.send(Order::LetGo(self.run_id));
    }
}

impl Keeper {
    /// Starts the thread and opens its connection. The thread ends when the last handle and the last lease are gone.
    pub async fn start(url: &StoreUrl, options: Options, terms: Terms) -> Result<Self> {
        let (orders, inbox) = mpsc::unbounded_channel();
        let (ready, opened) = oneshot::channel();
        let (url, options) = (url.clone(), Options { connections: 1, ..options });
        let body = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(Error::Thread(error)))),
            };
            runtime.block_on(async {
                match Store::open(&url, Open::Current, options).await {
                    Ok(store) => {
                        let _ = ready.send(Ok(()));
                        Rounds::new(store.data(), terms).run(inbox).await;
                    }
                    Err(error) => drop(ready.send(Err(error.into()))),
                }
            });
        };
        std::thread::Builder::new().name("lease keeper".to_owned()).spawn(body).map_err(Error::Thread)?;
        opened.await.unwrap_or(Err(Error::KeeperGone))?;
        Ok(Self { orders })
    }

    /// Keeps a lease that was got by a claim asked for at `asked`.
    pub fn hold(&self, run_id: RunId, task_id: TaskId, asked: Instant, terms: Terms) -> Held {
        let (lost, told) = watch::channel(false);
        let hold = Hold { task_id, ends: asked + terms.lease, lost };
        if let Err(mpsc::error::SendError(Order::Hold(_, hold))) = self.orders.send(Order::Hold(run_id, hold)) {
            hold.lost.send_replace(true);
        }
        Held { run_id, lost: told, keeper: self.clone() }
    }
}

/// The thread's own state.
struct Rounds {
    data: DataStore,
    terms: Terms,
    held: BTreeMap<RunId, Hold>,
    next: Instant,
}

/// What a heartbeat came back with.
struct Beaten {
    asked: Instant,
    runs: Vec<(RunId, TaskId)>,
    still_held: redrive_store::Result<Vec<bool>>,
}

impl Rounds {
    fn new(data: DataStore, terms: Terms) -> Self {
        Self { data, terms, held: BTreeMap::new(), next: Instant::now() + terms.heartbeat }
    }

    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        // A heartbeat runs beside this loop, so that a database that hangs cannot keep a lease from being given up.
        let (answer, mut answers) = mpsc::unbounded_channel();
        let mut beating = false;
        loop {
            let wake = if beating { self.fence_at() } else { self.fence_at().min(self.next) };
            tokio::select! {
                order = inbox.recv() => match order {
                    Some(Order::Hold(run_id, hold)) => drop(self.held.insert(run_id, hold)),
                    Some(Order::LetGo(run_id)) => drop(self.held.remove(&run_id)),
                    None => return,
                },
                Some(beaten) = answers.recv() => {
                    beating = false;
                    self.hear(beaten);
                }
                () = tokio::time::sleep_until(wake) => {}
            }
            self.fence();
            if !beating && Instant::now() >= self.next {
                beating = self.beat(&answer);
            }
        }
    }

    fn fence_at(&self) -> Instant {
        let far = Instant::now() + self.terms.heartbeat;
        self.held.values().map(|hold| hold.ends - self.terms.margin()).min().map_or(far, |first| first.min(far))
    }

    /// Gives up what is about to end.
    fn fence(&mut self) {
        let limit = Instant::now() + self.terms.margin();
        self.held.retain(|run_id, hold| {
            let keep = hold.ends > limit;
            if !keep {
                tracing::warn!(%run_id, "the lease could not be prolonged; the attempt is given up");
                hold.lost.send_replace(true);
            }
            keep
        });
    }

    fn beat(&mut self, answer: &mpsc::UnboundedSender<Beaten>) -> bool {
        let asked = Instant::now();
        self.next = asked + self.terms.heartbeat;
        if self.held.is_empty() {
            return false;
        }
        let runs: Vec<_> = self.held.iter().map(|(run_id, hold)| (*run_id, hold.task_id)).collect();
        let (data, lease, answer) = (self.data.clone(), self.terms.lease, answer.clone());
        tokio::spawn(async move {
            let still_held = data.beat(runs.clone(), lease).await;
            let _ = answer.send(Beaten { asked, runs, still_held });
        });
        true
    }

    fn hear(&mut self, beaten: Beaten) {
        let still_held = match beaten.still_held {
            Ok(still_held) => still_held,
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed; it is tried again");
                self.next = Instant::now() + TRY_AGAIN.min(self.terms.heartbeat);
                return;
            }
        };
        for ((run_id, task_id), still) in beaten.runs.into_iter().zip(still_held) {
            let Some(hold) = self.held.get_mut(&run_id).filter(|hold| hold.task_id == task_id) else { continue };
            if still {
                hold.ends = beaten.asked + self.terms.lease;
            } else {
                tracing::warn!(%run_id, "the lease was lost");
                hold.lost.send_replace(true);
                self.held.remove(&run_id);
            }
        }
    }
}
