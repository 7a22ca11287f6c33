//! Submitting runs.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::run::{State, Work};
use redrive_core::time::Timestamp;

use super::row::WorkColumns;
use crate::db::{Batch, Column, Effect, Kind, Lookup, Tx};
use crate::error::{Error, Result};
use crate::handles::ControlStore;

/// The longest external id, which has to fit into an index.
const MAX_EXTERNAL_ID: usize = 1024;

/// A job or an upload to be worked on. Submitting a job whose external id is already there gives the run it made then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    pub work: Work,
    /// JSON, kept verbatim.
    pub payload: Option<String>,
    pub submitted_at: Timestamp,
    /// Begins as [`State::Storing`]: no worker may claim it before [`redrive_core::run::Event::Stored`].
    pub awaits_input: bool,
}

impl NewRun {
    pub fn new(work: Work, payload: Option<String>, submitted_at: Timestamp) -> Self {
        Self { work, payload, submitted_at, awaits_input: false }
    }

    /// A job without an external id.
    pub fn job(category: impl Into<String>, payload: Option<String>, submitted_at: Timestamp) -> Self {
        Self::new(Work::Process { category: category.into(), external_id: None }, payload, submitted_at)
    }

    /// Refuses what is never submitted, and what one of the databases could not keep.
    fn check(&self) -> Result<()> {
        let (category, external_id, upload) = match &self.work {
            Work::Extract(_) => {
                return Err(Error::Input { what: "an extraction", why: "it begins when its partition is claimed" });
            }
            Work::Ingest { upload } => (None, None, Some(upload)),
            Work::Process { category, external_id } => (Some(category), external_id.as_ref(), None),
        };
        let payload = self.payload.as_ref();
        let texts = [
            ("category", category),
            ("external id", external_id),
            ("name of the upload", upload),
            ("payload", payload),
        ];
        for (what, text) in texts {
            if text.is_some_and(|text| text.contains('\0')) {
                return Err(Error::Input { what, why: "it holds a NUL character" });
            }
        }
        if external_id.is_some_and(|id| id.len() > MAX_EXTERNAL_ID) {
            return Err(Error::Input { what: "external id", why: "it is longer than 1,024 bytes" });
        }
        Ok(())
    }
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    pub run_id: RunId,
    /// It was there already, by its external id.
    pub existing: bool,
}

impl ControlStore {
    /// Submits runs in one transaction.
    pub async fn submit(&self, runs: Vec<NewRun>) -> Result<Vec<Submitted>> {
        runs.iter().try_for_each(NewRun::check)?;
        let now = self.inner.now();
        let runs: Vec<_> = runs.into_iter().map(|run| (self.inner.ids.run(now), run)).collect();
        let runs = Arc::new(runs);
        self.inner
            .db
            .write("submit runs", move |tx| {
                let runs = Arc::clone(&runs);
                Box::pin(async move { insert(tx, &runs).await })
            })
            .await
    }
}

pub(crate) static INSERT: Batch = Batch::new(
    "/* runs::insert */
     INSERT INTO runs (run_id, workload, category, subject, external_id, payload, state, submitted_at)
     {values @run_id, @workload, @category, @subject, @external_id, @payload, @state, @submitted_at}
     ON CONFLICT DO NOTHING",
    &[
        ("run_id", Kind::Id),
        ("workload", Kind::Text),
        ("category", Kind::Text),
        ("subject", Kind::Text),
        ("external_id", Kind::Text),
        ("payload", Kind::Text),
        ("state", Kind::Text),
        ("submitted_at", Kind::Int),
    ],
    Effect::Inserted(&["run_id"]),
);

static BY_EXTERNAL_ID: Lookup = Lookup::new(
    "/* runs::by_external_id */
     SELECT run_id
     FROM runs
     WHERE workload = @workload
       AND category = @category
       AND external_id = @external_id
       AND external_id IS NOT NULL",
    &[("workload", Kind::Text), ("category", Kind::Text), ("external_id", Kind::Text)],
);

async fn insert(tx: &mut Tx<'_>, runs: &[(RunId, NewRun)]) -> Result<Vec<Submitted>> {
    let rows: Vec<_> = runs.iter().map(|(id, run)| (id, run, WorkColumns::of(&run.work))).collect();
    let state = |run: &NewRun| if run.awaits_input { State::Storing } else { State::Queued };
    let columns = [
        Column::ids(&rows, |(id, ..)| Some(id.uuid())),
        Column::texts(&rows, |(.., work)| Some(work.workload)),
        Column::texts(&rows, |(.., work)| Some(work.category)),
        Column::texts(&rows, |(.., work)| work.subject),
        Column::texts(&rows, |(.., work)| work.external_id),
        Column::texts(&rows, |(_, run, _)| run.payload.as_deref()),
        Column::texts(&rows, |(_, run, _)| Some(state(run).as_str())),
        Column::ints(&rows, |(_, run, _)| Some(run.submitted_at.micros())),
    ];
    let new = tx.batch(&INSERT, &columns).await?;
    let mut submitted: Vec<_> =
        rows.iter().zip(&new).map(|((id, ..), new)| Submitted { run_id: **id, existing: !new }).collect();
    let existing: Vec<usize> = (0..rows.len()).filter(|&nth| !new[nth]).collect();
    let columns = [
        Column::texts(&existing, |&nth| Some(rows[nth].2.workload)),
        Column::texts(&existing, |&nth| Some(rows[nth].2.category)),
        Column::texts(&existing, |&nth| rows[nth].2.external_id),
    ];
    let found = tx.lookup(&BY_EXTERNAL_ID, &columns, |mut row| row.id()).await?;
    if found.len() != existing.len() {
        return Err(Error::Statement { name: "submit runs", why: "a run is neither new nor there".to_owned() });
    }
    for (nth, id) in found {
        submitted[existing[nth]].run_id = RunId::from_uuid(id);
    }
    tx.wake();
    Ok(submitted)
}
