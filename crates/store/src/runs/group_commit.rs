//! Submissions of many callers in one commit.
//!
//! On PostgreSQL every commit waits for the disk and for several answers of the server. A caller that submits a few runs puts
//! them in line; the first in line commits everything that is in line, while the next ones gather. SQLite's writer does the same
//! for all that is written.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot::{self, error::TryRecvError};

use super::submit::{Begun, Submitted, insert};
use crate::db::Dialect;
use crate::error::{Error, Result};
use crate::handles::{Inner, transact};
use crate::idempotency;

/// How many runs are committed together.
const MOST: usize = 1000;
/// How many runs one caller may bring into a group; more are worth a commit of their own.
const FEW: usize = 16;
/// How many bytes of payload one caller may bring into a group.
const SMALL: usize = 64 * 1024;

/// Who waits for a commit.
#[derive(Debug, Default)]
pub(crate) struct SubmitLine {
    waiting: Mutex<Vec<Waiting>>,
    /// Held by the caller that commits.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    runs: Vec<Begun>,
    reply: oneshot::Sender<Answer>,
}

#[derive(Debug)]
enum Answer {
    Submitted(Vec<Submitted>),
    /// The group was not committed, and nothing of it is there: each caller tries alone and hears what is wrong with its own.
    Alone(Vec<Begun>),
    /// The database could not be reached, or it is not known whether the group was committed. No caller tries again.
    Failed(Error),
}

impl SubmitLine {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the callers that have waited longest. One that has gone submits nothing: it may have looked, found nothing, and asked again.
    fn next_group(&self) -> Vec<Waiting> {
        let mut waiting = self.lock();
        waiting.retain(|caller| !caller.reply.is_closed());
        let mut runs = 0;
        let fits = waiting.iter().take_while(|caller| {
            runs += caller.runs.len();
            runs <= MOST
        });
        let count = fits.count();
        waiting.drain(..count).collect()
    }
}

/// Submits runs, together with those of other callers where that is faster.
pub(super) async fn submit(inner: &Arc<Inner>, runs: Vec<Begun>) -> Result<Vec<Submitted>> {
    let bytes: usize = runs.iter().map(|run| run.payload.as_ref().map_or(0, String::len)).sum();
    match inner.db.dialect() {
        // What is done under an idempotency key has a transaction of its own.
        Dialect::Postgres if runs.len() <= FEW && bytes <= SMALL && idempotency::current().is_none() => {}
        Dialect::Postgres | Dialect::Sqlite => return commit(inner, &Arc::new(runs)).await,
    }
    let (reply, mut answer) = oneshot::channel();
    inner.submits.lock().push(Waiting { runs, reply });
    let turn = inner.submits.turn.lock().await;
    let answer = loop {
        match answer.try_recv() {
            Ok(answer) => break answer,
            Err(TryRecvError::Closed) => return Err(lost("the caller that committed it is gone")),
            Err(TryRecvError::Empty) => {}
        }
        let group = Arc::clone(inner);
        // A caller that gives up must not take the others' commit with it.
        let found = tokio::spawn(async move { commit_group(&group).await });
        if found.await.map_err(lost)? == Found::Nothing {
            // A commit that its caller gave up on has these runs.
            break answer.await.map_err(lost)?;
        }
    };
    drop(turn);
    match answer {
        Answer::Submitted(submitted) => Ok(submitted),
        Answer::Failed(error) => Err(error),
        Answer::Alone(runs) => commit(inner, &Arc::new(runs)).await,
    }
}

/// What was in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Something,
    Nothing,
}

fn lost(error: impl std::fmt::Display) -> Error {
    Error::Statement { name: "submit runs", why: error.to_string() }
}

async fn commit_group(inner: &Arc<Inner>) -> Found {
    let group = inner.submits.next_group();
    if group.is_empty() {
        return Found::Nothing;
    }
    let (mut replies, mut runs) = (Vec::with_capacity(group.len()), Vec::new());
    for Waiting { runs: its, reply } in group {
        replies.push((reply, its.len()));
        runs.extend(its);
    }
    let runs = Arc::new(runs);
    let submitted = commit(inner, &runs).await;
    let mut runs = Arc::unwrap_or_clone(runs).into_iter();
    let mut submitted = submitted.map(Vec::into_iter);
    for (reply, count) in replies {
        let answer = match &mut submitted {
            Ok(submitted) => Answer::Submitted(submitted.by_ref().take(count).collect()),
            Err(error) => match of_all(error) {
                Some(error) => Answer::Failed(error),
                None => Answer::Alone(runs.by_ref().take(count).collect()),
            },
        };
        // A caller that has gone needs no answer.
        let _ = reply.send(answer);
    }
    Found::Something
}

/// An error that every caller of a group would get by itself.
fn of_all(error: &Error) -> Option<Error> {
    match error {
        Error::Lost { place, name, why } => Some(Error::Lost { place: place.clone(), name, why: why.clone() }),
        Error::Unknown { place, name, why } => Some(Error::Unknown { place: place.clone(), name, why: why.clone() }),
        Error::Stopped { place, name } => Some(Error::Stopped { place: place.clone(), name }),
        Error::Busy { place, seconds } => Some(Error::Busy { place: place.clone(), seconds: *seconds }),
        Error::ReadOnly { place, why } => Some(Error::ReadOnly { place: place.clone(), why: why.clone() }),
        Error::Full { place } => Some(Error::Full { place: place.clone() }),
        Error::Unavailable { place, why } => Some(Error::Unavailable { place: place.clone(), why: why.clone() }),
        Error::Url { .. }
        | Error::NoDatabase { .. }
        | Error::NewerSchema { .. }
        | Error::OlderSchema { .. }
        | Error::Foreign { .. }
        | Error::Replaced { .. }
        | Error::Cancelled { .. }
        | Error::Statement { .. }
        | Error::Row { .. }
        | Error::Refused(_)
        | Error::Input { .. }
        | Error::Absent { .. }
        | Error::KeyTaken => None,
    }
}

async fn commit(inner: &Inner, runs: &Arc<Vec<Begun>>) -> Result<Vec<Submitted>> {
    let (runs, now) = (Arc::clone(runs), inner.now());
    transact!(inner, "submit runs", |tx, runs| insert(tx, &runs, now).await)
}
