//! Changing runs for people: what `core::run::apply` decides, written in bulk under the guard of each run's version, each for
//! itself.

use redrive_core::id::RunId;
use redrive_core::refusal::Refused;
use redrive_core::run::{self, Change, ControlEvent, Run};

use super::record::write;
use super::row::get_many;
use crate::audit::{self, NewChange, Operation, PlacedSubject, WrittenChange};
use crate::db::Tx;
use crate::error::Result;
use crate::handles::{ControlStore, transact};

/// What became of one run of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every outcome is the large one")]
pub enum RunChangeOutcome {
    Changed {
        before: Run,
        after: Run,
    },
    Refused(Refused),
    /// A worker or another caller changed it first; this is how it is now.
    Overtaken(Box<Run>),
}

/// Decided changes of runs that are not yet written.
#[derive(Debug, Default)]
pub struct DecidedRuns(Vec<Result<DecidedRun, Refused>>);

#[derive(Debug, Clone)]
struct DecidedRun {
    before: Run,
    change: Change,
}

impl ControlStore {
    /// Decides about runs as they were read. Nothing is written, so that it can be done while others are.
    pub fn decide_runs(&self, items: Vec<(Run, ControlEvent)>) -> DecidedRuns {
        let now = self.inner.now();
        let decide = |(before, event): (Run, ControlEvent)| {
            let change = run::apply(&before, event.into(), now)?;
            Ok(DecidedRun { before, change })
        };
        DecidedRuns(items.into_iter().map(decide).collect())
    }

    /// Writes what was decided, where it still holds, in one transaction.
    pub async fn write_runs(
        &self,
        operation: &Operation,
        DecidedRuns(decided): DecidedRuns,
    ) -> Result<Vec<RunChangeOutcome>> {
        let changes = decided.iter().flatten().map(|decided| {
            let written = WrittenChange::of_run(&decided.before, &decided.change.after)?;
            Ok((decided.change.clone(), written))
        });
        let (changes, written): (Vec<Change>, Vec<WrittenChange>) =
            changes.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let operation = operation.clone();
        let written = transact!(self.inner, "change runs", |tx, operation, changes, written| {
            write_decided(tx, &operation, &changes, &written).await
        })?;
        let mut written = written.into_iter();
        Ok(decided.into_iter().map(|decided| outcome(decided, &mut written)).collect())
    }
}

/// How the write of a decided change ended.
enum Written {
    Changed,
    /// Another caller was first; the run as it is now, if it is still there.
    Overtaken(Option<Box<Run>>),
}

fn outcome(decided: Result<DecidedRun, Refused>, written: &mut impl Iterator<Item = Written>) -> RunChangeOutcome {
    let DecidedRun { before, change } = match decided {
        Ok(decided) => decided,
        Err(refused) => return RunChangeOutcome::Refused(refused),
    };
    match written.next() {
        Some(Written::Changed) => RunChangeOutcome::Changed { before, after: change.after },
        Some(Written::Overtaken(Some(now))) => RunChangeOutcome::Overtaken(now),
        Some(Written::Overtaken(None)) | None => RunChangeOutcome::Overtaken(Box::new(before)),
    }
}

async fn write_decided(
    tx: &mut Tx<'_>,
    operation: &Operation,
    changes: &[Change],
    written: &[WrittenChange],
) -> Result<Vec<Written>> {
    let took = write(tx, changes).await?;
    let made: Vec<NewChange<'_>> = changes
        .iter()
        .zip(written)
        .zip(&took)
        .filter(|(_, took)| **took)
        .map(|((change, written), _)| NewChange { subject: PlacedSubject::Run(change.after.run_id), written })
        .collect();
    audit::record(tx, operation, &made).await?;
    let overtaken: Vec<RunId> =
        changes.iter().zip(&took).filter(|(_, took)| !**took).map(|(change, _)| change.after.run_id).collect();
    let mut now = get_many(tx, &overtaken).await?.into_iter().peekable();
    let written = changes.iter().zip(took).map(|(change, took)| match took {
        true => Written::Changed,
        false => Written::Overtaken(now.next_if(|run| run.run_id == change.after.run_id).map(Box::new)),
    });
    Ok(written.collect())
}
