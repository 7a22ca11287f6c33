//! Claiming for the free permits, each workload its share, and starting what was claimed.

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::Span;

use super::Worker;
use super::attempting::Attempting;
use super::line::{Line, Ready, go_on};
use crate::error::Result;
use crate::worker::attempt_end::AttemptResult;
use crate::worker::permit::Permit;
use crate::worker::served::{Served, even_share};
use crate::worker::workload::Task;

/// How many attempts may be under way for each permit, those that are settling included.
const UNDER_WAY: u32 = 4;

impl Worker {
    /// Claims for the free permits and starts what was claimed; gives how many. Each workload is offered an even share
    /// first, and then what the others have left over. The one that has waited longest for a permit comes first.
    pub(super) async fn claim(&mut self) -> Result<u32> {
        if self.room() == 0 {
            return Ok(0);
        }
        self.gathering.permits_are_free();
        if self.gathers_until().is_some() {
            return Ok(0);
        }
        let mut order: Vec<usize> = (0..self.served.len()).filter(|&nth| !self.served[nth].is_out).collect();
        order.sort_by_key(|&nth| self.served[nth].last_turn);
        // What becomes free on the way waits for the next round, so that it is not claimed for one by one.
        let room = self.room();
        let mut left = room;
        for &nth in &order {
            let share = even_share(self.options.concurrency, order.len(), self.served[nth].running(), left);
            left = left.saturating_sub(self.claim_for(nth, share).await?);
        }
        for &nth in &order {
            left = left.saturating_sub(self.claim_for(nth, left).await?);
        }
        Ok(room - left)
    }

    async fn claim_for(&mut self, nth: usize, room: u32) -> Result<u32> {
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
        let (served, found) = (&mut self.served[nth], u32::try_from(claimed.tasks.len()).unwrap_or(u32::MAX));
        if found > 0 {
            served.fruitless = 0;
            self.turn += 1;
            served.last_turn = self.turn;
        }
        if found < room {
            let poll = Instant::now() + self.options.poll;
            served.quiet(claimed.look_again.map_or(poll, |look_again| look_again.min(poll)));
            self.gathering.was_short();
        } else {
            self.gathering.was_full(asked.elapsed());
        }
        self.done.claimed += u64::from(found);
        self.show_counts();
        self.start(nth, claimed.tasks, asked);
        Ok(found)
    }

    fn start(&mut self, nth: usize, tasks: Vec<Task>, asked: Instant) {
        let claims = tasks.iter().map(|task| (task.run_id, task.task_id, task.span.clone()));
        let leases = self.keeper.hold_all(claims, asked);
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
        let working = self.served.iter().map(Served::running).fold(0, u32::saturating_add);
        let under_way = u32::try_from(self.under_way).unwrap_or(u32::MAX);
        concurrency.saturating_sub(working).min(concurrency.saturating_mul(UNDER_WAY).saturating_sub(under_way))
    }
}
