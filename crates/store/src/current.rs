//! What consumers can read: successes in key order, a page at a time, each with the manifest of its current run.

use futures_util::StreamExt as _;
use redrive_core::filter::Filter;
use redrive_core::id::RunId;
use redrive_core::partition::{PartitionState, Status};

use crate::handles::View;
use crate::partitions::Page;
use crate::raw::{self, Manifest, RawView, RunOutcome};

const PAGE: u32 = 1000;
/// How many manifests are fetched at once: on S3 each is a journey.
const AT_ONCE: usize = 8;

/// Reads the current runs of successes, and nothing else.
#[derive(Debug, Clone)]
pub struct CurrentRuns {
    pub view: View,
    pub raw: RawView,
}

/// A run that may be read.
#[derive(Debug)]
pub struct CurrentRun {
    pub state: PartitionState,
    pub run_id: RunId,
    pub manifest: Manifest,
}

/// Why a current run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NotReadable {
    #[error(transparent)]
    Store(#[from] crate::Error),
    #[error(transparent)]
    Raw(#[from] raw::Error),
    /// It is not as it was written.
    #[error("{0}")]
    Damaged(String),
}

impl CurrentRuns {
    /// Walks over the successes that a filter means.
    pub fn pages(&self, filter: &Filter) -> CurrentPages {
        let filter = Filter { status: Some(Status::Success), ..filter.clone() };
        CurrentPages { runs: self.clone(), page: Page { filter, limit: PAGE, ..Page::default() } }
    }

    pub async fn current(&self, state: PartitionState) -> Result<CurrentRun, NotReadable> {
        let run_id = state.current_run_id.ok_or_else(|| damaged(&state, "it has no current run"))?;
        let manifest = self.raw.finished(&state.key, run_id).await?;
        if let Some((_, why)) = manifest_contradiction(&manifest, state.record_count) {
            return Err(damaged(&state, &format!("the manifest of run {run_id} {why}")));
        }
        Ok(CurrentRun { state, run_id, manifest })
    }
}

/// How a manifest contradicts its partition's success: one word, and the rest of a sentence that begins with the manifest.
pub fn manifest_contradiction(manifest: &Manifest, records: Option<u64>) -> Option<(&'static str, String)> {
    match &manifest.outcome {
        RunOutcome::Complete => {}
        RunOutcome::Failed { error_class, .. } => {
            return Some(("failed_manifest", format!("is of a failed attempt ({error_class})")));
        }
    }
    let records = records.filter(|records| *records != manifest.records)?;
    Some(("record_count", format!("has {} records, and the partition's record_count is {records}", manifest.records)))
}

fn damaged(state: &PartitionState, why: &str) -> NotReadable {
    NotReadable::Damaged(format!("{} cannot be read: {why}", state.key))
}

/// A walk over what can be read.
#[derive(Debug)]
pub struct CurrentPages {
    runs: CurrentRuns,
    page: Page,
}

impl CurrentPages {
    /// The next page of successes; empty at the end.
    pub async fn next(&mut self) -> Result<Vec<PartitionState>, NotReadable> {
        let page = self.runs.view.partitions(self.page.clone()).await?;
        if let Some(last) = page.last() {
            self.page.after = Some(last.state.key.clone());
        }
        Ok(page.into_iter().map(|partition| partition.state).collect())
    }

    /// The same with their manifests, in the same order.
    pub async fn next_runs(&mut self) -> Result<Vec<Result<CurrentRun, NotReadable>>, NotReadable> {
        let states = self.next().await?;
        let found = states.into_iter().map(|state| self.runs.current(state));
        Ok(futures_util::stream::iter(found).buffered(AT_ONCE).collect().await)
    }
}
