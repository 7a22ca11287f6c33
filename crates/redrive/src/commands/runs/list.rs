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
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

const PAGE: u32 = 1000;

pub static RUNS: Layout = Layout {
    name: "runs",
    header: &[
        Column::new("id"),
        Column::new("workload").spared(1),
        Column::text("category"),
        Column::new("status"),
        Column::number("retries").spared(2),
        Column::new("submitted").spared(3),
        Column::new("next"),
        Column::detail("error"),
    ],
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
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        vec![vec![
            Cell::new(self.id.to_string()),
            Cell::new(self.workload.as_str()),
            Cell::new(&self.category),
            Cell::state(self.status),
            Cell::new(self.retry_count.to_string()),
            Cell::new(times.tell(self.submitted_at)),
            Cell::some(self.next_retry_at.map(|at| times.tell(at))),
            Cell::some(self.error_message.as_ref()),
        ]]
    }
}

pub async fn run(args: &RunList, insight: &Insight, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, insight).await?;
    let limit = if args.limit == 0 { u64::MAX } else { args.limit.into() };
    let mut listing = Listing::new(&RUNS, &context.global).seen_from(insight.now());
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
