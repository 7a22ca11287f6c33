//! `runs list`: runs as they are now, the newest submission first.

use redrive_control::Insight;
use redrive_control::shape::RunShape;
use redrive_core::count;
use redrive_core::run::Run;
use redrive_store::RunPage;

use super::filter;
use crate::cli::RunList;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::listing::{Layout, Listing, Row};

const PAGE: u32 = 1000;

pub static RUNS: Layout = Layout {
    name: "runs",
    header: &["id", "workload", "category", "status", "retries", "submitted", "next", "error"],
    columns: &[
        "id",
        "workload",
        "category",
        "status",
        "state",
        "task_id",
        "retry_count",
        "next_retry_at",
        "error_class",
        "error_message",
        "error_traceback",
        "submitted_at",
        "started_at",
        "last_heartbeat",
        "completed_at",
        "metrics",
    ],
    nothing: Some("no run found"),
};

impl Row for RunShape {
    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.id.to_string(),
            self.workload.to_string(),
            self.category.clone(),
            self.status.to_owned(),
            self.retry_count.to_string(),
            self.submitted_at.to_string(),
            output::text_or_empty(self.next_retry_at),
            self.error_message.clone().unwrap_or_default(),
        ]]
    }
}

pub async fn run(args: &RunList, insight: &Insight, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, insight).await?;
    let limit = if args.limit == 0 { u64::MAX } else { args.limit.into() };
    let mut listing = Listing::new(&RUNS, &context.global);
    let (mut found, mut before) = (0, None);
    while found < limit {
        let most = u32::try_from(limit - found).unwrap_or(PAGE).min(PAGE);
        let page: Vec<Run> = insight.view().runs(RunPage { before, ..filter.page(most) }).await?;
        before = page.last().map(|run| run.run_id);
        found += count::of(page.len());
        let is_last = page.len() < usize::try_from(most).unwrap_or(usize::MAX);
        page.into_iter().try_for_each(|run| listing.add(&RunShape::from(run)))?;
        if is_last {
            break;
        }
    }
    let count = listing.end()?;
    if found >= limit && limit > 1 && !context.global.quiet {
        output::note(&format!("the newest {limit} are shown; --limit gives more"));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}
