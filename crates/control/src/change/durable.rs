//! Operations in steps, which any server or daemon can go on with: a step changes a chunk by the path of every other change, and then its outcome is
//! written down. A process that takes an operation over finds in the audit trail what was changed and not written down yet, so that no item is
//! changed or counted twice.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_core::id::OpId;
use redrive_core::refusal::Reason;
use redrive_store::{BulkOperation, BulkState, ItemOutcome, Operation, Progress, SettledItem, Subject};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::by_plan::ByPlan;
use super::kept::{KeptRequest, Task, by_reason};
use super::operate::Watch;
use super::select::{Chunk, Selection};
use super::undo::{ByOperation, UNDO};
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::plane::ControlPlane;
use crate::shape::{Halt, Report, SubjectShape};

/// How many items a step changes.
const STEP: u32 = 2000;

/// How long an operation is held for a step. A step takes far less; when its time is over, another process goes on.
pub(super) const HELD_FOR: Duration = Duration::from_secs(30);

/// What came of taking up an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarriedOn {
    /// There is nothing to go on with, or another process is at it.
    Nothing,
    /// It has ended.
    Ended(OpId),
    /// The caller was told to stop, or another process has taken it over.
    Left(OpId),
}

/// An operation that this process holds.
struct Held {
    bulk: BulkOperation,
    holder: Uuid,
    task: Task,
    audit: Audit,
    operation: Operation,
    by_reason: Map<String, Value>,
    /// What the operation has changed without writing it down: the process that did it is gone.
    unnoted: HashSet<String>,
    /// What the steps of this process did.
    report: Report,
}

/// One step's items in their order, with their numbers; the selection that changes them; and how far the operation is then.
struct Step<S> {
    items: Vec<(i64, String)>,
    selection: S,
    done_to: i64,
}

/// One chunk, and then nothing.
struct Once(Option<Chunk>);

impl Selection for Once {
    async fn next(&mut self) -> Result<Chunk> {
        Ok(self.0.take().unwrap_or_default())
    }
}

impl ControlPlane {
    /// Takes up an operation that no process is at, the one named or any, and goes on with it to its end. `stop` ends it between two
    /// steps, for another process to go on at once.
    pub async fn carry_on(&self, which: Option<OpId>, stop: &AtomicBool) -> Result<CarriedOn> {
        let Some((bulk, holder)) = self.store.take_bulk(which, HELD_FOR).await? else { return Ok(CarriedOn::Nothing) };
        let op_id = bulk.op_id;
        match self.take_up(bulk, holder).await {
            Ok(mut held) => self.to_the_end(&mut held, stop).await,
            Err(error @ Error::Plan(_)) => {
                self.store.end_bulk(op_id, holder, BulkState::Failed, Some(error.to_string())).await?;
                Ok(CarriedOn::Ended(op_id))
            }
            Err(error) => Err(error),
        }
    }

    /// Goes on with an operation that this process has begun and holds; gives with it what its steps did.
    pub(super) async fn carry_through(
        &self,
        bulk: BulkOperation,
        holder: Uuid,
        stop: &AtomicBool,
    ) -> Result<(CarriedOn, Report)> {
        let mut held = self.take_up(bulk, holder).await?;
        let carried_on = self.to_the_end(&mut held, stop).await?;
        Ok((carried_on, held.report))
    }

    async fn to_the_end(&self, held: &mut Held, stop: &AtomicBool) -> Result<CarriedOn> {
        let (op_id, holder) = (held.bulk.op_id, held.holder);
        loop {
            if stop.load(Ordering::SeqCst) {
                self.store.let_go_bulk(op_id, holder).await?;
                return Ok(CarriedOn::Left(op_id));
            }
            if held.bulk.cancel_asked {
                self.store.end_bulk(op_id, holder, BulkState::Cancelled, None).await?;
                return Ok(CarriedOn::Ended(op_id));
            }
            match self.step(held).await? {
                Stepped::More => {}
                Stepped::TakenOver => return Ok(CarriedOn::Left(op_id)),
                Stepped::AtEnd => {
                    self.store.end_bulk(op_id, holder, BulkState::Done, None).await?;
                    return Ok(CarriedOn::Ended(op_id));
                }
            }
        }
    }

    /// Goes on with everything that no process is at; gives how many operations have ended.
    pub async fn carry_on_all(&self, stop: &AtomicBool) -> Result<u64> {
        let mut ended = 0;
        while !stop.load(Ordering::SeqCst) {
            match self.carry_on(None, stop).await? {
                CarriedOn::Nothing => break,
                CarriedOn::Ended(op_id) => {
                    ended += 1;
                    tracing::info!(%op_id, "operation ended");
                }
                CarriedOn::Left(_) => {}
            }
        }
        Ok(ended)
    }

    async fn take_up(&self, bulk: BulkOperation, holder: Uuid) -> Result<Held> {
        let task = Task::parse(&bulk.task)?;
        let unreadable = |error| Error::Plan(format!("the operation's request cannot be read: {error}"));
        let request: KeptRequest = serde_json::from_str(&bulk.operation).map_err(unreadable)?;
        let audit = request.audit();
        let operation = Operation {
            op_id: bulk.op_id,
            at: bulk.started_at,
            actor: audit.actor.clone(),
            command: audit.command.clone(),
            filters: request.filters,
            flags: task.flags(&audit)?.to_string(),
            reason: audit.reason.clone(),
        };
        let by_reason = serde_json::from_str(&bulk.by_reason).unwrap_or_default();
        let unnoted = self.unnoted(&bulk).await?;
        let report = Report::new(task.name()?, false);
        Ok(Held { bulk, holder, task, audit, operation, by_reason, unnoted, report })
    }

    /// What an operation has changed beyond what is written down: a part of one step.
    async fn unnoted(&self, bulk: &BulkOperation) -> Result<HashSet<String>> {
        let (mut seen, mut after, mut unnoted) = (0, 0, HashSet::new());
        loop {
            let page = self.insight.view().changes(bulk.op_id, after, STEP).await?;
            let Some((last, _)) = page.last() else { return Ok(unnoted) };
            after = *last;
            for (_, change) in page {
                seen += 1;
                if seen > bulk.changed {
                    unnoted.insert(text_of(subject_of(change.subject)));
                }
            }
        }
    }

    async fn step(&self, held: &mut Held) -> Result<Stepped> {
        let done = match &held.task {
            Task::Plan(head) => {
                let rows = self.insight.view().bulk_items(held.bulk.list_id, held.bulk.done_to, None, STEP).await?;
                let done_to = rows.last().map_or(held.bulk.done_to, |last| last.seq);
                let items = rows.iter().map(|row| (row.seq, row.subject.clone())).collect();
                let selection = ByPlan::new(&self.insight, head.with_items(&rows)?)?;
                self.act(held, Step { items, selection, done_to }).await?
            }
            Task::Undo { op_id } => {
                let stretch = self.insight.view().changes(*op_id, held.bulk.done_to, STEP).await?;
                let done_to = stretch.last().map_or(held.bulk.done_to, |(seq, _)| *seq);
                let item = |(seq, change): &(i64, redrive_store::AuditedChange)| {
                    (*seq, text_of(subject_of(change.subject.clone())))
                };
                let items: Vec<_> = stretch.iter().map(item).collect();
                if !items.is_empty() && self.insight.is_of_holds(*op_id).await? {
                    // An operation that changed holds changed few, and nothing else.
                    let report = Report::new(UNDO, false);
                    let report = self.undo_holds(*op_id, held.operation.clone(), report).await?;
                    let progress = held.progress(&report, items, done_to);
                    held.report.absorb(report);
                    return self.note(held, progress).await;
                }
                let chunk = ByOperation::new(&self.insight, *op_id).chunk_of(stretch).await?;
                self.act(held, Step { items, selection: Once(Some(chunk)), done_to }).await?
            }
        };
        match done {
            Some(progress) => self.note(held, progress).await,
            None => Ok(Stepped::AtEnd),
        }
    }

    /// Writes down what a step did.
    async fn note(&self, held: &mut Held, progress: Progress) -> Result<Stepped> {
        let (changed, done_to) = (progress.changed, progress.done_to);
        match self.store.note_progress(progress, HELD_FOR).await? {
            None => Ok(Stepped::TakenOver),
            Some(cancel_asked) => {
                held.bulk.cancel_asked = cancel_asked;
                held.bulk.done_to = done_to;
                held.bulk.changed += changed;
                Ok(Stepped::More)
            }
        }
    }

    /// Changes the items of a step; gives nothing where there are none.
    async fn act(&self, held: &mut Held, step: Step<impl Selection>) -> Result<Option<Progress>> {
        let Step { items, selection, done_to } = step;
        if items.is_empty() {
            return Ok(None);
        }
        let never = AtomicBool::new(false);
        let watch = Watch { cancelled: &never, progress: &|_| {}, stop_after: None };
        let report = Report::new(held.task.name()?, false);
        let report = self.work_through(selection, &held.audit, held.operation.clone(), report, watch).await?;
        if let Some(Halt::Fault(error)) = report.halt {
            // What the step did by now is in the audit trail; the process that takes the operation up finds it there.
            return Err(error);
        }
        let progress = held.progress(&report, items, done_to);
        held.report.absorb(report);
        Ok(Some(progress))
    }
}

/// What became of a step.
enum Stepped {
    More,
    AtEnd,
    TakenOver,
}

impl Held {
    fn progress(&self, report: &Report, items: Vec<(i64, String)>, done_to: i64) -> Progress {
        let mut outcomes = outcomes(report);
        let mut settled = Vec::with_capacity(items.len());
        let (mut changed, mut skipped, mut failed) = (0, 0, 0);
        let mut reasons = self.by_reason.clone();
        for (reason, count) in by_reason(report) {
            add(&mut reasons, &reason, count.as_u64().unwrap_or(0));
        }
        for (seq, subject) in items {
            let mut item = outcomes.remove(&subject).unwrap_or_else(|| unknown(&subject));
            if item.outcome == ItemOutcome::Skipped && self.unnoted.contains(&subject) {
                // This operation itself has changed it, before it was taken over.
                take(&mut reasons, item.reason.as_deref());
                item = SettledItem { outcome: ItemOutcome::Changed, reason: None, ..item };
            }
            match item.outcome {
                ItemOutcome::Changed => changed += 1,
                ItemOutcome::Skipped => skipped += 1,
                ItemOutcome::Failed => failed += 1,
            }
            settled.push(SettledItem { seq, ..item });
        }
        Progress {
            op_id: self.bulk.op_id,
            holder: self.holder,
            items: settled,
            done_to,
            from: self.bulk.done_to,
            changed,
            skipped,
            failed,
            by_reason: Value::Object(reasons).to_string(),
        }
    }
}

fn add(reasons: &mut Map<String, Value>, reason: &str, count: u64) {
    let sum = reasons.get(reason).and_then(Value::as_u64).unwrap_or(0) + count;
    reasons.insert(reason.to_owned(), sum.into());
}

fn take(reasons: &mut Map<String, Value>, reason: Option<&str>) {
    let Some(reason) = reason else { return };
    match reasons.get(reason).and_then(Value::as_u64).unwrap_or(0) {
        0 | 1 => drop(reasons.remove(reason)),
        more => drop(reasons.insert(reason.to_owned(), (more - 1).into())),
    }
}

/// What a report says of each of its subjects.
fn outcomes(report: &Report) -> BTreeMap<String, SettledItem> {
    let item = |subject: &SubjectShape, outcome, reason: Option<String>| SettledItem {
        seq: 0,
        subject: text_of(subject.clone()),
        outcome,
        reason,
        was: None,
        becomes: None,
    };
    let changed = report.changed().map(|changed| SettledItem {
        was: changed.words.from.map(str::to_owned),
        becomes: Some(changed.words.to.to_owned()),
        ..item(&changed.subject, ItemOutcome::Changed, None)
    });
    let skipped = report
        .skipped()
        .map(|skipped| item(&skipped.subject, ItemOutcome::Skipped, Some(skipped.reason.as_str().to_owned())));
    let failed =
        report.failed.iter().map(|failed| item(&failed.subject, ItemOutcome::Failed, Some(failed.error.clone())));
    changed.chain(skipped).chain(failed).map(|item| (item.subject.clone(), item)).collect()
}

/// An item that the store no longer has.
fn unknown(subject: &str) -> SettledItem {
    SettledItem {
        seq: 0,
        subject: subject.to_owned(),
        outcome: ItemOutcome::Skipped,
        reason: Some(Reason::ChangedSincePlan.as_str().to_owned()),
        was: None,
        becomes: None,
    }
}

fn text_of(subject: SubjectShape) -> String {
    json!(subject).to_string()
}

fn subject_of(subject: Subject) -> SubjectShape {
    match subject {
        Subject::Partition(key) => SubjectShape::Partition(key),
        Subject::Run(run_id) => SubjectShape::Run { run_id },
        Subject::Hold(hold_id) => SubjectShape::Hold { hold_id },
    }
}

/// Reads a subject as [`text_of`] writes it.
pub(super) fn parse(text: &str) -> Result<SubjectShape> {
    let unreadable = |error| Error::Plan(format!("an item of the plan cannot be read: {error}"));
    let value: Value = serde_json::from_str(text).map_err(unreadable)?;
    Ok(match value.get("run_id") {
        Some(id) => SubjectShape::Run { run_id: serde_json::from_value(id.clone()).map_err(unreadable)? },
        None => SubjectShape::Partition(serde_json::from_value(value).map_err(unreadable)?),
    })
}
