//! Commits what many attempts have to record in few transactions.
//!
//! An item that comes alone is committed at once. What comes while a commit is under way is gathered for the next one, and
//! as long as many come, each commit waits a moment for more: ten in one transaction cost little more than two.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::{Error, Result, TRY_AGAIN};

/// The most items in one transaction.
const GROUP: usize = 256;

/// How long after the beginning of a commit the next one begins, when several items were in it.
const GATHER: Duration = Duration::from_millis(10);

type Commit<I, O> = dyn Fn(Vec<I>) -> BoxFuture<'static, redrive_store::Result<Vec<O>>> + Send + Sync;

/// The sender of items to a task that commits them. The task ends with the last sender.
pub struct Completer<I, O> {
    waiting: mpsc::UnboundedSender<Waiting<I, O>>,
}

struct Waiting<I, O> {
    item: I,
    reply: oneshot::Sender<redrive_store::Result<O>>,
}

impl<I, O> Clone for Completer<I, O> {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone() }
    }
}

impl<I, O> fmt::Debug for Completer<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

impl<I, O> Completer<I, O>
where
    I: Clone + Send + Sync + 'static,
    O: Send + 'static,
{
    /// Starts the task. `commit` gives one outcome for each item, in their order.
    pub fn start(
        commit: impl Fn(Vec<I>) -> BoxFuture<'static, redrive_store::Result<Vec<O>>> + Send + Sync + 'static,
    ) -> Self {
        let (waiting, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(inbox, Arc::new(commit)));
        Self { waiting }
    }

    /// Has an item committed; gives its outcome. While the database is out of reach it is tried again; a caller that
    /// drops this future, because its lease has ended, withdraws an item that is not being committed yet.
    pub async fn complete(&self, item: I) -> Result<O> {
        let (reply, answer) = oneshot::channel();
        if self.waiting.send(Waiting { item, reply }).is_err() {
            return Err(Error::CompleterGone);
        }
        Ok(answer.await.map_err(|_| Error::CompleterGone)??)
    }
}

async fn run<I, O>(mut inbox: mpsc::UnboundedReceiver<Waiting<I, O>>, commit: Arc<Commit<I, O>>)
where
    I: Clone + Send + Sync + 'static,
    O: Send + 'static,
{
    let mut group = Vec::with_capacity(GROUP);
    let mut gather_until = Instant::now();
    while inbox.recv_many(&mut group, GROUP).await > 0 {
        tokio::time::sleep_until(gather_until).await;
        while group.len() < GROUP
            && let Ok(waiting) = inbox.try_recv()
        {
            group.push(waiting);
        }
        gather_until = Instant::now() + if group.len() > 1 { GATHER } else { Duration::ZERO };
        commit_group(std::mem::take(&mut group), &*commit).await;
    }
}

async fn commit_group<I: Clone, O>(mut group: Vec<Waiting<I, O>>, commit: &Commit<I, O>) {
    loop {
        group.retain(|waiting| !waiting.reply.is_closed());
        if group.is_empty() {
            return;
        }
        match commit(group.iter().map(|waiting| waiting.item.clone()).collect()).await {
            Ok(outcomes) => {
                group.into_iter().zip(outcomes).for_each(|(waiting, outcome)| drop(waiting.reply.send(Ok(outcome))));
                return;
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, waiting = group.len(), "results could not be recorded; trying again");
                tokio::time::sleep(TRY_AGAIN).await;
            }
            // The others would fare no better, and are told by their senders' end.
            Err(error) if error.is_fatal() => {
                group.into_iter().next().map(|waiting| waiting.reply.send(Err(error)));
                return;
            }
            Err(error) => return commit_each(group, error, commit).await,
        }
    }
}

/// One of a group is at fault: each is committed by itself, so that the others are recorded.
async fn commit_each<I: Clone, O>(mut group: Vec<Waiting<I, O>>, error: redrive_store::Error, commit: &Commit<I, O>) {
    if group.len() == 1 {
        if let Some(waiting) = group.pop() {
            let _ = waiting.reply.send(Err(error));
        }
        return;
    }
    for waiting in group {
        Box::pin(commit_group(vec![waiting], commit)).await;
    }
}
