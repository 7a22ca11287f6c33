//! The ends of attempts, faults of our own among them, and the end of the worker.

use std::time::Duration;

use redrive_core::count;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::{Finished, Worker};
use crate::error::{Error, Result};
use crate::worker::attempt_end::{AttemptEnd, AttemptResult};

/// How long giving back may take when the worker has to leave.
const LAST_WORDS: Duration = Duration::from_secs(10);

impl Worker {
    pub(super) fn hear(&mut self, ended: std::result::Result<Finished, JoinError>) -> Result<()> {
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
        let left = count::of(self.attempts.len());
        tracing::error!(left, "some attempts could not be given back in time; their leases run out");
        self.done.lost += left;
        self.attempts.abort_all();
    }

    /// Lets work under way end by itself, and then has it given back.
    pub(super) async fn finish(&mut self) {
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
