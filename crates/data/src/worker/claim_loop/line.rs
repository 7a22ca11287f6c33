//! Starts what was claimed together, with few tasks for many attempts.
//!
//! A task takes one attempt after the other out of the line and has its handler begin. One that answers at once costs no task
//! of its own: it is left to settle together with others. Every other goes on as a task of its own. As several tasks take from a
//! line, a handler that blocks its thread keeps no other from beginning, as long as there is another thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::attempting::{Attempting, Finished};
use crate::worker::attempt_end::{AttemptEnd, AttemptResult};
use crate::worker::lease::Lease;
use crate::worker::permit::Permit;
use crate::worker::shutdown::Shutdown;
use crate::worker::workload::Task;

/// How many tasks take from a line: more than there are threads, for handlers that move their thread's other tasks to another
/// before they block it.
const TAKERS: usize = 64;

/// How many attempts a task begins before it lets others go on: few enough for the budget that tokio gives a task.
const TURN: usize = 32;

/// What a turn may take: what settles is not kept waiting by handlers that do much at once.
const LONGEST_TURN: Duration = Duration::from_millis(1);

/// Where the worker's loop hears of attempts that have finished.
pub(super) type Ends = UnboundedSender<Vec<Finished>>;

/// A claimed run whose lease is kept, and that has its permit.
pub(super) struct Ready {
    pub(super) nth: usize,
    pub(super) task: Task,
    pub(super) lease: Lease,
    pub(super) permit: Permit,
}

impl Ready {
    fn begin(self, shutdown: Shutdown) -> Attempting {
        let Self { nth, task: Task { start, span, .. }, lease, permit } = self;
        let doing = span.in_scope(|| catch_unwind(AssertUnwindSafe(|| start(lease, shutdown))));
        let doing = doing.unwrap_or_else(|_| Box::pin(async { AttemptResult::Ended(AttemptEnd::Lost) }));
        Attempting::new(nth, Some(permit), doing, span)
    }
}

/// What was claimed together and has not begun.
pub(super) struct Line {
    waiting: Mutex<std::vec::IntoIter<Ready>>,
    shutdown: Shutdown,
    ends: Ends,
}

/// What one turn of a task has begun.
#[derive(Default)]
struct Begun {
    /// Answered at once: only the database is waited for.
    settling: Vec<Attempting>,
    /// What its handler waits for takes its time.
    working: Vec<Attempting>,
    finished: Vec<Finished>,
    /// Nothing was left in the line.
    is_last: bool,
}

impl Line {
    /// Begins all of it, by tasks of `attempts`.
    pub(super) fn start(attempts: &mut JoinSet<()>, ready: Vec<Ready>, shutdown: Shutdown, ends: Ends) {
        let takers = ready.len().min(TAKERS);
        let line = Arc::new(Self { waiting: Mutex::new(ready.into_iter()), shutdown, ends });
        for _ in 0..takers {
            attempts.spawn(Arc::clone(&line).take_all());
        }
    }

    fn next(&self) -> Option<Ready> {
        // What is inside is whole whenever the lock is free, also after a panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Begins attempts until none is left, and stays until those that it has begun have ended: with this task they are aborted.
    async fn take_all(self: Arc<Self>) {
        let mut begun_here = JoinSet::new();
        loop {
            let Begun { settling, working, finished, is_last } = self.turn().await;
            send(&self.ends, finished);
            if !settling.is_empty() {
                begun_here.spawn(settle(settling, self.ends.clone()));
            }
            for attempting in working {
                begun_here.spawn(go_on(attempting, self.ends.clone()));
            }
            if is_last {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(self);
        while begun_here.join_next().await.is_some() {}
    }

    /// Begins some attempts, each as far as it comes without waiting.
    async fn turn(&self) -> Begun {
        let (mut begun, until) = (Begun::default(), Instant::now() + LONGEST_TURN);
        std::future::poll_fn(|task| {
            self.begin_some(&mut begun, until, task);
            Poll::Ready(())
        })
        .await;
        begun
    }

    fn begin_some(&self, begun: &mut Begun, until: Instant, task: &mut Context<'_>) {
        for _ in 0..TURN {
            let Some(ready) = self.next() else {
                begun.is_last = true;
                return;
            };
            let mut attempting = ready.begin(self.shutdown.clone());
            match Pin::new(&mut attempting).poll(task) {
                Poll::Ready(finished) => begun.finished.push(finished),
                Poll::Pending if attempting.is_settling() => begun.settling.push(attempting),
                // Its task polls it again, so that it is that task which is woken.
                Poll::Pending => begun.working.push(attempting),
            }
            if !begun.working.is_empty() || Instant::now() >= until {
                return;
            }
        }
    }
}

/// Goes on with one attempt until the loop has something to hear of it.
pub(super) async fn go_on(attempting: Attempting, ends: Ends) {
    let finished = attempting.await;
    send(&ends, vec![finished]);
}

/// Waits for attempts of which most are answered together, by one commit.
async fn settle(mut settling: Vec<Attempting>, ends: Ends) {
    std::future::poll_fn(|task| {
        let mut finished = Vec::new();
        settling.retain_mut(|attempting| match Pin::new(attempting).poll(task) {
            Poll::Ready(end) => {
                finished.push(end);
                false
            }
            Poll::Pending => true,
        });
        send(&ends, finished);
        if settling.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn send(ends: &Ends, finished: Vec<Finished>) {
    if !finished.is_empty() {
        // A worker that is gone hears nothing more.
        let _ = ends.send(finished);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use redrive_core::id::{RunId, TaskId};
    use redrive_core::time::Timestamp;
    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::worker::lease::{LeaseKeeper, LeaseTerms};
    use crate::worker::permit::Permits;

    const ACCEPTED: AttemptResult = AttemptResult::Ended(AttemptEnd::Accepted { records: 0 });

    type Attempt = BoxFuture<'static, AttemptResult>;

    /// A line that has begun, and what is needed to look at it.
    struct Laid {
        attempts: JoinSet<()>,
        ends: mpsc::UnboundedReceiver<Vec<Finished>>,
        keeper: LeaseKeeper,
        permits: Permits,
    }

    impl Laid {
        fn new(begun: Vec<Attempt>) -> Self {
            let hour = Duration::from_secs(3600);
            let keeper = LeaseKeeper::without_thread(LeaseTerms { lease: hour, heartbeat: hour });
            let (permits, used) = (Permits::default(), Arc::default());
            let ready = begun.into_iter().zip(0..).map(|(attempt, nth)| {
                let run_id = RunId::new(Timestamp::from_micros(0), nth);
                let task_id = TaskId::from_uuid(run_id.uuid());
                let task = Task::new(run_id, task_id, move |lease, _| async move {
                    let _lease = lease;
                    attempt.await
                });
                let lease = keeper.hold(run_id, task_id, Instant::now());
                Ready { nth: 0, task, lease, permit: permits.take(&used) }
            });
            let (mut attempts, (sender, ends)) = (JoinSet::new(), mpsc::unbounded_channel());
            let ready = ready.collect();
            Line::start(&mut attempts, ready, Shutdown::default(), sender);
            Self { attempts, ends, keeper, permits }
        }

        /// Gives how many ends are as they should be, and how many are lost, when all have been told.
        async fn told(mut self) -> (usize, usize) {
            let (mut accepted, mut lost) = (0, 0);
            while let Some(finished) = self.ends.recv().await {
                for Finished { result, .. } in finished {
                    match result {
                        AttemptResult::Ended(AttemptEnd::Accepted { .. }) => accepted += 1,
                        AttemptResult::Ended(AttemptEnd::Lost) => lost += 1,
                        AttemptResult::Ended(_)
                        | AttemptResult::Settling { .. }
                        | AttemptResult::InfraFailed { .. } => panic!("no attempt here ends so"),
                    }
                }
            }
            assert_eq!(self.keeper.held(), 0, "every lease has been let go");
            (accepted, lost)
        }
    }

    fn settling(rest: impl Future<Output = AttemptResult> + Send + 'static) -> Attempt {
        Box::pin(async { AttemptResult::Settling { rest: Box::pin(rest) } })
    }

    #[tokio::test]
    async fn what_answers_at_once_gives_its_permit_up_and_settles_with_others_in_few_tasks() {
        let (answer, _) = watch::channel(false);
        let attempt = || {
            let mut answered = answer.subscribe();
            settling(async move { answered.wait_for(|answered| *answered).await.map_or(ACCEPTED, |_| ACCEPTED) })
        };
        let laid = Laid::new((0..500).map(|_| attempt()).collect());
        laid.permits.wait_for(500).await;
        tokio::task::yield_now().await;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(tasks < 100, "{tasks} tasks for 500 attempts");
        answer.send_replace(true);
        assert_eq!(laid.told().await, (500, 0));
    }

    #[tokio::test]
    async fn what_waits_goes_on_by_itself() {
        let waits = || -> Attempt {
            Box::pin(async {
                tokio::task::yield_now().await;
                ACCEPTED
            })
        };
        let laid = Laid::new((0..200).map(|_| waits()).collect());
        assert_eq!(laid.told().await, (200, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_handler_that_blocks_its_thread_keeps_no_other_from_beginning() {
        let (begun, others) = std::sync::mpsc::channel();
        let blocks: Attempt = Box::pin(async move {
            let heard = others.recv_timeout(Duration::from_secs(20));
            heard.map_or(AttemptResult::Ended(AttemptEnd::Lost), |()| ACCEPTED)
        });
        let other: Attempt = Box::pin(async move { begun.send(()).map_or(ACCEPTED, |()| ACCEPTED) });
        assert_eq!(Laid::new(vec![blocks, other]).told().await, (2, 0));
    }

    #[tokio::test]
    async fn one_that_panics_is_lost_and_the_others_go_on() {
        let at_once: Attempt = Box::pin(async { panic!("at once") });
        let settles = settling(async { panic!("while it settles") });
        let waits: Attempt = Box::pin(async {
            tokio::task::yield_now().await;
            panic!("after a while")
        });
        let laid = Laid::new(vec![at_once, settles, waits, settling(async { ACCEPTED })]);
        assert_eq!(laid.told().await, (1, 3));
    }

    #[tokio::test]
    async fn what_a_line_has_begun_is_aborted_with_it() {
        let (under_way, mut dropped) = mpsc::channel::<()>(1);
        let hangs = |settles: bool| -> Attempt {
            let guard = under_way.clone();
            let hang = async move {
                let _guard = guard;
                std::future::pending().await
            };
            if settles { settling(hang) } else { Box::pin(hang) }
        };
        let mut laid = Laid::new(vec![hangs(true), hangs(false), hangs(true)]);
        laid.permits.wait_for(2).await;
        drop(under_way);
        laid.attempts.abort_all();
        assert_eq!(dropped.recv().await, None, "each attempt has been dropped");
    }
}
