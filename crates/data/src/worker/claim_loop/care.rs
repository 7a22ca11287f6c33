//! Looking after everything but the attempts: rests that are over, what workloads need, what other workers left behind. It may wait
//! for a sink that does not answer, and is done beside the loop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::count;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::{Worker, finished};
use crate::error::Result;
use crate::worker::served::Question;
use crate::worker::sweep;

/// What a look has shown.
pub(super) enum Look {
    /// Whether a workload can be used, for which it was asked while the worker was `doing` something.
    Usable { nth: usize, doing: &'static str, is_usable: Result<()> },
    /// How many abandoned runs were ended for each of these workloads.
    Swept(Vec<(usize, Result<usize>)>),
    /// How far the audit trail goes, and whether a run was changed since the last look; none where that could not be read.
    Trail(Option<(i64, bool)>),
}

/// The audit trail as a worker follows it while it has something under way: where an operation has changed a run, it may have cancelled
/// one of this worker's. Cancels are announced, too, but not to other processes on SQLite, nor on PostgreSQL to a worker that cannot
/// listen.
#[derive(Debug)]
pub(super) struct Trail {
    /// None before the first look, which is made beside the first claim and finds nothing new.
    seen: Option<i64>,
    is_looking: bool,
    look_at: Instant,
}

impl Trail {
    pub(super) fn new() -> Self {
        Self { seen: None, is_looking: false, look_at: Instant::now() }
    }
}

impl Worker {
    /// Begins to look after everything but the attempts, where it is time.
    pub(super) fn look_after(&mut self) {
        for nth in 0..self.served.len() {
            if let Some(question) = self.served[nth].ask() {
                self.ask(nth, question);
            }
        }
        if Instant::now() >= self.sweep_at {
            self.sweep_at = Instant::now() + (self.options.terms.lease / 4).max(Duration::from_millis(100));
            self.sweep();
        }
        let is_followed = self.under_way > 0 || self.trail.seen.is_none();
        if is_followed && !self.trail.is_looking && Instant::now() >= self.trail.look_at {
            self.follow_trail();
        }
    }

    fn follow_trail(&mut self) {
        self.trail.is_looking = true;
        self.trail.look_at = Instant::now() + self.options.poll;
        let (view, seen) = (self.data.view(), self.trail.seen);
        self.looks.spawn(async move { Look::Trail(view.runs_changed_since(seen.unwrap_or(i64::MAX)).await.ok()) });
    }

    fn ask(&mut self, nth: usize, question: Question) {
        let workload = Arc::clone(&self.served[nth].workload);
        self.looks.spawn(async move {
            let (doing, is_usable) = match question {
                Question::IsReady => ("looking at what it needs", workload.is_ready().await),
                Question::HasRecovered(fault) => {
                    ("looking whether all is well again", workload.has_recovered(&fault).await)
                }
            };
            Look::Usable { nth, doing, is_usable }
        });
    }

    /// Ends what other workers left behind.
    fn sweep(&mut self) {
        if std::mem::replace(&mut self.is_sweeping, true) {
            return;
        }
        let (mut kinds, mut swept) = (BTreeSet::new(), Vec::new());
        for (nth, served) in self.served.iter().enumerate() {
            // One workload of a kind ends the runs of all.
            if !served.is_out && !served.is_resting() && kinds.insert(served.workload.kind()) {
                swept.push((nth, Arc::clone(&served.workload)));
            }
        }
        let data = self.data.clone();
        self.looks.spawn(async move {
            let mut ended = Vec::with_capacity(swept.len());
            for (nth, workload) in swept {
                ended.push((nth, sweep::end_expired(&data, &workload).await));
                workload.tidy().await;
            }
            Look::Swept(ended)
        });
    }

    pub(super) fn looked(&mut self, look: std::result::Result<Look, JoinError>) -> Result<()> {
        match finished(look) {
            Some(Look::Usable { nth, doing, is_usable }) => {
                self.served[nth].has_said(is_usable.is_ok());
                is_usable.or_else(|error| self.fault(nth, doing, error))
            }
            Some(Look::Swept(swept)) => {
                self.is_sweeping = false;
                let heard = swept.into_iter().map(|(nth, ended)| match ended {
                    Ok(ended) => {
                        self.done.abandoned += count::of(ended);
                        Ok(())
                    }
                    Err(error) => self.fault(nth, "ending what was abandoned", error),
                });
                heard.fold(Ok(()), Result::and)
            }
            Some(Look::Trail(found)) => {
                self.trail.is_looking = false;
                if let Some((head, has_changed)) = found {
                    self.trail.seen = Some(head);
                    if has_changed {
                        self.keeper.beat_now();
                    }
                }
                Ok(())
            }
            None => Ok(()),
        }
    }
}
