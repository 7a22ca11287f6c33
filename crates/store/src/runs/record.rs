//! What became of runs: written under the fence's guard, together with their failures and, for an extraction, its
//! partition.

use std::borrow::Borrow;
use std::sync::Arc;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::{self, DataEvent, InFlight, Judgement};
use redrive_core::refusal::Refused;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, Change, End, EndedBy, Event, Fault, Run, State, Verdict, Workload};
use redrive_core::time::Timestamp;

use super::counted::{self, EndOfClaim, Sources};
use super::failures;
use super::incidents::{self, Noted};
use super::lease::by_the_clock;
use super::row::{get, get_locked};
use super::standing;
use super::verdicts::{JudgedAttempt, noted_verdict};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::handles::{DataStore, Inner, Verdicts, transact};
use crate::holds;
use crate::ids::Ids;
use crate::partitions;

/// What became of a worker's report, with the run as it is now or what its worker keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded<R = Box<Run>> {
    As(R),
    /// It came from a claim that is no longer the current one, or too late; nothing was changed.
    Refused(Refused),
    /// The run was taken from this worker in the meantime; nothing was changed.
    Lost,
}

impl DataStore {
    /// Records how workers ended ingest and process runs, all in one transaction; each stands for itself. The run is as
    /// its worker knows it, with the lease as last prolonged; a worker that goes on using it shares it.
    pub async fn record<R>(&self, ends: impl Into<Arc<Vec<(R, End)>>>) -> Result<Vec<Recorded>>
    where
        R: Borrow<Run> + Send + Sync + 'static,
    {
        self.record_keeping(ends, Box::new).await
    }

    /// The same for a worker that keeps no more of a run than `keep` takes from it: of many runs that end as they should, that
    /// is next to nothing.
    pub async fn record_keeping<R, K>(
        &self,
        ends: impl Into<Arc<Vec<(R, End)>>>,
        keep: fn(Run) -> K,
    ) -> Result<Vec<Recorded<K>>>
    where
        R: Borrow<Run> + Send + Sync + 'static,
        K: Send + 'static,
    {
        let ends = ends.into();
        if ends.iter().any(|(run, _)| run.borrow().workload() == Workload::Extract) {
            return Err(Error::Input { what: "an extraction's end", why: "it is judged with its partition" });
        }
        transact!(self.inner, "record runs", |tx, ends| record(tx, &ends, keep).await)
    }

    /// Gives a claimed partition back untried; no attempt is counted. Where something on the worker's side failed, the
    /// run's row says what.
    pub async fn release(&self, run: &Run, why: Option<&str>) -> Result<Recorded> {
        let end = End::Released { why: why.map(str::to_owned) };
        end_attempt(&self.inner, "release", run, end, DataEvent::Released, BreakerPolicy::OFF).await
    }

    /// Gives a claimed partition back until its source is to be asked again; no attempt is counted.
    pub async fn rate_limited(&self, run: &Run, message: &str, until: Timestamp) -> Result<Recorded> {
        let end = End::RateLimited { message: message.to_owned() };
        let event = |attempt| DataEvent::RateLimited { attempt, until };
        end_attempt(&self.inner, "rate limited", run, end, event, BreakerPolicy::OFF).await
    }
}

impl Verdicts {
    /// Records the validator's judgement of an attempt: partition, run and history in one transaction.
    pub async fn judge(&self, run: &Run, judgement: Judgement, metrics: Option<String>) -> Result<Recorded> {
        let end = judged(&judgement, metrics, None);
        self.end_judged(run, judgement, end, BreakerPolicy::OFF).await
    }

    /// The same for one of many, with the breaker of its source.
    pub(super) async fn judge_alone(&self, attempt: &JudgedAttempt) -> Result<Recorded> {
        let JudgedAttempt { claimed, judgement, metrics, trace, breaker } = attempt;
        let end = judged(judgement, Some(metrics.clone()), trace.clone());
        self.end_judged(&claimed.run, judgement.clone(), end, *breaker).await
    }

    async fn end_judged(&self, run: &Run, judgement: Judgement, end: End, breaker: BreakerPolicy) -> Result<Recorded> {
        let data_event = move |attempt| DataEvent::Judged(attempt, judgement.clone());
        end_attempt(&self.inner, "judge", run, end, data_event, breaker).await
    }
}

async fn end_attempt(
    inner: &Arc<Inner>,
    name: &'static str,
    run: &Run,
    end: End,
    data_event: impl Fn(InFlight) -> DataEvent,
    breaker: BreakerPolicy,
) -> Result<Recorded> {
    let attempt = InFlight { run_id: run.run_id, task_id: claim_of(run)? };
    let no_partition = Error::Input { what: "an attempt", why: "the run is of no partition" };
    let key = run.key().cloned().ok_or(no_partition)?;
    let ending = Ending { name, key, attempt, end, data_event: data_event(attempt), breaker };
    let ids = Arc::clone(inner);
    match transact!(inner, name, |tx, ending, ids| ending.write(tx, &ids.ids).await) {
        Ok(run) => Ok(Recorded::As(Box::new(run))),
        Err(Error::Refused(refused)) => Ok(Recorded::Refused(refused)),
        Err(error) => Err(error),
    }
}

/// How a worker ended a run, as it knows the run.
struct Report<'e> {
    run: &'e Run,
    task_id: TaskId,
    end: &'e End,
}

impl Report<'_> {
    fn change(&self, run: &Run, now: Timestamp) -> Result<Change, Refused> {
        run::apply(run, Event::Ended { task_id: self.task_id, end: self.end.clone() }, now)
    }

    /// Whether this report is what `stored` says: an earlier call has recorded it, and its answer was lost.
    fn is_in(&self, stored: &Run, now: Timestamp) -> bool {
        let held = Run { lease_until: None, ..self.run.clone() };
        self.change(&held, now).is_ok_and(|Change { after, .. }| {
            let told = |run: &Run| (run.task_id, run.version, run.state, run.verdict);
            told(&after) == told(stored)
                && (&after.error_message, &after.metrics) == (&stored.error_message, &stored.metrics)
        })
    }

    /// Looks at the run as it is stored, where what the worker holds does not fit: its lease may have been moved, and an
    /// earlier call may have recorded this. Otherwise `held` says what speaks against it by the worker's own copy.
    async fn look_again(&self, tx: &mut Tx<'_>, held: Option<Refused>, now: Timestamp) -> Result<Recorded<Run>> {
        let Some(stored) = get(tx, self.run.run_id).await? else { return Ok(Recorded::Lost) };
        if self.is_in(&stored, now) {
            return Ok(Recorded::As(stored));
        }
        let Ok(change) = self.change(&by_the_clock(tx, stored), now) else {
            return Ok(held.map_or(Recorded::Lost, Recorded::Refused));
        };
        let took = write(tx, std::slice::from_ref(&change)).await? == [true];
        Ok(if took { Recorded::As(change.after) } else { Recorded::Lost })
    }
}

/// Records what fits at once, and looks again at the few that do not.
async fn record<K>(tx: &mut Tx<'_>, ends: &[(impl Borrow<Run>, End)], keep: fn(Run) -> K) -> Result<Vec<Recorded<K>>> {
    let now = tx.now();
    let reports = ends.iter().map(|(run, end)| (run.borrow(), end));
    let reports = reports.map(|(run, end)| Ok(Report { task_id: claim_of(run)?, run, end }));
    let reports = reports.collect::<Result<Vec<_>>>()?;
    let decided: Vec<_> = reports.iter().map(|report| report.change(report.run, now)).collect();
    let changes: Vec<&Change> = decided.iter().flatten().collect();
    let mut took = write_each(tx, &changes, EndOfClaim::Word).await?.into_iter();
    let mut recorded = Vec::with_capacity(reports.len());
    for (report, decided) in reports.iter().zip(decided) {
        recorded.push(match decided {
            Ok(change) if took.next() == Some(true) => Recorded::As(keep(change.after)),
            held => match report.look_again(tx, held.err(), now).await? {
                Recorded::As(run) => Recorded::As(keep(run)),
                Recorded::Refused(refused) => Recorded::Refused(refused),
                Recorded::Lost => Recorded::Lost,
            },
        });
    }
    Ok(recorded)
}

/// What a judgement means for the attempt's run.
pub(super) fn judged(judgement: &Judgement, metrics: Option<String>, trace: Option<String>) -> End {
    match judgement {
        Judgement::Accepted { .. } => End::Completed { verdict: Verdict::Passed, metrics },
        Judgement::Rejected { class, message, .. } => {
            let fault = Fault { class: *class, message: message.clone(), trace, retry_after: None };
            // Any policy does: only the control plane retries a partition.
            End::Failed { fault, metrics, policy: RetryPolicy::partitions() }
        }
    }
}

/// The end of an attempt, for its run and its partition.
struct Ending {
    name: &'static str,
    key: PartitionKey,
    attempt: InFlight,
    end: End,
    data_event: DataEvent,
    breaker: BreakerPolicy,
}

impl Ending {
    async fn write(&self, tx: &mut Tx<'_>, ids: &Ids) -> Result<Run> {
        let absent = |what, id: String| Error::Absent { what, id };
        let InFlight { run_id, task_id } = self.attempt;
        let now = tx.now();
        // Runs are locked before partitions everywhere, so that no two transactions wait for each other.
        let run =
            get_locked(tx, (Workload::Extract, ""), run_id).await?.ok_or_else(|| absent("run", run_id.to_string()))?;
        let run = by_the_clock(tx, run);
        let partition = partitions::get_many_locked(tx, std::slice::from_ref(&self.key)).await?;
        let partition =
            partition.into_iter().flatten().next().ok_or_else(|| absent("partition", self.key.to_string()))?;
        let run_change = run::apply(&run, Event::Ended { task_id, end: self.end.clone() }, now)?;
        let change = partition::apply(&partition, partition::Event::Data(self.data_event.clone()), now)?;
        let both = partitions::write(tx, std::slice::from_ref(&change)).await? == [true]
            && write(tx, std::slice::from_ref(&run_change)).await? == [true];
        // Both were read under a lock, so this cannot be; if it were, half of it must not stay.
        if !both {
            return Err(Error::Statement { name: self.name, why: "a locked row changed".to_owned() });
        }
        if let Some(noted) = noted_verdict(&run_change, self.breaker) {
            holds::note(tx, ids, &[noted], now).await?;
        }
        tx.wake_for(Workload::Extract);
        Ok(run_change.after)
    }
}

/// Moves a run.
pub(crate) async fn move_run(tx: &mut Tx<'_>, id: RunId, event: &Event, now: Timestamp) -> Result<Run> {
    let absent = || Error::Absent { what: "run", id: id.to_string() };
    // A worker may come between the look and the write; the next look sees what it did.
    loop {
        let run = get(tx, id).await?.ok_or_else(absent)?;
        let change = run::apply(&run, event.clone(), now)?;
        if write(tx, std::slice::from_ref(&change)).await? == [true] {
            return Ok(change.after);
        }
    }
}

/// The fence of the claim under which a worker speaks.
fn claim_of(run: &Run) -> Result<TaskId> {
    run.task_id.ok_or_else(|| Error::Absent { what: "claim of run", id: run.run_id.to_string() })
}

/// Writes changes whose run is still as it was, with their failures; says of each whether it was.
pub(super) async fn write(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<bool>> {
    write_each(tx, &changes.iter().collect::<Vec<_>>(), EndOfClaim::Word).await
}

/// The same for runs whose lease has passed.
pub(super) async fn write_expired(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<bool>> {
    write_each(tx, &changes.iter().collect::<Vec<_>>(), EndOfClaim::Expiry).await
}

async fn write_each(tx: &mut Tx<'_>, all: &[&Change], by: EndOfClaim) -> Result<Vec<bool>> {
    let took = standing::take(tx, all).await?;
    let written: Vec<&Change> =
        all.iter().copied().zip(&took).filter(|(_, took)| **took).map(|(change, _)| change).collect();
    standing::put(tx, &written.iter().map(|change| &change.after).collect::<Vec<_>>()).await?;
    let failed = written.iter().filter_map(|change| Some((&change.after, change.failure.as_ref()?)));
    failures::insert(tx, &failed.collect::<Vec<_>>()).await?;
    let now = tx.now();
    let incidents = written.iter().filter_map(|change| Noted::of(change, now));
    incidents::insert(tx, &incidents.collect::<Vec<_>>()).await?;
    let mut sources = Sources::default();
    for change in &written {
        counted::of_change(change, by, now, &mut sources, |event| tx.count(event));
    }
    for change in written.iter().filter(|change| change.after.state == State::Queued) {
        tx.wake_for(change.after.workload());
    }
    let is_cancel = |change: &&Change| change.after.ended_by == Some(EndedBy::Cancelled);
    for change in written.iter().copied().filter(is_cancel).filter(|change| change.expect_state == State::Running) {
        tx.tell_of_cancel();
        // It made room below a limit.
        tx.wake_for(change.after.workload());
    }
    Ok(took)
}
