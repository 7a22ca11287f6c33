//! The worker's loop. It claims only what its free permits can start now, wakes when there may be work, and polls as
//! the fallback.

mod attempting;
mod care;
mod claim;
mod drain;
mod ends;
mod gathering;
mod line;
mod options;

use std::panic::resume_unwind;
use std::sync::Arc;

use redrive_store::{DataStore, Wakeups};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::counts::WorkerCounts;
use super::lease::LeaseKeeper;
use super::permit::Permits;
use super::served::Served;
use super::shutdown::Shutdown;
use super::workload::{Claimant, Workload};
use crate::error::{Error, Result};
use attempting::Finished;
use care::{Look, Trail};
use claim::Answer;
use gathering::Gathering;
use line::Ends;
pub use options::WorkerOptions;

/// What a worker serves from now on. Attempts under way go on as they were begun.
#[derive(Debug)]
pub struct Replacement {
    pub workloads: Vec<Arc<dyn Workload>>,
    pub concurrency: u32,
}

#[derive(Debug)]
pub struct Worker {
    data: DataStore,
    keeper: LeaseKeeper,
    served: Vec<Served>,
    options: WorkerOptions,
    claimant: Arc<Claimant>,
    shutdown: Shutdown,
    counts: watch::Sender<WorkerCounts>,
    /// What it has done, which is shown once for many attempts.
    done: WorkerCounts,
    /// The claims that are under way.
    claims: JoinSet<Answer>,
    /// The looks at everything but the attempts that are under way.
    looks: JoinSet<Look>,
    is_sweeping: bool,
    trail: Trail,
    /// The tasks of attempts that are under way; a task may be of several.
    attempts: JoinSet<()>,
    /// How many attempts have not been heard of yet.
    under_way: usize,
    /// What those tasks have to say.
    finished: mpsc::UnboundedReceiver<Vec<Finished>>,
    ends: Ends,
    permits: Permits,
    /// Counts the claims that have brought something.
    turn: u64,
    /// When leases that have passed are looked for next.
    sweep_at: Instant,
    /// Why the first workload that could not be used has left the drain.
    unusable: Option<Error>,
    /// What a reload puts in the place of the workloads.
    replacements: mpsc::UnboundedReceiver<Replacement>,
    replace: mpsc::UnboundedSender<Replacement>,
    /// How many listings of new jobs are under way; a drain waits for them.
    listings: Option<watch::Receiver<usize>>,
    gathering: Gathering,
    /// The announcements that were heard.
    heard: Wakeups,
}

impl Worker {
    pub fn new(
        data: DataStore,
        keeper: LeaseKeeper,
        workloads: Vec<Arc<dyn Workload>>,
        options: WorkerOptions,
        shutdown: Shutdown,
    ) -> Self {
        let (replace, replacements) = mpsc::unbounded_channel();
        let (ends, finished) = mpsc::unbounded_channel();
        Self {
            data,
            keeper,
            replacements,
            replace,
            served: workloads.into_iter().map(Served::new).collect(),
            claimant: Arc::new(Claimant {
                worker: options.name.clone(),
                lease: options.terms.lease,
                shutdown: shutdown.clone(),
            }),
            options,
            shutdown,
            counts: watch::channel(WorkerCounts::default()).0,
            done: WorkerCounts::default(),
            claims: JoinSet::new(),
            looks: JoinSet::new(),
            is_sweeping: false,
            trail: Trail::new(),
            attempts: JoinSet::new(),
            under_way: 0,
            finished,
            ends,
            permits: Permits::default(),
            turn: 0,
            sweep_at: Instant::now(),
            unusable: None,
            listings: None,
            gathering: Gathering::default(),
            heard: Wakeups::default(),
        }
    }

    /// Has a draining worker stay as long as new jobs are being listed: until the count is 0.
    pub fn stay_for(&mut self, listings: watch::Receiver<usize>) {
        self.listings = Some(listings);
    }

    /// What the worker has done, as it goes.
    pub fn counts(&self) -> watch::Receiver<WorkerCounts> {
        self.counts.subscribe()
    }

    /// Puts other workloads in the place of those that the worker has.
    pub fn replacing(&self) -> mpsc::UnboundedSender<Replacement> {
        self.replace.clone()
    }

    fn replace(&mut self, Replacement { workloads, concurrency }: Replacement) {
        self.options.concurrency = concurrency;
        // They stay in their places, by which their attempts know them.
        self.served.iter_mut().for_each(|served| served.is_out = true);
        self.served.extend(workloads.into_iter().map(Served::new));
    }

    /// Works until a shutdown is requested, or with `drain` until nothing is due. A fault of our own, such as the
    /// database's, ends a draining worker; in any other the workload that met it rests, and the others go on. So do the
    /// others of a draining worker where one workload alone cannot be used; that is the error which it ends with.
    pub async fn run(mut self) -> Result<WorkerCounts> {
        let worked = self.work().await;
        if worked.is_err() {
            self.shutdown.leave();
        }
        self.finish().await;
        for served in &self.served {
            // Also what attempts have started that were left to their leases.
            served.workload.stopped().await;
        }
        self.show_counts();
        match worked {
            // A call of the database was given up for the sake of the end that was asked for.
            Err(Error::Store(redrive_store::Error::Stopped { .. })) if self.shutdown.is_requested() => {}
            worked => worked?,
        }
        Ok(self.done)
    }

    async fn work(&mut self) -> Result<()> {
        let (mut wakeups, mut cancels) = (self.data.wakeups(), self.data.cancels());
        while !self.shutdown.is_requested() {
            self.look_after();
            // Marked before the claim, so that an announcement during it is not missed.
            self.wake(&mut wakeups);
            self.claim();
            // Looked at before the backlog: what a listing brought is there when it has ended.
            let is_idle = self.claims.is_empty() && self.looks.is_empty() && self.attempts.is_empty();
            if self.options.drain && is_idle && !self.is_listing() && self.is_drained().await? {
                break;
            }
            self.wait(&mut wakeups, &mut cancels).await?;
        }
        self.unusable.take().map_or(Ok(()), Err)
    }

    async fn wait(&mut self, wakeups: &mut watch::Receiver<Wakeups>, cancels: &mut watch::Receiver<u64>) -> Result<()> {
        let listening = self.room() > 0 && !self.served.iter().all(|served| served.is_out || served.is_resting());
        let (enough, look_again) = (self.enough_given_up(), self.look_again());
        let shutdown = self.shutdown.clone();
        tokio::select! {
            () = shutdown.requested() => {}
            Some(replacement) = self.replacements.recv() => self.replace(replacement),
            Some(answer) = self.claims.join_next() => self.answered(answer)?,
            Some(look) = self.looks.join_next() => self.looked(look)?,
            Some(finished) = self.finished.recv() => self.hear(finished)?,
            Some(_) = self.attempts.join_next() => {}
            () = self.permits.wait_for(enough) => {}
            Ok(()) = wakeups.changed(), if listening => {}
            Ok(()) = cancels.changed() => self.keeper.beat_now(),
            () = listed(self.listings.as_mut()) => {}
            () = tokio::time::sleep_until(look_again) => {}
        }
        self.hear_all()?;
        self.show_counts();
        Ok(())
    }

    /// Wakes the workloads that there may be new work for.
    fn wake(&mut self, wakeups: &mut watch::Receiver<Wakeups>) {
        let now = *wakeups.borrow_and_update();
        let before = std::mem::replace(&mut self.heard, now);
        let concerned = |served: &&mut Served| now.of(served.workload.kind()) != before.of(served.workload.kind());
        self.served.iter_mut().filter(concerned).for_each(Served::wake);
    }

    /// Shows what was done since the last time. Every receiver is woken, so that it is not done for each attempt.
    fn show_counts(&self) {
        self.counts.send_if_modified(|shown| std::mem::replace(shown, self.done) != self.done);
    }

    /// When to look although nothing has happened.
    fn look_again(&self) -> Instant {
        let latest = (Instant::now() + self.options.poll).min(self.sweep_at);
        if self.room() == 0 {
            return latest;
        }
        let gathered = self.gathers_until();
        let served = self.served.iter().filter(|served| !served.is_out);
        served.filter_map(Served::look_at).chain(gathered).fold(latest, Instant::min)
    }
}

/// What a task gave at its end. Nothing where the runtime is ending, and this task with it.
fn finished<T>(joined: std::result::Result<T, JoinError>) -> Option<T> {
    match joined {
        Ok(given) => Some(given),
        Err(gone) if gone.is_panic() => resume_unwind(gone.into_panic()),
        Err(_) => None,
    }
}

/// Returns when a listing of new jobs has ended; never where there is none.
async fn listed(listings: Option<&mut watch::Receiver<usize>>) {
    let has_changed = match listings {
        Some(listings) => listings.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        std::future::pending().await
    }
}
