//! Commits what many attempts have to record in few transactions.
//!
//! An item that comes alone is committed at once. What comes while a commit is under way is gathered for the next one, and
//! as long as many come, the first of them waits a moment for more, no longer than a commit takes: ten in one transaction cost
//! little more than two. A group that is full waits for nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::patience::wait_for_more;
use crate::error::{Error, Result, TRY_AGAIN};

type Commit<I, O> = dyn Fn(Arc<Vec<I>>) -> BoxFuture<'static, redrive_store::Result<Vec<O>>> + Send + Sync;

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
    /// Starts the task, which commits at most `most` items in one transaction. `commit` gives one outcome for each item, in
    /// their order.
    pub fn start(
        most: usize,
        commit: impl Fn(Arc<Vec<I>>) -> BoxFuture<'static, redrive_store::Result<Vec<O>>> + Send + Sync + 'static,
    ) -> Self {
        Self::gathering(most, wait_for_more, Arc::new(commit))
    }

    /// `wait` says how long an item waits for others, after a commit of several that took so long.
    fn gathering(most: usize, wait: fn(Duration) -> Duration, commit: Arc<Commit<I, O>>) -> Self {
        let (waiting, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(inbox, most, wait, commit));
        Self { waiting }
    }

    /// Has an item committed, and gives its outcome once that is waited for. While the database is out of reach it is tried
    /// again; a caller that drops the future, because its lease has ended, withdraws an item that is not being committed yet.
    pub fn complete(&self, item: I) -> impl Future<Output = Result<O>> + Send + use<I, O> {
        let (reply, answer) = oneshot::channel();
        // Where the task has ended, the reply is dropped with the item.
        let _ = self.waiting.send(Waiting { item, reply });
        async move { Ok(answer.await.map_err(|_| Error::CompleterGone)??) }
    }
}

async fn run<I, O>(
    mut inbox: mpsc::UnboundedReceiver<Waiting<I, O>>,
    most: usize,
    wait: fn(Duration) -> Duration,
    commit: Arc<Commit<I, O>>,
) where
    I: Clone + Send + Sync + 'static,
    O: Send + 'static,
{
    let mut group = Vec::with_capacity(most);
    let mut gather_for = Duration::ZERO;
    while inbox.recv_many(&mut group, most).await > 0 {
        let gather_until = Instant::now() + gather_for;
        while group.len() < most {
            let lacking = most - group.len();
            let more = inbox.recv_many(&mut group, lacking);
            // Nothing comes any more, or not in time.
            if let Ok(0) | Err(_) = tokio::time::timeout_at(gather_until, more).await {
                break;
            }
        }
        let (begun, is_alone) = (Instant::now(), group.len() == 1);
        commit_group(std::mem::take(&mut group), &*commit).await;
        gather_for = if is_alone { Duration::ZERO } else { wait(begun.elapsed()) };
    }
}

async fn commit_group<I: Clone, O>(group: Vec<Waiting<I, O>>, commit: &Commit<I, O>) {
    let (mut items, mut replies) = still_wanted(group.into_iter().map(|waiting| (waiting.item, waiting.reply)));
    while !items.is_empty() {
        let shared = Arc::new(items);
        let error = match commit(Arc::clone(&shared)).await {
            Ok(outcomes) => {
                replies.into_iter().zip(outcomes).for_each(|(reply, outcome)| drop(reply.send(Ok(outcome))));
                return;
            }
            Err(error) => error,
        };
        let again = Arc::unwrap_or_clone(shared).into_iter().zip(replies);
        if error.is_fatal() {
            // The others would fare no better, and are told by their senders' end.
            let mut again = again;
            again.next().map(|(_, reply)| reply.send(Err(error)));
            return;
        }
        if !error.is_transient() {
            let again = again.map(|(item, reply)| Waiting { item, reply }).collect();
            return commit_each(again, error, commit).await;
        }
        tracing::warn!(%error, waiting = again.len(), "results could not be recorded; trying again");
        tokio::time::sleep(TRY_AGAIN).await;
        (items, replies) = still_wanted(again);
    }
}

type Reply<O> = oneshot::Sender<redrive_store::Result<O>>;

/// Leaves out what was withdrawn.
fn still_wanted<I, O>(group: impl Iterator<Item = (I, Reply<O>)>) -> (Vec<I>, Vec<Reply<O>>) {
    group.filter(|(_, reply)| !reply.is_closed()).unzip()
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

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(3600);

    /// Commits at most four at once, and gathers as long as a test may last; gives the sizes of the commits, too.
    fn fours() -> (Completer<u32, u32>, mpsc::UnboundedReceiver<usize>) {
        let (begun, commits) = mpsc::unbounded_channel();
        let commit = move |items: Arc<Vec<u32>>| -> BoxFuture<'static, redrive_store::Result<Vec<u32>>> {
            let _ = begun.send(items.len());
            Box::pin(async move { Ok(items.to_vec()) })
        };
        (Completer::gathering(4, |_| FOR_EVER, Arc::new(commit)), commits)
    }

    async fn complete(completer: &Completer<u32, u32>, count: u32) {
        let outcomes = join_all((0..count).map(|nth| completer.complete(nth))).await;
        assert!(outcomes.into_iter().map(Result::unwrap).eq(0..count));
    }

    #[tokio::test]
    async fn a_full_group_waits_for_nothing() {
        let (completer, mut commits) = fours();
        complete(&completer, 40).await;
        for _ in 0..10 {
            assert_eq!(commits.recv().await, Some(4));
        }
    }

    #[tokio::test]
    async fn an_item_alone_waits_for_nothing_and_after_several_the_next_are_gathered() {
        let (completer, mut commits) = fours();
        for _ in 0..3 {
            complete(&completer, 1).await;
            assert_eq!(commits.recv().await, Some(1));
        }
        complete(&completer, 2).await;
        assert_eq!(commits.recv().await, Some(2));
        tokio::join!(complete(&completer, 1), complete(&completer, 3));
        assert_eq!(commits.recv().await, Some(4), "one commit for all");
    }
}
