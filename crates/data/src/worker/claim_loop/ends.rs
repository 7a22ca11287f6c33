//! The ends of attempts, faults of our own among them, and the end of the worker.

use std::time::Duration;

use redrive_core::count;
use tokio::time::Instant;

use super::{Finished, Worker};
use crate::error::{Error, Result};
use crate::worker::attempt_end::{AttemptEnd, AttemptResult};

/// How long giving back may take when the worker has to leave.
const LAST_WORDS: Duration = Duration::from_secs(10);

impl Worker {
    /// Hears of all that has finished until now.
    pub(super) fn hear_all(&mut self) -> Result<()> {
        // Looked at first: what a task has to say is there when the task has ended.
        while self.attempts.try_join_next().is_some() {}
        let is_over = self.attempts.is_empty();
        let mut heard = Ok(());
        while let Ok(finished) = self.finished.try_recv() {
            heard = heard.and(self.hear(finished));
        }
        if is_over && self.attempts.is_empty() {
            self.under_way = 0;
        }
        heard
    }

    /// Hears of attempts that have finished. A fault that ends the worker is told when all have been heard.
    pub(super) fn hear(&mut self, finished: Vec<Finished>) -> Result<()> {
        finished.into_iter().map(|finished| self.hear_one(finished)).fold(Ok(()), Result::and)
    }

    fn hear_one(&mut self, Finished { nth, permit, result, span }: Finished) -> Result<()> {
        self.under_way = self.under_way.saturating_sub(1);
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
    pub(super) fn fault(&mut self, nth: usize, doing: &str, error: Error) -> Result<()> {
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

    /// Leaves whatever hangs now to its lease.
    fn abandon(&mut self) {
        let (left, claims) = (count::of(self.under_way), self.claims.len());
        tracing::error!(left, claims, "some attempts and claims could not be given back in time; their leases run out");
        self.done.lost += left;
        self.claims.abort_all();
        self.attempts.abort_all();
    }

    /// Lets work under way end by itself, and then has it given back.
    pub(super) async fn finish(&mut self) {
        let shutdown = self.shutdown.clone();
        let grace = shutdown.requested_at().unwrap_or_else(Instant::now) + self.options.grace;
        let mut last = None;
        // A sink that does not answer would be waited for.
        self.looks.abort_all();
        loop {
            if let Err(error) = self.hear_all() {
                tracing::error!(%error, "an attempt failed");
            }
            if self.attempts.is_empty() && self.claims.is_empty() {
                return;
            }
            tokio::select! {
                Some(finished) = self.finished.recv() => {
                    if let Err(error) = self.hear(finished) {
                        tracing::error!(%error, "an attempt failed");
                    }
                }
                Some(answer) = self.claims.join_next() => {
                    if let Err(error) = self.answered(answer) {
                        tracing::error!(%error, "a claim failed");
                    }
                }
                Some(_) = self.attempts.join_next() => {}
                () = shutdown.leaving(), if last.is_none() => last = Some(Instant::now() + LAST_WORDS),
                () = tokio::time::sleep_until(last.unwrap_or(grace)) => match last {
                    None => shutdown.leave(),
                    Some(_) => return self.abandon(),
                },
            }
        }
    }
}
