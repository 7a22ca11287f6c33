//! The worker's loop. It claims only what its free permits can start now, wakes when there may be work, and polls as
//! the fallback.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use redrive_core::key::Source;
use redrive_store::raw::RawSink;
use redrive_store::{Backlog, ClaimedPartition, DataStore, PartitionClaim, Queued, Rotation};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::attempt::{Attempt, Course, End};
use super::keeper::{Keeper, Terms};
use super::plan::Plan;
use super::scouts::Scouts;
use super::stop::Stop;
use super::tally::Tally;
use crate::error::{Error, Result};
use crate::program::ChildTracker;
use crate::validate;

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Who it is, for the runs' rows.
    pub name: String,
    pub concurrency: u32,
    pub terms: Terms,
    /// How long to sleep when there is nothing to do and nobody calls.
    pub poll: Duration,
    /// How long work under way may go on after a stop was asked for.
    pub grace: Duration,
    /// End when there is nothing to do.
    pub drain: bool,
}

/// How long to rest after the sink or the database failed: at first, and at the most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);

/// How long giving back may take when the worker has to leave.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How often in a row a draining worker claims in vain what nothing seems to hold back: what no rule lets it have must
/// not keep it for ever.
const FRUITLESS: u32 = 5;

#[derive(Debug)]
pub struct Worker {
    data: DataStore,
    sink: RawSink,
    keeper: Keeper,
    plan: Plan,
    options: WorkerOptions,
    stop: Stop,
    tally: watch::Sender<Tally>,
    rotation: Rotation,
    attempts: JoinSet<(Source, Course)>,
    scouts: Scouts,
    /// The programs of all attempts.
    programs: ChildTracker,
    /// When leases that have passed are looked for next.
    sweep_at: Instant,
    /// Nothing is claimed before then, because something of ours failed.
    rest_until: Instant,
    rest: Duration,
    /// It is looked at before anything more is claimed.
    sink_failed: bool,
    /// How often in a row nothing was claimed of what could be.
    fruitless: u32,
}

impl Worker {
    pub fn new(data: DataStore, sink: RawSink, keeper: Keeper, plan: Plan, options: WorkerOptions, stop: Stop) -> Self {
        let now = Instant::now();
        Self {
            data,
            sink,
            keeper,
            plan,
            options,
            stop,
            tally: watch::channel(Tally::default()).0,
            rotation: Rotation::default(),
            attempts: JoinSet::new(),
            scouts: Scouts::default(),
            programs: ChildTracker::default(),
            sweep_at: now,
            rest_until: now,
            rest: Duration::ZERO,
            sink_failed: false,
            fruitless: 0,
        }
    }

    /// What it has done, as it goes.
    pub fn tally(&self) -> watch::Receiver<Tally> {
        self.tally.subscribe()
    }

    /// Works until it is told to stop, or with `drain` until nothing is due. A fault of the database or the sink ends a
    /// draining worker; any other rests and goes on.
    pub async fn run(mut self) -> Result<Tally> {
        let worked = self.work().await;
        if worked.is_err() {
            self.stop.leave();
        }
        self.finish().await;
        // Those of attempts that were left to their leases, too.
        self.programs.ended().await;
        worked.map(|()| *self.tally.borrow())
    }

    async fn work(&mut self) -> Result<()> {
        let mut wakeups = self.data.wakeups();
        while !self.stop.is_asked() {
            self.probe().await?;
            self.sweep().await?;
            // Marked before the claim, so that a call during it is not missed.
            wakeups.borrow_and_update();
            let claimed = self.claim().await?;
            if self.options.drain && claimed == 0 && self.attempts.is_empty() && self.is_drained().await? {
                break;
            }
            self.wait(&mut wakeups).await?;
        }
        Ok(())
    }

    /// Whether nothing is due any more. What a limit holds back is due when an attempt of somebody else has ended or its
    /// lease has; what is paused or cools down is not.
    async fn is_drained(&mut self) -> Result<bool> {
        let (sources, limits) = (self.plan.sources(), self.plan.max_in_flight());
        let Backlog { queued, in_flight } = self.data.view().backlog(sources, limits).await?;
        let is_drained = match queued {
            Queued::Nothing => true,
            Queued::HeldBack => false,
            // It came after the claim, or its place did.
            Queued::Claimable => self.fruitless >= FRUITLESS,
        };
        self.fruitless = if queued == Queued::Claimable { self.fruitless + 1 } else { 0 };
        self.tally.send_modify(|tally| tally.elsewhere = is_drained.then_some(in_flight));
        Ok(is_drained)
    }

    fn room(&self) -> u32 {
        self.options.concurrency.saturating_sub(u32::try_from(self.attempts.len()).unwrap_or(u32::MAX))
    }

    fn is_resting(&self) -> bool {
        Instant::now() < self.rest_until
    }

    /// Looks after a sink that failed, and rests on while it does.
    async fn probe(&mut self) -> Result<()> {
        if !self.sink_failed || self.is_resting() {
            return Ok(());
        }
        match self.sink.check().await {
            Ok(()) => self.sink_failed = false,
            Err(error) => self.trouble("looking after the raw sink", error.into())?,
        }
        Ok(())
    }

    /// Ends what other workers left behind, once in a while.
    async fn sweep(&mut self) -> Result<()> {
        if Instant::now() < self.sweep_at || self.is_resting() {
            return Ok(());
        }
        self.sweep_at = Instant::now() + (self.options.terms.lease / 4).max(Duration::from_millis(100));
        match validate::end_abandoned(&self.data, &self.sink).await {
            Ok(count) => self.tally.send_modify(|tally| tally.abandoned += u64::try_from(count).unwrap_or(0)),
            Err(error) => self.trouble("ending what was abandoned", error)?,
        }
        Ok(())
    }

    /// Claims what there is room for and starts it; gives how many.
    async fn claim(&mut self) -> Result<usize> {
        let room = self.room();
        if room == 0 || self.is_resting() {
            return Ok(0);
        }
        let (asked, sources) = (Instant::now(), self.plan.sources());
        let claim = PartitionClaim {
            limit: room,
            worker: self.options.name.clone(),
            lease: self.options.terms.lease,
            at_most: self.scouts.at_most(&sources, asked),
            sources: Some(sources),
            max_in_flight: self.plan.max_in_flight(),
            rotation: self.rotation.clone(),
        };
        let (claimed, rotation) = match self.data.claim_partitions(claim).await {
            Ok(claimed) => claimed,
            Err(error) => {
                self.trouble("claiming", error.into())?;
                return Ok(0);
            }
        };
        self.rotation = rotation;
        let count = claimed.len();
        if count > 0 {
            self.fruitless = 0;
        }
        self.tally.send_modify(|tally| tally.claimed += u64::try_from(count).unwrap_or(0));
        claimed.into_iter().for_each(|claimed| self.start(claimed, asked));
        Ok(count)
    }

    fn start(&mut self, claimed: ClaimedPartition, asked: Instant) {
        let name = claimed.partition.state.key.source.clone();
        let (Some(source), Some(fence)) = (self.plan.of(&name), claimed.run.task_id) else { return };
        self.scouts.started(&name, asked);
        let held = self.keeper.hold(claimed.run.run_id, fence, asked, self.options.terms);
        let (data, sink, stop) = (self.data.clone(), self.sink.clone(), self.stop.clone());
        let attempt = Attempt { data, sink, source, claimed, fence, held, stop, children: self.programs.child() };
        self.attempts.spawn(async move {
            // Whoever panics here has lost its lease: it runs out, and the attempt is ended as abandoned.
            let course = AssertUnwindSafe(attempt.run()).catch_unwind().await;
            (name, course.unwrap_or(Course::Ended(End::Lost)))
        });
    }

    async fn wait(&mut self, wakeups: &mut watch::Receiver<u64>) -> Result<()> {
        let now = Instant::now();
        let look_again = if self.is_resting() { self.rest_until } else { (now + self.options.poll).min(self.sweep_at) };
        let listening = self.room() > 0 && !self.is_resting();
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.asked() => {}
            Some(ended) = self.attempts.join_next() => self.hear(ended)?,
            Ok(()) = wakeups.changed(), if listening => {}
            () = tokio::time::sleep_until(look_again) => {}
        }
        while let Some(ended) = self.attempts.try_join_next() {
            self.hear(ended)?;
        }
        Ok(())
    }

    fn hear(&mut self, ended: std::result::Result<(Source, Course), JoinError>) -> Result<()> {
        // Only what was told to leave for the last time is aborted.
        let Ok((source, course)) = ended else { return Ok(()) };
        let end = match course {
            Course::Ended(end) => end,
            Course::Broken(attempt, error) => {
                let why = error.to_string();
                // At rest before it is given back: that wakes whoever could claim it.
                let heard = self.trouble("an attempt", error);
                self.attempts.spawn(async move {
                    let given_back = AssertUnwindSafe(attempt.give_back(Some(&why))).catch_unwind().await;
                    (source, Course::Ended(given_back.unwrap_or(End::Lost)))
                });
                return heard;
            }
        };
        self.scouts.ended(&source, &end);
        self.tally.send_modify(|tally| tally.add(&end));
        match end {
            End::Accepted { .. } | End::Rejected { .. } => self.rest = Duration::ZERO,
            End::Refused(_) | End::Released | End::Lost => {}
        }
        Ok(())
    }

    /// Something of ours failed, not of the source: there is no point in claiming more for a while.
    fn trouble(&mut self, doing: &str, error: Error) -> Result<()> {
        self.sink_failed |= matches!(error, Error::Raw(_));
        if self.options.drain {
            return Err(error);
        }
        if self.is_resting() {
            // One fault, told by many.
            tracing::warn!(%error, "{doing} failed");
            return Ok(());
        }
        self.rest = (self.rest * 2).clamp(FIRST_REST, LONGEST_REST);
        self.rest_until = Instant::now() + self.rest;
        tracing::error!(%error, rest_s = self.rest.as_secs(), "{doing} failed; resting");
        Ok(())
    }

    /// Leaves whatever hangs now to its lease.
    fn abandon(&mut self) {
        let left = u64::try_from(self.attempts.len()).unwrap_or(0);
        tracing::error!(left, "some attempts could not be given back in time; their leases run out");
        self.tally.send_modify(|tally| tally.lost += left);
        self.attempts.abort_all();
    }

    /// Lets work under way end by itself, and then has it given back.
    async fn finish(&mut self) {
        let stop = self.stop.clone();
        let grace = Instant::now() + self.options.grace;
        let mut last = None;
        while !self.attempts.is_empty() {
            tokio::select! {
                Some(ended) = self.attempts.join_next() => {
                    if let Err(error) = self.hear(ended) {
                        tracing::error!(%error, "an attempt failed");
                    }
                }
                () = stop.leaving(), if last.is_none() => last = Some(Instant::now() + LAST_WORDS),
                () = tokio::time::sleep_until(last.unwrap_or(grace)) => match last {
                    None => stop.leave(),
                    Some(_) => return self.abandon(),
                },
            }
        }
    }
}
