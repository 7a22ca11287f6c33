//! The lease keeper's loop: one heartbeat at a time for all leases.
//!
//! It fences its own worker, too. When a lease could not be prolonged and is about to end, it stops the attempt as lost
//! before another worker may take its run.

use std::sync::Arc;

use redrive_core::id::{RunId, TaskId};
use redrive_store::{DataStore, Heartbeat, HeartbeatAnswer};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Held, LeaseEnd, Leases};
use crate::error::TRY_AGAIN;

/// Prolongs every lease once a heartbeat, and gives up those that are about to end.
pub(super) struct HeartbeatLoop {
    data: DataStore,
    leases: Arc<Leases>,
    next_beat: Instant,
}

/// A heartbeat's answer, and what was asked.
struct Answered {
    asked: Instant,
    runs: Vec<(RunId, TaskId)>,
    heartbeat: redrive_store::Result<Heartbeat>,
}

/// However the thread ends, nobody goes on with a lease that is no longer kept.
impl Drop for HeartbeatLoop {
    fn drop(&mut self) {
        let mut table = self.leases.lock();
        table.is_closed = true;
        for held in std::mem::take(&mut table.held).into_values() {
            held.ending.tell(LeaseEnd::Lost);
        }
    }
}

impl HeartbeatLoop {
    pub(super) fn new(data: DataStore, leases: Arc<Leases>) -> Self {
        let next_beat = Instant::now() + leases.terms.heartbeat;
        Self { data, leases, next_beat }
    }

    pub(super) async fn run(mut self, mut nudges: mpsc::Receiver<()>) {
        // A heartbeat runs beside this loop, so that a database that hangs cannot keep a lease from being given up.
        let (answer, mut answers) = mpsc::unbounded_channel();
        let mut beating = false;
        loop {
            let wake = self.plan_wake(beating);
            tokio::select! {
                nudge = nudges.recv() => if nudge.is_none() { return },
                Some(answered) = answers.recv() => {
                    beating = false;
                    self.hear(answered);
                }
                () = tokio::time::sleep_until(wake) => {}
            }
            self.fence();
            if !beating && self.is_time_to_beat() {
                beating = self.beat(&answer);
            }
        }
    }

    /// The next moment at which a lease has to be given up or a heartbeat is due.
    fn plan_wake(&self, beating: bool) -> Instant {
        let terms = self.leases.terms;
        let mut table = self.leases.lock();
        let fence_at = table.held.values().map(|held| held.ends - terms.margin()).min();
        let beat_at = if beating { Instant::now() + terms.heartbeat } else { self.next_beat };
        table.wake_at = fence_at.map_or(beat_at, |fence_at| fence_at.min(beat_at));
        table.wake_at
    }

    fn is_time_to_beat(&self) -> bool {
        std::mem::take(&mut self.leases.lock().beat_now) || Instant::now() >= self.next_beat
    }

    /// Gives up the leases that are about to end.
    fn fence(&self) {
        let limit = Instant::now() + self.leases.terms.margin();
        self.leases.lock().held.retain(|run_id, held| {
            let keep = held.ends > limit;
            if !keep {
                let text = "the lease could not be prolonged; the attempt is given up";
                held.span.in_scope(|| tracing::warn!(%run_id, "{text}"));
                held.ending.tell(LeaseEnd::Lost);
            }
            keep
        });
    }

    fn beat(&mut self, answer: &mpsc::UnboundedSender<Answered>) -> bool {
        let (asked, terms) = (Instant::now(), self.leases.terms);
        self.next_beat = asked + terms.heartbeat;
        let held = |(run_id, held): (&RunId, &Held)| (*run_id, held.task_id);
        let mut runs: Vec<_> = self.leases.lock().held.iter().map(held).collect();
        if runs.is_empty() {
            return false;
        }
        // In the order of their rows, in which everyone else takes them, too.
        runs.sort_unstable();
        let (data, answer) = (self.data.clone(), answer.clone());
        tokio::spawn(async move {
            let heartbeat = data.beat(runs.clone(), terms.lease).await;
            let _ = answer.send(Answered { asked, runs, heartbeat });
        });
        true
    }

    fn hear(&mut self, answered: Answered) {
        let terms = self.leases.terms;
        let heartbeat = match answered.heartbeat {
            Ok(heartbeat) => heartbeat,
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed; it is tried again");
                self.next_beat = Instant::now() + TRY_AGAIN.min(terms.heartbeat);
                return;
            }
        };
        let mut table = self.leases.lock();
        for ((run_id, task_id), answer) in answered.runs.into_iter().zip(heartbeat.answers) {
            let Some(held) = table.held.get_mut(&run_id).filter(|held| held.task_id == task_id) else { continue };
            let end = match answer {
                HeartbeatAnswer::Held => {
                    held.ends = answered.asked + terms.lease;
                    *held.ending.prolonged() = Some((heartbeat.at, heartbeat.until));
                    continue;
                }
                HeartbeatAnswer::Cancelled => LeaseEnd::Cancelled,
                HeartbeatAnswer::Lost => LeaseEnd::Lost,
            };
            held.span.in_scope(|| tracing::warn!(%run_id, ?end, "the lease was lost"));
            held.ending.tell(end);
            table.held.remove(&run_id);
        }
    }
}
