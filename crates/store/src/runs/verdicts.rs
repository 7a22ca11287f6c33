//! Verdicts of many attempts in one transaction.
//!
//! What a worker holds is as it claimed it, nearly always: so nothing is read, and each write asks for the version and the
//! fence that the worker saw. An attempt for which one of them no longer fits is judged by itself with its rows locked, and
//! nothing of it stays in the group's transaction.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redrive_core::breaker::{BreakerPolicy, StreakVerdict};
use redrive_core::fingerprint;
use redrive_core::partition::{self, DataEvent, Event, InFlight, Judgement};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{self, Run, Workload};
use redrive_core::time::Timestamp;

use super::record::{self, Recorded, judged};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::handles::{Verdicts, transact};
use crate::holds::{self, NotedVerdict};
use crate::ids::Ids;
use crate::partitions::{self, ClaimedPartition};

/// An attempt and the validator's judgement of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedAttempt {
    /// As it was claimed, with the lease as last prolonged.
    pub claimed: ClaimedPartition,
    pub judgement: Judgement,
    /// A JSON object.
    pub metrics: String,
    /// What the attempt's programs wrote on stderr. Kept where it is rejected.
    pub trace: Option<String>,
    /// When failures like this one hold the source or the customer.
    pub breaker: BreakerPolicy,
}

impl Verdicts {
    /// Records the validator's judgements of many attempts; each stands for itself.
    pub async fn judge_many(&self, judged: &[JudgedAttempt]) -> Result<Vec<Recorded>> {
        let mut recorded = Vec::with_capacity(judged.len());
        self.judge_group(judged, &mut recorded).await?;
        Ok(recorded)
    }

    /// Halves a group that does not fit as a whole, until each attempt that does not fit is judged by itself.
    fn judge_group<'a>(
        &'a self,
        judged: &'a [JudgedAttempt],
        recorded: &'a mut Vec<Recorded>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if let Some(runs) = self.judge_unread(judged).await? {
                recorded.extend(runs.into_iter().map(|run| Recorded::As(Box::new(run))));
            } else if let [attempt] = judged {
                recorded.push(self.judge_alone(attempt).await?);
            } else {
                let (first, second) = judged.split_at(judged.len() / 2);
                self.judge_group(first, recorded).await?;
                self.judge_group(second, recorded).await?;
            }
            Ok(())
        })
    }

    /// Records all of a group if everything is as the worker saw it, and nothing otherwise.
    async fn judge_unread(&self, judged: &[JudgedAttempt]) -> Result<Option<Vec<Run>>> {
        let (judged, inner) = (judged.to_vec(), Arc::clone(&self.inner));
        let written = transact!(self.inner, "judge many", |tx, judged, inner| {
            let changes = changes_of_all(&judged, tx.now())?;
            write(tx, changes, &inner.ids).await
        });
        match written {
            Ok(runs) => Ok(Some(runs)),
            Err(Error::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

struct Changes {
    partitions: Vec<partition::Change>,
    runs: Vec<run::Change>,
    breakers: Vec<BreakerPolicy>,
}

fn changes_of_all(judged: &[JudgedAttempt], now: Timestamp) -> Result<Changes> {
    let changes: Option<Vec<_>> = judged.iter().map(|attempt| changes_of(attempt, now)).collect();
    let (partitions, runs) = changes.ok_or(Refused::Rule(Reason::StaleFence))?.into_iter().unzip();
    let breakers = judged.iter().map(|attempt| attempt.breaker).collect();
    Ok(Changes { partitions, runs, breakers })
}

fn changes_of(attempt: &JudgedAttempt, now: Timestamp) -> Option<(partition::Change, run::Change)> {
    let JudgedAttempt { claimed, judgement, metrics, trace, .. } = attempt;
    let in_flight = InFlight { run_id: claimed.run.run_id, task_id: claimed.run.task_id? };
    let ended =
        run::Event::Ended { task_id: in_flight.task_id, end: judged(judgement, Some(metrics.clone()), trace.clone()) };
    let run = run::apply(&claimed.run, ended, now).ok()?;
    let judged = DataEvent::Judged(in_flight, judgement.clone());
    let partition = partition::apply(&claimed.partition, Event::Data(judged), now).ok()?;
    Some((partition, run))
}

/// Writes all or nothing. Runs before partitions, as everywhere, so that no two transactions wait for each other.
async fn write(tx: &mut Tx<'_>, changes: Changes, ids: &Ids) -> Result<Vec<Run>> {
    let now = tx.now();
    let all = |took: &[bool]| took.iter().all(|took| *took);
    let is_whole =
        all(&record::write(tx, &changes.runs).await?) && all(&partitions::write(tx, &changes.partitions).await?);
    if !is_whole {
        return Err(Refused::Rule(Reason::StaleFence).into());
    }
    let noted = changes.runs.iter().zip(&changes.breakers);
    let noted: Vec<_> = noted.filter_map(|(change, breaker)| noted_verdict(change, *breaker)).collect();
    holds::note(tx, ids, &noted, now).await?;
    tx.wake_for(Workload::Extract);
    Ok(changes.runs.into_iter().map(|change| change.after).collect())
}

/// What an attempt's end is to the breaker; nothing where it has no verdict.
pub(super) fn noted_verdict(change: &run::Change, policy: BreakerPolicy) -> Option<NotedVerdict<'_>> {
    let run = &change.after;
    let answer = match (&change.failure, run.verdict) {
        (Some(failure), _) => {
            StreakVerdict::Rejected { class: failure.class, group: fingerprint::of_try(run, failure).group }
        }
        (None, Some(run::Verdict::Passed)) => StreakVerdict::Accepted,
        (None, _) => return None,
    };
    let message = change.failure.as_ref().map_or("", |failure| failure.message.as_str());
    let (key, worker) = (run.key()?, run.worker.as_deref().unwrap_or("a worker"));
    Some(NotedVerdict { key, run_id: run.run_id, worker, policy, answer, message })
}
