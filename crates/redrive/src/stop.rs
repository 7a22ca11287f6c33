//! SIGTERM and SIGINT. A command that only looks ends at the first one. One that changes something, and a service, put their
//! things in order first, in bounded time; the next signal ends them at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_store::Hurry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

/// What each call of the database has after the first signal.
const CALL: Duration = Duration::from_secs(3);
/// From when on no call has any time left: after the first signal, of a worker after its grace or the second signal.
const LAST_CALL: Duration = Duration::from_secs(5);
/// When a command ends whatever hangs.
const LIMIT: Duration = Duration::from_secs(8);
/// What each call has that gives a worker's runs back.
const GIVE_BACK: Duration = Duration::from_secs(2);
/// How long after its grace, or after the second signal, a worker may take to end its programs and give back its runs.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// How a program ends when it is told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    AtOnce,
    InOrder,
    /// It gives back what it cannot finish within its grace.
    Worker {
        grace: Duration,
    },
}

/// What the signals of this process mean; shared by all that have to heed them.
#[derive(Debug, Clone)]
pub struct StopSignals(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hurry: Hurry,
    signals: watch::Sender<u32>,
    manner: Mutex<Manner>,
}

impl StopSignals {
    /// Listens from now on.
    pub fn listen() -> std::io::Result<Self> {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let (hurry, signals, manner) = (Hurry::default(), watch::channel(0).0, Mutex::new(Manner::AtOnce));
        let stop = Self(Arc::new(Inner { hurry, signals, manner }));
        let heard = stop.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                heard.0.signals.send_modify(|count| *count += 1);
            }
        });
        Ok(stop)
    }

    /// What the stores of this process are to be opened with.
    pub fn hurry(&self) -> Hurry {
        self.0.hurry.clone()
    }

    /// From now on there is something to put in order.
    pub fn in_order(&self) {
        self.set(Manner::InOrder);
    }

    /// From now on this is a worker.
    pub fn with_grace(&self, grace: Duration) {
        self.set(Manner::Worker { grace });
    }

    fn set(&self, manner: Manner) {
        *self.0.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    /// Stops as a signal would: what a service does when one of its parts cannot go on.
    pub fn request(&self) {
        self.0.signals.send_modify(|count| *count = (*count).max(1));
    }

    pub fn is_requested(&self) -> bool {
        *self.0.signals.borrow() > 0
    }

    /// Returns when a signal has come.
    pub async fn requested(&self) {
        self.heard(1).await;
    }

    /// Returns when this many signals have come.
    pub async fn heard(&self, count: u32) {
        // The sender is in `self`, so waiting cannot fail.
        let _ = self.0.signals.subscribe().wait_for(|signals| *signals >= count).await;
    }

    /// Leaves a worker's calls only as much time as giving back takes: each of them, and all of them one after another.
    pub async fn give_back(&self) {
        self.0.hurry.allow(GIVE_BACK);
        sleep(LAST_CALL).await;
        self.0.hurry.allow(Duration::ZERO);
    }

    /// Returns when the process has to end, whatever it is doing.
    pub async fn must_end(&self) {
        self.heard(1).await;
        let manner = *self.0.manner.lock().unwrap_or_else(PoisonError::into_inner);
        match manner {
            Manner::AtOnce => {}
            Manner::InOrder => {
                self.0.hurry.allow(CALL);
                let unheeded = async {
                    sleep(LAST_CALL).await;
                    self.0.hurry.allow(Duration::ZERO);
                    sleep(LIMIT - LAST_CALL).await;
                };
                self.unless_heard(2, unheeded).await;
            }
            Manner::Worker { grace } => {
                self.0.hurry.allow(grace.max(GIVE_BACK));
                if self.unless_heard(2, sleep(grace + LAST_WORDS)).await {
                    self.unless_heard(3, sleep(LAST_WORDS)).await;
                }
            }
        }
    }

    /// Waits, but not beyond this many signals; gives whether they have come.
    async fn unless_heard(&self, count: u32, waiting: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = self.heard(count) => true,
            () = waiting => false,
        }
    }
}
