//! `ingest list`: uploads as they are now, the newest first.

use redrive_control::shape::UploadRunShape;
use redrive_core::run::Workload;
use redrive_store::RunPage;

use crate::cli::UploadList;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

const PAGE: u32 = 1000;

static RUNS: Layout = Layout {
    name: "runs",
    header: &[
        Column::new("id"),
        Column::text("file"),
        Column::new("status"),
        Column::number("retries").spared(1),
        Column::new("submitted"),
        Column::detail("error"),
    ],
    columns: &["id", "file", "status", "retry_count", "next_retry_at", "error_message", "submitted_at", "completed_at"],
    nothing: Some("no upload found"),
};

impl Row for UploadRunShape {
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        vec![vec![
            Cell::new(self.id.to_string()),
            Cell::new(&self.file),
            Cell::state(self.status),
            Cell::new(self.retry_count.to_string()),
            Cell::new(times.tell(self.submitted_at)),
            Cell::some(self.error_message.as_ref()),
        ]]
    }
}

pub async fn run(args: &UploadList, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = context.insight(&config).await?;
    let limit = if args.limit == 0 { u32::MAX } else { args.limit };
    let mut listing = Listing::new(&RUNS, &context.global).seen_from(insight.now());
    let (mut left, mut before) = (limit, None);
    while left > 0 {
        let page = RunPage { workload: Some(Workload::Ingest), before, limit: left.min(PAGE), ..RunPage::default() };
        let page = insight.view().runs(page).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.run_id);
        left = left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        page.iter().try_for_each(|run| listing.add(&UploadRunShape::from(run)))?;
    }
    let count = listing.end()?;
    if left == 0 && !context.global.quiet {
        output::note(&format!("the newest {limit} are shown; --limit gives more"));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}
