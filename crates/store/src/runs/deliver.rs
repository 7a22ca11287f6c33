//! Claims of outside workers, which come over a network that may lose the answer: the worker names its claim, and the same name
//! again gives the same runs. Until the worker speaks of a run, the run's lease is the time within which it must.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{self, EndedBy, Event, Run};
use redrive_core::share::even_share;
use redrive_core::time::Timestamp;

use super::claim::{ClaimedRun, Rows, RunClaim, claim};
use super::lease::{BEAT, HeartbeatAnswer};
use super::limit::{lock_number, take_turns};
use super::progress::note_progress;
use super::row::{get_many, read_from, run_columns};
use crate::db::{Batch, Column, Effect, Kind, Lookup, Sql, Tx};
use crate::error::Result;
use crate::handles::{DataStore, transact};

/// What an outside worker asks for.
#[derive(Debug, Clone)]
pub struct OutsideClaim {
    pub worker: String,
    /// How the worker calls this claim.
    pub claim_id: String,
    /// What may be started, one for each section; each is given as much as the others before one is given more. Their lease is the time
    /// within which the worker must speak.
    pub shares: Vec<RunClaim>,
    pub limit: u32,
    /// The time within which the worker must speak.
    pub window: Duration,
}

/// A run that an outside worker says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldByWorker {
    pub run_id: RunId,
    pub task_id: TaskId,
    /// How far the worker says it is.
    pub progress: Option<String>,
}

/// How one run of a heartbeat stands, and until when its lease lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideBeat {
    pub run_id: RunId,
    pub answer: HeartbeatAnswer,
    pub until: Option<Timestamp>,
}

impl DataStore {
    /// Gives an outside worker the runs of its claim: those that it was given under this name and still holds, otherwise new ones.
    pub async fn deliver_runs(&self, asked: OutsideClaim) -> Result<Vec<ClaimedRun>> {
        let task_id = self.inner.ids.task(self.inner.now());
        transact!(self.inner, "deliver runs", |tx, asked| deliver(tx, &asked, task_id).await)
    }

    /// Prolongs the leases of an outside worker, each until the moment that the caller gives for the run; answers for each run in the
    /// order of the question. A run for which the caller gives no moment is past its time, and lost.
    pub async fn beat_outside(
        &self,
        held: Vec<HeldByWorker>,
        until: impl Fn(&Run, Timestamp) -> Option<Timestamp> + Send + Sync + 'static,
    ) -> Result<Vec<OutsideBeat>> {
        transact!(self.inner, "beat of an outside worker", |tx, held, until| beat(tx, &held, &*until).await)
    }
}

async fn deliver(tx: &mut Tx<'_>, asked: &OutsideClaim, task_id: TaskId) -> Result<Vec<ClaimedRun>> {
    // The same claim may come again while its first request is still at work.
    tx.exclusive(lock_number(["redrive outside claim", &asked.worker, &asked.claim_id])).await?;
    let now = tx.now();
    let given = given_before(tx, asked, now).await?;
    if !given.is_empty() {
        return send(tx, asked, given, now).await;
    }
    take_turns(tx, &asked.shares).await?;
    let mut claimed = Vec::new();
    for is_first_round in [true, false] {
        for share in &asked.shares {
            let left = asked.limit.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
            let limit = if is_first_round { even_share(asked.limit, asked.shares.len(), 0, left) } else { left };
            if limit > 0 {
                let share = RunClaim { limit, ..share.clone() };
                claimed.extend(claim(tx, &share, Rows::Single, task_id, now).await?);
            }
        }
    }
    claimed.sort_by_key(|claimed| claimed.run.run_id);
    let fresh = claimed.into_iter().map(|claimed| (claimed, true)).collect();
    send(tx, asked, fresh, now).await
}

static GIVEN: Sql = Sql::new(
    "/* runs::given */
     SELECT run_id
     FROM run_claims
     WHERE worker = ?1
       AND claim_id = ?2
       AND lease_until > CAST(?3 AS BIGINT)
     ORDER BY run_id",
);
static READ_GIVEN: Lookup = Lookup::new(
    concat!(
        "/* runs::read_given */
     SELECT ",
        run_columns!(),
        ", payload
     FROM runs
     WHERE run_id = @run_id"
    ),
    &[("run_id", Kind::Id)],
);

/// What the worker still holds of this claim; and of each whether it is to be sent as something of which the worker may not know.
async fn given_before(tx: &mut Tx<'_>, asked: &OutsideClaim, now: Timestamp) -> Result<Vec<(ClaimedRun, bool)>> {
    let params = [(&asked.worker).into(), (&asked.claim_id).into(), now.micros().into()];
    let ids = tx.rows(&GIVEN, &params, |row| row.id(0)).await?;
    let ids = [Column::ids(&ids, |id| Some(*id))];
    let given = tx.lookup(&READ_GIVEN, &ids, |mut row| {
        let run = read_from(&mut row)?;
        Ok(ClaimedRun { run, payload: row.opt_text()? })
    });
    Ok(given
        .await?
        .into_iter()
        .map(|(_, claimed)| (claimed.run.awaits_ack, claimed))
        .map(|(new, c)| (c, new))
        .collect())
}

/// It agrees with `Event::Delivered`; a test compares them.
static SEND: Batch = Batch::new(
    "/* runs::send */
     UPDATE run_claims
     SET claim_id = @claim_id, awaits_ack = 1, lease_until = @until
     {from}
     WHERE workload = @workload
       AND category = @category
       AND run_id = @run_id
       AND task_id = @task_id",
    &[
        ("claim_id", Kind::Text),
        ("until", Kind::Int),
        ("workload", Kind::Text),
        ("category", Kind::Text),
        ("run_id", Kind::Id),
        ("task_id", Kind::Id),
    ],
    Effect::Row,
);

/// Notes which runs are on their way to the worker. What another caller has ended meanwhile is left out.
async fn send(
    tx: &mut Tx<'_>,
    asked: &OutsideClaim,
    runs: Vec<(ClaimedRun, bool)>,
    now: Timestamp,
) -> Result<Vec<ClaimedRun>> {
    let (mut sent, mut known) = (Vec::new(), Vec::new());
    for (claimed, is_new) in runs {
        if !is_new {
            known.push(claimed);
            continue;
        }
        let Some(task_id) = claimed.run.task_id else { continue };
        let delivered = Event::Delivered { task_id, lease_until: now.saturating_add(asked.window) };
        if let Ok(change) = run::apply(&claimed.run, delivered, now) {
            sent.push(ClaimedRun { run: change.after, ..claimed });
        }
    }
    let columns = [
        Column::texts(&sent, |_| Some(asked.claim_id.as_str())),
        Column::ints(&sent, |sent| sent.run.lease_until.map(Timestamp::micros)),
        Column::texts(&sent, |sent| Some(sent.run.workload().as_str())),
        Column::texts(&sent, |sent| Some(sent.run.work.category())),
        Column::ids(&sent, |sent| Some(sent.run.run_id.uuid())),
        Column::ids(&sent, |sent| sent.run.task_id.map(TaskId::uuid)),
    ];
    let took = tx.batch(&SEND, &columns).await?;
    known.extend(sent.into_iter().zip(took).filter(|(_, took)| *took).map(|(sent, _)| sent));
    known.sort_by_key(|claimed| claimed.run.run_id);
    Ok(known)
}

async fn beat(
    tx: &mut Tx<'_>,
    held: &[HeldByWorker],
    until: &(dyn Fn(&Run, Timestamp) -> Option<Timestamp> + Send + Sync),
) -> Result<Vec<OutsideBeat>> {
    let now = tx.now();
    let ids: Vec<RunId> = held.iter().map(|held| held.run_id).collect();
    let runs: BTreeMap<RunId, Run> = get_many(tx, &ids).await?.into_iter().map(|run| (run.run_id, run)).collect();
    let prolonged = |held: &HeldByWorker| {
        let run = runs.get(&held.run_id)?;
        let beat = Event::Beat { task_id: held.task_id, lease_until: until(run, now)? };
        run::apply(run, beat, now).ok()?.after.lease_until
    };
    let beats: Vec<(&HeldByWorker, Option<Timestamp>)> = held.iter().map(|held| (held, prolonged(held))).collect();
    let mut alive: Vec<_> = beats.iter().filter_map(|(held, until)| Some((*held, (*until)?))).collect();
    // In the order in which reports take them, so that no two transactions wait for each other.
    alive.sort_unstable_by_key(|(held, _)| (held.run_id, held.task_id));
    let columns = [
        Column::ids(&alive, |(held, _)| Some(held.run_id.uuid())),
        Column::ids(&alive, |(held, _)| Some(held.task_id.uuid())),
        Column::ints(&alive, |_| Some(now.micros())),
        Column::ints(&alive, |_| Some(now.micros())),
        Column::ints(&alive, |(_, until)| Some(until.micros())),
    ];
    let took = tx.batch(&BEAT, &columns).await?;
    let beaten: HashSet<(RunId, TaskId)> =
        alive.iter().zip(took).filter(|(_, took)| *took).map(|((held, _), _)| (held.run_id, held.task_id)).collect();
    // Of rows that are locked already.
    note_progress(tx, &alive).await?;
    let answer = |(held, until): (&HeldByWorker, Option<Timestamp>)| {
        let run_id = held.run_id;
        let until = until.filter(|_| beaten.contains(&(run_id, held.task_id)));
        let is_cancelled = runs.get(&run_id).is_some_and(|run| run.ended_by == Some(EndedBy::Cancelled));
        let answer = match (until, is_cancelled) {
            (Some(_), _) => HeartbeatAnswer::Held,
            (None, true) => HeartbeatAnswer::Cancelled,
            (None, false) => HeartbeatAnswer::Lost,
        };
        OutsideBeat { run_id, answer, until }
    };
    Ok(beats.into_iter().map(answer).collect())
}
