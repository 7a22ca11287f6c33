//! What is asked of which runs, and where they come from.

use redrive_core::id::RunId;
use redrive_core::run::{Run, State, Workload};
use redrive_store::RunPage;
use serde::Serialize;

use super::operate::Watch;
use super::plan::{Plan, PlannedRun};
use super::select::{Basis, CHUNK, Candidate, Chunk, RunAsk, Selection};
use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::insight::Insight;
use crate::plane::ControlPlane;
use crate::runs::RunFilter;
use crate::shape::Report;

/// What is to be done to runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunVerb {
    /// Start a fresh count of what is dead, or waits after a failure.
    Retry,
    Cancel,
}

impl RunVerb {
    pub(super) const ALL: [Self; 2] = [Self::Retry, Self::Cancel];

    pub fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
        }
    }

    /// The states of the runs that a filter without a state means.
    fn states(self) -> Vec<State> {
        match self {
            Self::Retry => vec![State::Dead, State::Waiting],
            Self::Cancel => vec![State::Storing, State::Queued, State::Running, State::Waiting],
        }
    }
}

/// Which runs a request means.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum RunSelection {
    /// These, each of which is answered.
    Ids {
        runs: Vec<RunId>,
    },
    Filter(RunFilter),
}

#[derive(Debug, Clone)]
pub struct RunRequest {
    pub verb: RunVerb,
    pub runs: RunSelection,
    pub audit: Audit,
}

impl RunRequest {
    pub(super) fn selection<'a>(&self, insight: &'a Insight) -> Result<ByRuns<'a>> {
        let left = match &self.runs {
            RunSelection::Ids { runs } => Left::Ids(runs.clone().into_iter()),
            RunSelection::Filter(filter) => Left::Pages(self.pages(filter)?),
        };
        Ok(ByRuns { insight, verb: self.verb, left })
    }

    /// The pages to begin with, one for each kind of run that a person may change.
    fn pages(&self, filter: &RunFilter) -> Result<Vec<RunPage>> {
        if filter.is_empty() {
            return Err(Error::NeedsRuns);
        }
        let workloads = match filter.workload {
            // A partition is retried through its state.
            Some(Workload::Extract) => return Err(Error::NotThroughRuns),
            Some(workload) => vec![workload],
            None => vec![Workload::Process, Workload::Ingest],
        };
        let page = |workload| {
            let mut page = filter.page(CHUNK);
            page.workload = Some(workload);
            if page.states.is_empty() {
                page.states = self.verb.states();
            }
            page
        };
        Ok(workloads.into_iter().map(page).collect())
    }
}

/// The runs of a request, as they are now.
pub(super) struct ByRuns<'a> {
    insight: &'a Insight,
    verb: RunVerb,
    left: Left,
}

enum Left {
    Ids(std::vec::IntoIter<RunId>),
    /// The last one is at work.
    Pages(Vec<RunPage>),
}

impl Selection for ByRuns<'_> {
    async fn next(&mut self) -> Result<Chunk> {
        let view = self.insight.view();
        let found = match &mut self.left {
            Left::Ids(left) => {
                let ids: Vec<RunId> = left.by_ref().take(usize::try_from(CHUNK).unwrap_or(1)).collect();
                view.runs_of(ids).await?
            }
            Left::Pages(pages) => loop {
                let Some(page) = pages.last_mut() else { break vec![] };
                let found = view.runs(page.clone()).await?;
                match found.last() {
                    Some(last) => {
                        page.before = Some(last.run_id);
                        break found;
                    }
                    None => drop(pages.pop()),
                }
            },
        };
        let candidate = |run| Candidate::run(run, RunAsk::Verb(self.verb), Basis::Read);
        Ok(Chunk { candidates: found.into_iter().map(candidate).collect(), skipped: vec![] })
    }
}

impl ControlPlane {
    /// Does what was asked for without counting it first.
    pub async fn operate_runs(&self, request: &RunRequest, watch: Watch<'_>) -> Result<Report> {
        let RunRequest { verb, runs, audit } = request;
        let selection = request.selection(&self.insight)?;
        let operation = self.operation(audit, runs, &audit.flags());
        self.work_through(selection, audit, operation, Report::new(verb.name(), false), watch).await
    }

    /// Changes one run as it was read; one that was changed meanwhile is left alone and reported.
    pub async fn operate_run(&self, run: &Run, verb: RunVerb, audit: &Audit, watch: Watch<'_>) -> Result<Report> {
        let runs = RunSelection::Ids { runs: vec![run.run_id] };
        let planned = PlannedRun { run_id: run.run_id, version: run.version };
        let plan = Plan::of_run(verb, audit, planned);
        self.act_on(plan, &runs, audit, Report::new(verb.name(), false), watch).await
    }
}
