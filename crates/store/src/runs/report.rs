//! What outside workers report of their runs. A report may come twice, because its answer was lost, and then gets the answer that it got
//! before; one that comes when the claim is over changes nothing and is kept as late.

use redrive_core::id::{RunId, TaskId};
use redrive_core::run::{self, Change, End, Event, Incident, ReportKind, Run};
use redrive_core::time::Timestamp;

use super::incidents::{self, Noted};
use super::record::write;
use super::row::get;
use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::handles::{ControlStore, DataStore, transact};

/// What an outside worker reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideReport {
    pub run_id: RunId,
    pub task_id: TaskId,
    pub kind: ReportKind,
    /// What it said, as JSON, for the history of a run for which it came too late.
    pub said: String,
}

/// What became of a report, for the answer to its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The answer, and the worker that held the run; and what the report has changed, unless it was recorded before.
    Answer { answer: String, worker: Option<String>, change: Option<Box<Change>> },
    /// The claim was over; the report is kept in the run's history.
    Late { worker: Option<String> },
    /// The caller may not speak of this run.
    NotAllowed,
    /// There is no such run.
    Absent,
}

/// What the caller makes of a run that a report is about.
struct Meaning<'a> {
    /// Whether the reporter may speak of it.
    is_allowed: &'a (dyn Fn(&Run) -> bool + Send + Sync),
    end: &'a (dyn Fn(&Run) -> End + Send + Sync),
    /// The answer, from what the report changes.
    answer: &'a (dyn Fn(&Change) -> String + Send + Sync),
}

impl DataStore {
    /// Records what an outside worker reports of a run. The caller says of the run whether the worker may speak of it, what the report
    /// means for it, and, of what is changed then, what the worker is answered.
    pub async fn report(
        &self,
        report: OutsideReport,
        is_allowed: impl Fn(&Run) -> bool + Send + Sync + 'static,
        end: impl Fn(&Run) -> End + Send + Sync + 'static,
        answer: impl Fn(&Change) -> String + Send + Sync + 'static,
    ) -> Result<ReportOutcome> {
        transact!(self.inner, "report of an outside worker", |tx, report, is_allowed, end, answer| {
            let meaning = Meaning { is_allowed: &*is_allowed, end: &*end, answer: &*answer };
            take_report(tx, &report, &meaning).await
        })
    }
}

impl ControlStore {
    /// Forgets what outside workers were answered before a moment; gives how many answers.
    pub async fn forget_answers(&self, before: Timestamp) -> Result<u64> {
        transact!(self.inner, "forget answers", |tx| tx.execute(&FORGET_ANSWERS, &[before.micros().into()]).await)
    }
}

async fn take_report(tx: &mut Tx<'_>, report: &OutsideReport, meaning: &Meaning<'_>) -> Result<ReportOutcome> {
    let now = tx.now();
    let Some(run) = get(tx, report.run_id).await? else { return Ok(ReportOutcome::Absent) };
    if !(meaning.is_allowed)(&run) {
        return Ok(ReportOutcome::NotAllowed);
    }
    let worker = run.worker.clone();
    if let Some((kind, answer)) = answered(tx, report).await? {
        let same = kind == report.kind;
        return Ok(if same {
            ReportOutcome::Answer { answer, worker, change: None }
        } else {
            ReportOutcome::Late { worker }
        });
    }
    let ended = Event::Ended { task_id: report.task_id, end: (meaning.end)(&run) };
    if let Ok(change) = run::apply(&run, ended, now)
        && write(tx, std::slice::from_ref(&change)).await? == [true]
    {
        let answer = (meaning.answer)(&change);
        keep_answer(tx, report, &answer, now).await?;
        // A run that has ended makes room under its section's limit.
        tx.wake_for(change.after.workload());
        return Ok(ReportOutcome::Answer { answer, worker, change: Some(Box::new(change)) });
    }
    // The same report may have been recorded between the look and the write.
    if let Some((_, answer)) = answered(tx, report).await?.filter(|(kind, _)| *kind == report.kind) {
        return Ok(ReportOutcome::Answer { answer, worker, change: None });
    }
    let late = Noted {
        run_id: report.run_id,
        task_id: report.task_id,
        at: now,
        incident: Incident::Late,
        worker: worker.as_deref(),
        detail: Some(&report.said),
    };
    incidents::insert(tx, &[late]).await?;
    Ok(ReportOutcome::Late { worker })
}

static ANSWERED: Sql = Sql::new(
    "/* reports::answered */
     SELECT report, answer
     FROM task_answers
     WHERE run_id = ?1
       AND task_id = ?2",
);
static KEEP_ANSWER: Sql = Sql::new(
    "/* reports::keep_answer */
     INSERT INTO task_answers (run_id, task_id, answered_at, report, answer)
     VALUES (?1, ?2, ?3, ?4, ?5)",
);
static FORGET_ANSWERS: Sql = Sql::new(
    "/* reports::forget_answers */
     DELETE FROM task_answers
     WHERE answered_at < CAST(?1 AS BIGINT)",
);

async fn answered(tx: &mut Tx<'_>, report: &OutsideReport) -> Result<Option<(ReportKind, String)>> {
    let params = [report.run_id.uuid().into(), report.task_id.uuid().into()];
    tx.row(&ANSWERED, &params, |row| Ok((row.word(0)?, row.text(1)?))).await
}

async fn keep_answer(tx: &mut Tx<'_>, report: &OutsideReport, answer: &str, now: Timestamp) -> Result<()> {
    let params = [
        report.run_id.uuid().into(),
        report.task_id.uuid().into(),
        now.micros().into(),
        report.kind.as_str().into(),
        answer.into(),
    ];
    tx.execute(&KEEP_ANSWER, &params).await.map(drop)
}
