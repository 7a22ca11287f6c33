//! A process says every few seconds that it is there, on a task of its own, and takes its word back when it ends in order. Its
//! service manager is told the same.
//! A database that cannot be reached costs it beats, and nothing else.

use redrive_core::process::{BEAT, Kind, Process, Serves};
use redrive_data::worker::WorkerCounts;
use redrive_store::Store;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::manager;
use crate::commands::person;

/// What a process is, and what it serves now.
#[derive(Debug, Clone)]
pub struct Me {
    pub kind: Kind,
    pub config: String,
    pub serves: Serves,
}

/// The beats of this process.
#[derive(Debug)]
pub struct Presence {
    me: watch::Sender<Me>,
    stop: oneshot::Sender<()>,
    beats: JoinHandle<()>,
}

impl Presence {
    /// Beats from now on. What a worker has claimed is seen in its counts.
    pub async fn begin(store: &Store, me: Me, counts: Option<watch::Receiver<WorkerCounts>>) -> Self {
        let now = store.now();
        let process = Process {
            id: store.new_process_id(),
            kind: me.kind,
            name: name(),
            host: whoami::hostname().unwrap_or_else(|_| "unknown".to_owned()),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: me.config.clone(),
            serves: me.serves.clone(),
            started_at: now,
            last_seen: now,
            last_claim: None,
            drain: false,
        };
        let ((me, told), (stop, stopped)) = (watch::channel(me), oneshot::channel());
        let mut beats = Beats { store: store.clone(), process, counts, claimed: 0 };
        // The first beat is waited for: what is started after this is seen to be served.
        beats.beat().await;
        manager::ready();
        Self { me, stop, beats: tokio::spawn(beats.go_on(told, stopped)) }
    }

    /// Tells at once what has changed.
    pub fn tell(&self, config: String, serves: Serves) {
        self.me.send_modify(|me| (me.config, me.serves) = (config, serves));
    }

    /// Takes the word back.
    pub async fn end(self) {
        manager::stopping();
        let _ = self.stop.send(());
        if let Err(error) = self.beats.await {
            tracing::warn!(%error, "the beats ended early");
        }
    }
}

/// What this process is called, here and as the worker of its runs.
pub fn name() -> String {
    format!("{} pid {}", person(), std::process::id())
}

struct Beats {
    store: Store,
    process: Process,
    counts: Option<watch::Receiver<WorkerCounts>>,
    /// How much was claimed by the last beat.
    claimed: u64,
}

impl Beats {
    async fn go_on(mut self, mut told: watch::Receiver<Me>, mut stopped: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                Ok(()) = told.changed() => {
                    let me = told.borrow_and_update().clone();
                    (self.process.config, self.process.serves) = (me.config, me.serves);
                }
                () = tokio::time::sleep(BEAT) => {}
            }
            self.beat().await;
        }
        if let Err(error) = self.store.forget_process(self.process.id).await {
            tracing::debug!(%error, "this process is shown until it is silent for long");
        }
    }

    async fn beat(&mut self) {
        // A database that does not answer is no reason to start this process anew.
        manager::alive();
        self.process.last_seen = self.store.now();
        let claimed = self.counts.as_ref().map_or(0, |counts| counts.borrow().claimed);
        if claimed > self.claimed {
            (self.claimed, self.process.last_claim) = (claimed, Some(self.process.last_seen));
        }
        if let Err(error) = self.store.beat(&self.process).await {
            tracing::debug!(%error, "a beat was lost");
        }
    }
}
