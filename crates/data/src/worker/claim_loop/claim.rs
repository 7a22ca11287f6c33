//! Claiming for the free permits, each workload its share, and starting what was claimed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::share::even_share;
use tokio::task::JoinError;
use tokio::time::Instant;
use tracing::Span;

use super::attempting::Attempting;
use super::line::{Line, Ready, go_on};
use super::{Worker, finished};
use crate::error::{Error, Result};
use crate::worker::attempt_end::AttemptResult;
use crate::worker::lease::Lease;
use crate::worker::permit::Permit;
use crate::worker::served::{Asked, Served};
use crate::worker::workload::{Claimed, Task};

/// How many attempts may be under way for each permit, those that are settling included.
const UNDER_WAY: u32 = 4;

/// Fewer permits than these are not shared among claims that are under way at once.
const FEWEST_SHARED: u32 = 128;

/// What a claim has brought.
pub(super) struct Answer {
    nth: usize,
    asked: Asked,
    claimed: Result<Claimed>,
    /// How long the database took.
    took: Duration,
    /// Of its tasks, in their order. They are kept from the claim on, however long the loop is busy.
    leases: Vec<Lease>,
}

impl Worker {
    /// Claims for the free permits. Each workload is offered an even share first, and then what the others have left over.
    /// The one that has waited longest for a permit comes first.
    pub(super) fn claim(&mut self) {
        if self.room() == 0 {
            return;
        }
        self.gathering.permits_are_free();
        if self.gathers_until().is_some() {
            return;
        }
        let mut order: Vec<usize> = (0..self.served.len()).filter(|&nth| !self.served[nth].is_out).collect();
        order.sort_by_key(|&nth| self.served[nth].last_turn);
        // What becomes free on the way waits for the next round, so that it is not claimed for one by one.
        let mut left = self.room();
        for &nth in &order {
            let share = even_share(self.options.concurrency, order.len(), self.served[nth].permits(), left);
            left -= self.claim_for(nth, share);
        }
        for &nth in &order {
            left -= self.claim_for(nth, left);
        }
    }

    /// Begins a claim; gives for how many permits.
    fn claim_for(&mut self, nth: usize, room: u32) -> u32 {
        let (served, concurrency) = (&mut self.served[nth], self.options.concurrency);
        let at_once = if concurrency < FEWEST_SHARED { 1 } else { served.workload.claims_at_once() };
        let permits = room.min(concurrency.div_ceil(at_once));
        if permits == 0 || !served.may_claim(at_once) {
            return 0;
        }
        let asked = served.asks(permits);
        let (workload, claimant, keeper) =
            (Arc::clone(&served.workload), Arc::clone(&self.claimant), self.keeper.clone());
        self.claims.spawn(async move {
            let claimed = workload.claim(permits, &claimant).await;
            let asked_at = claimed.as_ref().map_or_else(|_| Instant::now(), |claimed| claimed.asked_at);
            let tasks = claimed.iter().flat_map(|claimed| &claimed.tasks);
            let leases = keeper.hold_all(tasks.map(|task| (task.run_id, task.task_id, task.span.clone())), asked_at);
            Answer { nth, asked, claimed, took: asked_at.elapsed(), leases }
        });
        self.gathering.claim_begins();
        permits
    }

    /// Starts what a claim has brought.
    pub(super) fn answered(&mut self, answer: std::result::Result<Answer, JoinError>) -> Result<()> {
        let Some(Answer { nth, asked, claimed, took, leases }) = finished(answer) else { return Ok(()) };
        let served = &mut self.served[nth];
        served.answered(asked);
        let claimed = match claimed {
            Ok(claimed) => claimed,
            // It was given up for the sake of the end that was asked for.
            Err(Error::Store(redrive_store::Error::Stopped { .. })) if self.shutdown.is_requested() => return Ok(()),
            Err(error) => return self.fault(nth, "claiming", error),
        };
        let found = u32::try_from(claimed.tasks.len()).unwrap_or(u32::MAX);
        if found > 0 {
            served.fruitless = 0;
            self.turn += 1;
            served.last_turn = self.turn;
        }
        if found < asked.permits {
            let poll = Instant::now() + self.options.poll;
            served.was_short(asked, claimed.look_again.map_or(poll, |look_again| look_again.min(poll)));
            self.gathering.was_short();
        } else {
            served.was_full();
            self.gathering.was_full(took);
        }
        self.done.claimed += u64::from(found);
        self.show_counts();
        self.start(nth, claimed.tasks, leases);
        Ok(())
    }

    fn start(&mut self, nth: usize, tasks: Vec<Task>, leases: Vec<Lease>) {
        let permits = std::iter::repeat_with(|| self.permits.take(&self.served[nth].running));
        let ready = tasks.into_iter().zip(leases).zip(permits);
        let ready: Vec<_> = ready.map(|((task, lease), permit)| Ready { nth, task, lease, permit }).collect();
        self.under_way += ready.len();
        Line::start(&mut self.attempts, ready, self.shutdown.clone(), self.ends.clone());
    }

    /// Goes on with an attempt in a task of its own.
    pub(super) fn spawn(
        &mut self,
        nth: usize,
        permit: Option<Permit>,
        attempt: BoxFuture<'static, AttemptResult>,
        span: Span,
    ) {
        self.under_way += 1;
        self.attempts.spawn(go_on(Attempting::new(nth, permit, attempt, span), self.ends.clone()));
    }

    /// Until when a few free permits wait for more.
    pub(super) fn gathers_until(&self) -> Option<Instant> {
        self.gathering.until().filter(|_| self.room().saturating_mul(2) < self.options.concurrency)
    }

    /// How many permits have to be given up, counted from the beginning, before another claim is worth a look.
    pub(super) fn enough_given_up(&self) -> u64 {
        // Read before the room, so that one which is given up in between is not missed.
        let given_up = self.permits.given_up();
        let half = self.options.concurrency / 2;
        let lacking = self.gathers_until().map_or(1, |_| half.saturating_sub(self.room()));
        given_up + u64::from(lacking.max(1))
    }

    /// How many permits are free, as long as not too many attempts wait for our own disk and database.
    pub(super) fn room(&self) -> u32 {
        let concurrency = self.options.concurrency;
        let used = self.served.iter().map(Served::permits).fold(0, u32::saturating_add);
        let asked = self.served.iter().map(Served::asked).fold(0, u32::saturating_add);
        let under_way = u32::try_from(self.under_way).unwrap_or(u32::MAX).saturating_add(asked);
        concurrency.saturating_sub(used).min(concurrency.saturating_mul(UNDER_WAY).saturating_sub(under_way))
    }
}
