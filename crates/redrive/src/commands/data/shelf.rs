//! What can be read: successes in key order, a page at a time, each with the manifest of its current run.

use futures_util::StreamExt as _;
use redrive_control::dates;
use redrive_core::filter::Filter;
use redrive_core::id::RunId;
use redrive_core::key::Source;
use redrive_core::partition::{PartitionState, Status};
use redrive_core::retry::RetryPolicy;
use redrive_store::raw::{Manifest, RawView};
use redrive_store::{Page, View};

use super::promise;
use crate::cli::FilterArgs;
use crate::commands::state::filter;
use crate::commands::{Context, look};
use crate::config::Config;
use crate::error::{Error, Result};

const PAGE: u32 = 1000;
/// How many manifests are fetched at once: on S3 each is a journey.
const AT_ONCE: usize = 8;

pub struct Shelf {
    pub view: View,
    pub raw: RawView,
    config: Config,
}

/// A run that may be read.
pub struct Item {
    pub state: PartitionState,
    pub run_id: RunId,
    pub manifest: Manifest,
}

impl Shelf {
    pub async fn open(context: &Context) -> Result<Self> {
        let config = context.config()?;
        let view = look(&config).await?;
        let raw = RawView::open(&config.raw, &config.raw_options.s3).await?;
        Ok(Self { view, raw, config })
    }

    pub fn filter(&self, args: &FilterArgs, quiet: bool) -> Result<Filter> {
        let now = self.view.now();
        let bounds = dates::bounds(self.config.settings.safety.earliest_date, now);
        let filter = filter::resolve_at(args, now, bounds, quiet)?;
        let other = match filter.status {
            Some(Status::Pending | Status::Failed) => Some("--status"),
            Some(Status::Success) | None => filter.error_class.map(|_| "--error-class"),
        };
        match other {
            Some(flag) => Err(Error::Usage(format!(
                "{flag} asks for what is no success, and only successes have data; see `redrive state inspect`"
            ))),
            None => Ok(filter),
        }
    }

    pub fn policy(&self, source: &Source) -> &RetryPolicy {
        &self.config.sources.of(source).retry
    }

    /// Walks over what a filter means.
    pub fn matches(&self, filter: &Filter) -> Matches<'_> {
        let filter = Filter { status: Some(Status::Success), ..filter.clone() };
        Matches { shelf: self, page: Page { filter, limit: PAGE, ..Page::default() } }
    }

    pub async fn item(&self, state: PartitionState) -> Result<Item> {
        let run_id = state.current_run_id.ok_or_else(|| damaged(&state, "it has no current run"))?;
        let manifest = self.raw.finished(&state.key, run_id).await?;
        if let Some((_, why)) = promise::broken(&manifest, state.record_count) {
            return Err(damaged(&state, &format!("the manifest of run {run_id} {why}")));
        }
        Ok(Item { state, run_id, manifest })
    }
}

fn damaged(state: &PartitionState, why: &str) -> Error {
    Error::Unreadable(format!("{} cannot be read: {why}; run `redrive doctor`", state.key))
}

pub struct Matches<'a> {
    shelf: &'a Shelf,
    page: Page,
}

impl<'a> Matches<'a> {
    /// The next page of successes; empty at the end.
    pub async fn next(&mut self) -> Result<Vec<PartitionState>> {
        let page = self.shelf.view.partitions(self.page.clone()).await?;
        if let Some(last) = page.last() {
            self.page.after = Some(last.state.key.clone());
        }
        Ok(page.into_iter().map(|partition| partition.state).collect())
    }

    /// The same with their manifests, in the same order.
    pub async fn next_items(&mut self) -> Result<Vec<Result<Item>>> {
        let shelf = self.shelf;
        let found = self.next().await?.into_iter().map(|state| shelf.item(state));
        Ok(futures_util::stream::iter(found).buffered(AT_ONCE).collect().await)
    }
}
