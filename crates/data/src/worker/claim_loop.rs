//! The worker's loop. It claims only what its free permits can start now, wakes when there may be work, and polls as
//! the fallback.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use redrive_core::count;
use redrive_store::{Backlog, DataStore, Queued};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::attempt_end::{AttemptEnd, AttemptResult};
use super::counts::WorkerCounts;
use super::lease::{LeaseKeeper, LeaseTerms};
use super::permit::{Permit, Permits};
use super::served::{Served, even_share};
use super::shutdown::Shutdown;
use super::sweep;
use super::workload::{Claimant, Task, Workload};
use crate::error::{Error, Result};

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The worker's name, for the runs' rows.
    pub name: String,
    pub concurrency: u32,
    pub terms: LeaseTerms,
    /// How long to sleep when there is nothing to do and nothing is announced.
    pub poll: Duration,
    /// How long work under way may go on after a shutdown was requested.
    pub grace: Duration,
    /// End when there is nothing to do.
    pub drain: bool,
}

impl WorkerOptions {
    /// How many attempts a worker runs at once whose handlers are Rust code: a task is cheap beside a process.
    const EMBEDDED_CONCURRENCY: u32 = 1024;

    /// The options of a worker inside another program: leases of two minutes, and many attempts at once.
    pub fn embedded(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            concurrency: Self::EMBEDDED_CONCURRENCY,
            terms: LeaseTerms { lease: Duration::from_secs(120), heartbeat: Duration::from_secs(30) },
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(30),
            drain: false,
        }
    }
}

/// How long giving back may take when the worker has to leave.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A draining worker gives up after this many empty claims although the backlog says that there is work.
const FRUITLESS: u32 = 5;

/// How long free permits gather while there is more to claim than they can take.
const GATHER: Duration = Duration::from_millis(10);

/// How many attempts may be under way for each permit, those that are settling included.
const UNDER_WAY: u32 = 4;

/// An attempt whose task has ended.
struct Finished {
    /// Its workload, by its place among the worker's.
    nth: usize,
    permit: Option<Permit>,
    result: AttemptResult,
    span: Span,
}

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
    claimant: Claimant,
    shutdown: Shutdown,
    counts: watch::Sender<WorkerCounts>,
    /// What it has done, which is shown once for many attempts.
    done: WorkerCounts,
    attempts: JoinSet<Finished>,
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
    /// The last claim brought all that was asked for: before then only a claim for many permits is worth its transaction.
    gather_until: Instant,
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
        Self {
            data,
            keeper,
            replacements,
            replace,
            served: workloads.into_iter().map(Served::new).collect(),
            claimant: Claimant { worker: options.name.clone(), lease: options.terms.lease },
            options,
            shutdown,
            counts: watch::channel(WorkerCounts::default()).0,
            done: WorkerCounts::default(),
            attempts: JoinSet::new(),
            permits: Permits::default(),
            turn: 0,
            sweep_at: Instant::now(),
            unusable: None,
            listings: None,
            gather_until: Instant::now(),
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
            // All of it may wait for a sink that does not answer, and can be given up at any moment.
            let shutdown = self.shutdown.clone();
            tokio::select! {
                biased;
                () = shutdown.requested() => break,
                looked = self.look_after() => looked?,
            }
            // Marked before the claim, so that an announcement during it is not missed.
            if wakeups.has_changed().unwrap_or(true) {
                wakeups.borrow_and_update();
                self.served.iter_mut().for_each(Served::wake);
            }
            let claimed = self.claim().await?;
            // Looked at before the backlog: what a listing brought is there when it has ended.
            let is_idle = claimed == 0 && self.attempts.is_empty() && !self.is_listing();
            if self.options.drain && is_idle && self.is_drained().await? {
                break;
            }
            self.wait(&mut wakeups, &mut cancels).await?;
        }
        self.unusable.take().map_or(Ok(()), Err)
    }

    /// Looks after everything but the attempts.
    async fn look_after(&mut self) -> Result<()> {
        self.recover().await?;
        self.sweep().await?;
        self.check().await
    }

    /// Asks each workload that could claim whether what it needs is there.
    async fn check(&mut self) -> Result<()> {
        for nth in 0..self.served.len() {
            if !self.served[nth].wants_check() {
                continue;
            }
            match self.served[nth].workload.is_ready().await {
                Ok(()) => self.served[nth].checked(),
                Err(error) => self.fault(nth, "looking at what it needs", error)?,
            }
        }
        Ok(())
    }

    /// Asks each workload whose rest is over whether what failed is well again.
    async fn recover(&mut self) -> Result<()> {
        for nth in 0..self.served.len() {
            let served = &mut self.served[nth];
            if served.is_out || served.is_resting() {
                continue;
            }
            let Some(fault) = served.fault.take() else { continue };
            if let Err(error) = served.workload.has_recovered(&fault).await {
                self.fault(nth, "looking whether all is well again", error)?;
            }
        }
        Ok(())
    }

    /// Ends what other workers left behind, once in a while.
    async fn sweep(&mut self) -> Result<()> {
        if Instant::now() < self.sweep_at {
            return Ok(());
        }
        self.sweep_at = Instant::now() + (self.options.terms.lease / 4).max(Duration::from_millis(100));
        let mut swept = BTreeSet::new();
        for nth in 0..self.served.len() {
            // One workload of a kind ends the runs of all.
            if self.served[nth].is_out
                || self.served[nth].is_resting()
                || !swept.insert(self.served[nth].workload.kind())
            {
                continue;
            }
            match sweep::end_expired(&self.data, &self.served[nth].workload).await {
                Ok(ended) => self.done.abandoned += count::of(ended),
                Err(error) => self.fault(nth, "ending what was abandoned", error)?,
            }
            self.served[nth].workload.tidy().await;
        }
        Ok(())
    }

    /// Claims for the free permits and starts what was claimed; gives how many. Each workload is offered an even share
    /// first, and then what the others have left over. The one that has waited longest for a permit comes first.
    async fn claim(&mut self) -> Result<usize> {
        if self.room() == 0 || self.is_gathering() {
            return Ok(0);
        }
        let mut order: Vec<usize> = (0..self.served.len()).filter(|&nth| !self.served[nth].is_out).collect();
        order.sort_by_key(|&nth| self.served[nth].last_turn);
        let mut claimed = 0;
        for &nth in &order {
            let share = even_share(self.options.concurrency, order.len(), self.served[nth].running(), self.room());
            claimed += self.claim_for(nth, share).await?;
        }
        for &nth in &order {
            claimed += self.claim_for(nth, self.room()).await?;
        }
        Ok(claimed)
    }

    async fn claim_for(&mut self, nth: usize, room: u32) -> Result<usize> {
        if room == 0 || !self.served[nth].is_ready() {
            return Ok(0);
        }
        let asked = Instant::now();
        let claimed = match self.served[nth].workload.claim(room, &self.claimant).await {
            Ok(claimed) => claimed,
            Err(error) => {
                self.fault(nth, "claiming", error)?;
                return Ok(0);
            }
        };
        let (served, found) = (&mut self.served[nth], claimed.tasks.len());
        if found > 0 {
            served.fruitless = 0;
            self.turn += 1;
            served.last_turn = self.turn;
        }
        if count::of(found) < u64::from(room) {
            let poll = Instant::now() + self.options.poll;
            served.quiet(claimed.look_again.map_or(poll, |look_again| look_again.min(poll)));
        } else {
            self.gather_until = Instant::now() + GATHER;
        }
        self.done.claimed += count::of(found);
        self.show_counts();
        claimed.tasks.into_iter().for_each(|task| self.start(nth, task, asked));
        Ok(found)
    }

    fn start(&mut self, nth: usize, task: Task, asked: Instant) {
        let lease = task.span.in_scope(|| self.keeper.hold(task.run_id, task.task_id, asked));
        let attempt = (task.start)(lease, self.shutdown.clone());
        let permit = self.permits.take(&self.served[nth].running);
        self.spawn(nth, Some(permit), attempt, task.span);
    }

    fn spawn(
        &mut self,
        nth: usize,
        mut permit: Option<Permit>,
        attempt: BoxFuture<'static, AttemptResult>,
        span: Span,
    ) {
        let within = span.clone();
        let running = async move {
            let mut result = unless_panicked(attempt).await;
            while let AttemptResult::Settling { rest } = result {
                if let Some(permit) = permit.take() {
                    permit.give_up();
                }
                result = unless_panicked(rest).await;
            }
            Finished { nth, permit, result, span }
        };
        self.attempts.spawn(running.instrument(within));
    }

    /// Whether a few free permits wait for more: there is more to claim, and a claim for many costs little more than a
    /// claim for one.
    fn is_gathering(&self) -> bool {
        self.room().saturating_mul(2) < self.options.concurrency && Instant::now() < self.gather_until
    }

    /// How many permits have to be given up, counted from the beginning, before another claim is worth a look.
    fn enough_given_up(&self) -> u64 {
        // Read before the room, so that one which is given up in between is not missed.
        let given_up = self.permits.given_up();
        let lacking = if self.is_gathering() { (self.options.concurrency / 2).saturating_sub(self.room()) } else { 1 };
        given_up + u64::from(lacking.max(1))
    }

    /// How many permits are free, as long as not too many attempts wait for our own disk and database.
    fn room(&self) -> u32 {
        let concurrency = self.options.concurrency;
        let working = self.served.iter().map(Served::running).fold(0, u32::saturating_add);
        let under_way = u32::try_from(self.attempts.len()).unwrap_or(u32::MAX);
        concurrency.saturating_sub(working).min(concurrency.saturating_mul(UNDER_WAY).saturating_sub(under_way))
    }

    fn is_listing(&self) -> bool {
        self.listings.as_ref().is_some_and(|listings| *listings.borrow() > 0)
    }

    /// Whether nothing is due any more. What a limit holds back is due when an attempt of another worker has ended or
    /// its lease has; what is paused or cools down is not.
    async fn is_drained(&mut self) -> Result<bool> {
        let (mut is_drained, mut elsewhere) = (true, 0);
        for served in self.served.iter_mut().filter(|served| !served.is_out) {
            let Backlog { queued, in_flight } = served.workload.backlog().await?;
            is_drained &= match queued {
                Queued::Nothing => true,
                Queued::HeldBack => false,
                // It came after the claim, or its place did.
                Queued::Claimable => served.fruitless >= FRUITLESS,
            };
            served.fruitless = if queued == Queued::Claimable { served.fruitless + 1 } else { 0 };
            elsewhere += in_flight;
        }
        self.done.elsewhere = is_drained.then_some(elsewhere);
        Ok(is_drained)
    }

    async fn wait(&mut self, wakeups: &mut watch::Receiver<u64>, cancels: &mut watch::Receiver<u64>) -> Result<()> {
        let listening = self.room() > 0 && !self.served.iter().all(|served| served.is_out || served.is_resting());
        let (enough, look_again) = (self.enough_given_up(), self.look_again());
        let shutdown = self.shutdown.clone();
        tokio::select! {
            () = shutdown.requested() => {}
            Some(replacement) = self.replacements.recv() => self.replace(replacement),
            Some(ended) = self.attempts.join_next() => self.hear(ended)?,
            () = self.permits.wait_for(enough) => {}
            Ok(()) = wakeups.changed(), if listening => self.served.iter_mut().for_each(Served::wake),
            Ok(()) = cancels.changed() => self.keeper.beat_now(),
            () = listed(self.listings.as_mut()) => {}
            () = tokio::time::sleep_until(look_again) => {}
        }
        while let Some(ended) = self.attempts.try_join_next() {
            self.hear(ended)?;
        }
        self.show_counts();
        Ok(())
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
        let gathered = self.is_gathering().then_some(self.gather_until);
        let served = self.served.iter().filter(|served| !served.is_out);
        served.filter_map(Served::look_at).chain(gathered).fold(latest, Instant::min)
    }

    fn hear(&mut self, ended: std::result::Result<Finished, JoinError>) -> Result<()> {
        // Only what was left to its lease is aborted.
        let Ok(Finished { nth, permit, result, span }) = ended else { return Ok(()) };
        let end = match result {
            AttemptResult::Ended(end) => end,
            // Its task goes on with it by itself.
            AttemptResult::Settling { rest } => {
                self.spawn(nth, permit, rest, span);
                return Ok(());
            }
            AttemptResult::InfraFailed { error, give_back } => {
                // At rest before the run is given back: that wakes every worker that could claim it.
                let heard = span.in_scope(|| self.fault(nth, "an attempt", error));
                self.spawn(nth, permit, Box::pin(async { AttemptResult::Ended(give_back.await) }), span);
                return heard;
            }
        };
        drop(permit);
        let served = &mut self.served[nth];
        // Its end may have made room below a limit.
        served.wake();
        self.done.add(&end);
        match end {
            AttemptEnd::Accepted { .. } | AttemptEnd::Rejected { .. } => served.is_well(),
            AttemptEnd::Refused(_)
            | AttemptEnd::Released
            | AttemptEnd::RateLimited
            | AttemptEnd::Cancelled
            | AttemptEnd::Lost => {}
        }
        Ok(())
    }

    /// Something of our own failed, not of the work: there is no point in claiming more of this workload for a while.
    fn fault(&mut self, nth: usize, doing: &str, error: Error) -> Result<()> {
        if self.options.drain {
            return self.drop_out(nth, error);
        }
        if let Error::Store(fatal) = &error
            && fatal.is_fatal()
        {
            return Err(error);
        }
        let (served, why) = (&mut self.served[nth], error.to_string());
        let rest = served.begin_rest(error);
        let workload = served.workload.name();
        match rest {
            Some(rest) => tracing::error!(workload, error = why, rest_s = rest.as_secs(), "{doing} failed; resting"),
            // One fault, met by many attempts.
            None => tracing::warn!(workload, error = why, "{doing} failed"),
        }
        Ok(())
    }

    /// Goes on draining without a workload that cannot be used. Any other fault ends the drain.
    fn drop_out(&mut self, nth: usize, error: Error) -> Result<()> {
        match error {
            Error::Unusable { .. } => {}
            Error::Store(_)
            | Error::Raw(_)
            | Error::Scratch(_)
            | Error::Missing(_)
            | Error::Thread(_)
            | Error::KeeperGone
            | Error::CompleterGone => return Err(error),
        }
        let served = &mut self.served[nth];
        if !served.is_out {
            tracing::error!(workload = served.workload.name(), %error, "left out of the drain");
        }
        served.is_out = true;
        self.unusable.get_or_insert(error);
        Ok(())
    }

    /// Leaves whatever hangs now to its lease.
    fn abandon(&mut self) {
        let left = count::of(self.attempts.len());
        tracing::error!(left, "some attempts could not be given back in time; their leases run out");
        self.done.lost += left;
        self.attempts.abort_all();
    }

    /// Lets work under way end by itself, and then has it given back.
    async fn finish(&mut self) {
        let shutdown = self.shutdown.clone();
        let grace = shutdown.requested_at().unwrap_or_else(Instant::now) + self.options.grace;
        let mut last = None;
        while !self.attempts.is_empty() {
            tokio::select! {
                Some(ended) = self.attempts.join_next() => {
                    if let Err(error) = self.hear(ended) {
                        tracing::error!(%error, "an attempt failed");
                    }
                }
                () = shutdown.leaving(), if last.is_none() => last = Some(Instant::now() + LAST_WORDS),
                () = tokio::time::sleep_until(last.unwrap_or(grace)) => match last {
                    None => shutdown.leave(),
                    Some(_) => return self.abandon(),
                },
            }
        }
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

/// Gives what an attempt gives. One that panics has dropped its lease: it runs out, and the attempt is ended as abandoned.
async fn unless_panicked(attempt: BoxFuture<'static, AttemptResult>) -> AttemptResult {
    AssertUnwindSafe(attempt).catch_unwind().await.unwrap_or(AttemptResult::Ended(AttemptEnd::Lost))
}
