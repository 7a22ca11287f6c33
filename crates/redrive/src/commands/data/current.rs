//! What consumers can read: successes in key order, a page at a time, each with the manifest of its current run; and why there is
//! nothing to read.

use futures_util::StreamExt as _;
use redrive_control::Insight;
use redrive_core::filter::Filter;
use redrive_core::id::RunId;
use redrive_core::partition::{Partition, PartitionState, Status};
use redrive_core::text::one_line;
use redrive_store::Page;
use redrive_store::raw::{Manifest, RawView, RunOutcome};

use crate::cli::FilterArgs;
use crate::commands::Context;
use crate::commands::sink::look_into_sink;
use crate::commands::state::filter;
use crate::error::{Error, Result};

const PAGE: u32 = 1000;
/// How many manifests are fetched at once: on S3 each is a journey.
const AT_ONCE: usize = 8;

pub struct CurrentRuns {
    insight: Insight,
    pub raw: RawView,
}

/// A run that may be read.
pub struct CurrentRun {
    pub state: PartitionState,
    pub run_id: RunId,
    pub manifest: Manifest,
}

impl CurrentRuns {
    pub async fn open(context: &Context) -> Result<Self> {
        let config = context.config()?;
        let insight = context.insight(&config).await?;
        let raw = look_into_sink(&config, insight.view()).await?;
        Ok(Self { insight, raw })
    }

    pub async fn filter(&self, args: &FilterArgs, quiet: bool) -> Result<Filter> {
        let filter = filter::resolve(args, &self.insight, quiet).await?;
        let other = match filter.status {
            Some(Status::Pending | Status::Failed) => Some("--status"),
            Some(Status::Success) | None => match (filter.error_class, filter.group) {
                (Some(_), _) => Some("--error-class"),
                (None, Some(_)) => Some("--group"),
                (None, None) => None,
            },
        };
        match other {
            Some(flag) => Err(Error::Usage(format!(
                "{flag} asks for what is no success, and only successes have data; see `redrive state inspect`"
            ))),
            None => Ok(filter),
        }
    }

    /// Walks over the successes that a filter means.
    pub fn pages(&self, filter: &Filter) -> Pages<'_> {
        let filter = Filter { status: Some(Status::Success), ..filter.clone() };
        Pages { runs: self, page: Page { filter, limit: PAGE, ..Page::default() } }
    }

    pub async fn current(&self, state: PartitionState) -> Result<CurrentRun> {
        let run_id = state.current_run_id.ok_or_else(|| damaged(&state, "it has no current run"))?;
        let manifest = self.raw.finished(&state.key, run_id).await?;
        if let Some((_, why)) = manifest_contradiction(&manifest, state.record_count) {
            return Err(damaged(&state, &format!("the manifest of run {run_id} {why}")));
        }
        Ok(CurrentRun { state, run_id, manifest })
    }

    /// Says why there is nothing to read, and what to do about it.
    pub async fn explain_absence(&self, filter: &Filter) -> Error {
        let Some(key) = filter.as_key() else {
            return Error::NothingFound("nothing found: no partition of this filter is a success".to_owned());
        };
        match self.insight.view().partition(&key).await {
            Ok(Some(partition)) => Error::NothingFound(format!("{key} has no data: {}", self.why(&partition))),
            Ok(None) => {
                let todo = "`redrive state backfill enqueue` wants it";
                Error::NothingFound(format!("{key} has no data: no entry found; {todo}"))
            }
            Err(error) => error.into(),
        }
    }

    fn why(&self, partition: &Partition) -> String {
        let Partition { state, control } = partition;
        let message = one_line(state.error_message.as_deref().unwrap_or("no message"));
        match state.status {
            Status::Pending if control.active.is_some() => "it is being extracted now; try again later".to_owned(),
            Status::Pending if state.current_run_id.is_some() => {
                "it was set to pending, and no new run has been accepted yet; `redrive state explain` says when"
                    .to_owned()
            }
            Status::Pending => {
                "it is pending, and no run has been accepted yet; `redrive state explain` says when".to_owned()
            }
            Status::Failed if self.insight.terminal(partition).is_some() => {
                format!("it failed for good ({message}); `redrive state retry --clear-terminal` tries it again")
            }
            Status::Failed => format!("it failed ({message}); `redrive state retry` tries it again"),
            // It became one between the two looks.
            Status::Success => "it has just become a success; try again".to_owned(),
        }
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

fn damaged(state: &PartitionState, why: &str) -> Error {
    Error::Unreadable(format!("{} cannot be read: {why}; run `redrive doctor`", state.key))
}

pub struct Pages<'a> {
    runs: &'a CurrentRuns,
    page: Page,
}

impl Pages<'_> {
    /// The next page of successes; empty at the end.
    pub async fn next(&mut self) -> Result<Vec<PartitionState>> {
        let page = self.runs.insight.view().partitions(self.page.clone()).await?;
        if let Some(last) = page.last() {
            self.page.after = Some(last.state.key.clone());
        }
        Ok(page.into_iter().map(|partition| partition.state).collect())
    }

    /// The same with their manifests, in the same order.
    pub async fn next_runs(&mut self) -> Result<Vec<Result<CurrentRun>>> {
        let runs = self.runs;
        let found = self.next().await?.into_iter().map(|state| runs.current(state));
        Ok(futures_util::stream::iter(found).buffered(AT_ONCE).collect().await)
    }
}
