//! Submitting runs.

use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::run::{Job, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, Run, State, Work};
use redrive_core::time::Timestamp;

use super::{group_commit, standing};
use crate::db::columns::{Field, Named, columns, named};
use crate::db::{Batch, Column, Cursor, Effect, Kind, Lookup, Tx};
use crate::error::{Error, Result};
use crate::handles::ControlStore;

/// A job or an upload to be worked on. Submitting a job whose external id is already there gives the run it made then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    pub work: Work,
    /// JSON, kept verbatim; at most 1 MiB.
    pub payload: Option<String>,
    pub submitted_at: Timestamp,
    /// Begins as [`State::Storing`]: no worker may claim it before [`redrive_core::run::Event::Stored`].
    pub awaits_input: bool,
    /// No worker may claim it before.
    pub not_before: Option<Timestamp>,
    /// How many attempts it has; the policy of its section says it for the others.
    pub max_attempts: Option<u32>,
}

impl NewRun {
    pub fn new(work: Work, payload: Option<String>, submitted_at: Timestamp) -> Self {
        Self { work, payload, submitted_at, awaits_input: false, not_before: None, max_attempts: None }
    }

    /// A job without an external id.
    pub fn job(category: impl Into<String>, payload: Option<String>, submitted_at: Timestamp) -> Self {
        Self::new(Work::Process { category: category.into(), external_id: None }, payload, submitted_at)
    }

    /// What a submitter described, which has been checked. It is submitted now where it does not say when.
    pub fn of_job(job: Job, now: Timestamp) -> Self {
        let work = Work::Process { category: job.category.unwrap_or_default(), external_id: job.external_id };
        let payload = job.payload.map(|payload| Box::<str>::from(payload).into_string());
        Self {
            not_before: job.not_before,
            max_attempts: job.max_attempts,
            ..Self::new(work, payload, job.submitted_at.unwrap_or(now))
        }
    }

    /// Refuses what is never submitted, and what one of the databases could not keep.
    pub fn check(&self) -> Result<()> {
        let (category, external_id, upload) = match &self.work {
            Work::Extract(_) => {
                return Err(Error::Input { what: "an extraction", why: "it begins when its partition is claimed" });
            }
            Work::Ingest { upload } => (None, None, Some(upload)),
            Work::Process { category, external_id } => (Some(category), external_id.as_ref(), None),
        };
        let texts = [
            ("category", category, MAX_NAME_BYTES, "it is longer than 1,024 bytes"),
            ("external id", external_id, MAX_NAME_BYTES, "it is longer than 1,024 bytes"),
            ("name of the upload", upload, usize::MAX, ""),
            ("payload", self.payload.as_ref(), MAX_PAYLOAD_BYTES, "it is larger than 1 MiB"),
        ];
        for (what, text, longest, too_long) in texts {
            if text.is_some_and(|text| text.contains('\0')) {
                return Err(Error::Input { what, why: "it holds a NUL character" });
            }
            if text.is_some_and(|text| text.len() > longest) {
                return Err(Error::Input { what, why: too_long });
            }
        }
        if self.submitted_at < Timestamp::from_micros(0) || self.submitted_at > RunId::LAST {
            return Err(Error::Input { what: "time of submission", why: "it is before 1970 or after the year 9999" });
        }
        if self.max_attempts == Some(0) {
            return Err(Error::Input { what: "max_attempts", why: "a run needs at least one attempt" });
        }
        Ok(())
    }

    /// The run that this makes.
    fn begun(&self, run_id: RunId, now: Timestamp) -> Run {
        let state = if self.awaits_input { State::Storing } else { Run::ready_state(self.not_before, now) };
        Run {
            not_before: self.not_before,
            max_attempts: self.max_attempts,
            ..Run::new(run_id, self.work.clone(), state, self.submitted_at)
        }
    }
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    pub run_id: RunId,
    /// It was there already, by its external id.
    pub existing: bool,
}

/// A run that is about to be inserted, with its input.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    run: Run,
    pub(super) payload: Option<String>,
}

impl ControlStore {
    /// Submits runs: all of them, or none.
    pub async fn submit(&self, runs: Vec<NewRun>) -> Result<Vec<Submitted>> {
        runs.iter().try_for_each(NewRun::check)?;
        let now = self.inner.now();
        let begun = |new: NewRun| {
            let run = new.begun(self.inner.ids.run(new.submitted_at), now);
            Begun { run, payload: new.payload }
        };
        group_commit::submit(&self.inner, runs.into_iter().map(begun).collect()).await
    }
}

const SPEC: [Field<Begun>; 9] = [
    Field::id("run_id", |new| new.run.run_id.uuid().into()),
    Field::int("submitted_at", |new| new.run.submitted_at.micros().into()),
    Field::int("not_before", |new| new.run.not_before.map(Timestamp::micros).into()),
    Field::int("max_attempts", |new| new.run.max_attempts.map(i64::from).into()),
    Field::text("workload", |new| new.run.workload().as_str().into()),
    Field::text("category", |new| new.run.work.category().into()),
    Field::text("subject", |new| subject(&new.run.work).into()),
    Field::text("external_id", |new| new.run.work.external_id().into()),
    Field::text("payload", |new| new.payload.as_deref().into()),
];
const SPEC_NAMES: [Named; 9] = named(&SPEC);

fn subject(work: &Work) -> Option<&str> {
    match work {
        Work::Ingest { upload } => Some(upload.as_str()),
        Work::Extract(_) | Work::Process { .. } => None,
    }
}

/// For runs that name no external id, of which every one is new.
pub(crate) static INSERT: Batch = Batch::new(
    "/* runs::insert */
     INSERT INTO run_specs ({columns})
     {values}",
    &SPEC_NAMES,
    Effect::All,
);

static INSERT_NAMED: Batch = Batch::new(
    "/* runs::insert_named */
     INSERT INTO run_specs ({columns})
     {values}
     ON CONFLICT DO NOTHING",
    &SPEC_NAMES,
    Effect::Inserted(&["run_id"]),
);

static BY_EXTERNAL_ID: Lookup = Lookup::new(
    "/* runs::by_external_id */
     SELECT run_id, coalesce(named_at, submitted_at)
     FROM run_specs
     WHERE workload = @workload
       AND category = @category
       AND external_id = @external_id
       AND external_id IS NOT NULL",
    &[("workload", Kind::Text), ("category", Kind::Text), ("external_id", Kind::Text)],
);

pub(super) async fn insert(tx: &mut Tx<'_>, runs: &[Begun], now: Timestamp) -> Result<Vec<Submitted>> {
    let all: Vec<&Begun> = runs.iter().collect();
    let statement = match all.iter().any(|new| new.run.work.external_id().is_some()) {
        true => &INSERT_NAMED,
        false => &INSERT,
    };
    let is_new = tx.batch(statement, &columns(&SPEC, &all)).await?;
    let new: Vec<&Run> = runs.iter().zip(&is_new).filter(|(_, is_new)| **is_new).map(|(new, _)| &new.run).collect();
    standing::put(tx, &new).await?;
    let mut submitted: Vec<_> =
        runs.iter().zip(&is_new).map(|(new, is_new)| Submitted { run_id: new.run.run_id, existing: !is_new }).collect();
    find_existing(tx, runs, &mut submitted, now).await?;
    runs.iter().for_each(|new| tx.wake_for(new.run.workload()));
    Ok(submitted)
}

/// Finds the runs that were there already by their external ids, and notes that they were named again. The pruning of another process
/// may forget one until that is noted: then all of it is done again, and the run is new.
async fn find_existing(tx: &mut Tx<'_>, runs: &[Begun], submitted: &mut [Submitted], now: Timestamp) -> Result<()> {
    let existing: Vec<usize> = (0..runs.len()).filter(|&nth| submitted[nth].existing).collect();
    let columns = [
        Column::texts(&existing, |&nth| Some(runs[nth].run.workload().as_str())),
        Column::texts(&existing, |&nth| Some(runs[nth].run.work.category())),
        Column::texts(&existing, |&nth| runs[nth].run.work.external_id()),
    ];
    let read = |mut row: Cursor<'_>| Ok((RunId::from_uuid(row.id()?), row.time()?));
    let found = tx.lookup(&BY_EXTERNAL_ID, &columns, read).await?;
    let noted_before = now.saturating_sub(NOTED_EVERY);
    let mut unnoted = Vec::new();
    for &(nth, (run_id, named_at)) in &found {
        submitted[existing[nth]].run_id = run_id;
        if named_at < noted_before {
            unnoted.push(run_id);
        }
    }
    if found.len() < existing.len() || !note_named(tx, unnoted, now).await? {
        return Err(tx.overtaken("a run with the same external id was forgotten at the same moment"));
    }
    Ok(())
}

static NAMED_AGAIN: Batch = Batch::new(
    "/* runs::named_again */
     UPDATE run_specs
     SET named_at = @now
     {from}
     WHERE run_specs.run_id = @run_id",
    &[("run_id", Kind::Id), ("now", Kind::Int)],
    Effect::Row,
);

/// How often it is noted that a run was submitted again: a `discover` names every job each minute.
pub(super) const NOTED_EVERY: Duration = Duration::from_secs(3600);

/// Notes which runs were submitted again; says whether all of them are still there. While their submitter names them they are not
/// forgotten: they would be made, and worked on, a second time.
async fn note_named(tx: &mut Tx<'_>, mut ids: Vec<RunId>, now: Timestamp) -> Result<bool> {
    // One order for all, so that no two transactions wait for each other.
    ids.sort_unstable();
    ids.dedup();
    let values = [Column::ids(&ids, |id| Some(id.uuid())), Column::ints(&ids, |_| Some(now.micros()))];
    Ok(tx.batch(&NAMED_AGAIN, &values).await?.iter().all(|is_there| *is_there))
}
