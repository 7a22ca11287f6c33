//! `ingest list`: uploads as they are now, the newest first.

use redrive_control::shape::UploadRunShape;
use redrive_core::run::Workload;
use redrive_store::RunPage;

use crate::cli::UploadList;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::listing::{Layout, Listing, Row};

const PAGE: u32 = 1000;

static RUNS: Layout = Layout {
    name: "runs",
    header: &["id", "file", "status", "retries", "submitted", "error"],
    columns: &["id", "file", "status", "retry_count", "next_retry_at", "error_message", "submitted_at", "completed_at"],
    nothing: Some("no upload found"),
};

impl Row for UploadRunShape {
    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.id.to_string(),
            self.file.clone(),
            self.status.to_owned(),
            self.retry_count.to_string(),
            self.submitted_at.to_string(),
            self.error_message.clone().unwrap_or_default(),
        ]]
    }
}

pub async fn run(args: &UploadList, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let insight = context.insight(&config).await?;
    let limit = if args.limit == 0 { u32::MAX } else { args.limit };
    let mut listing = Listing::new(&RUNS, &context.global);
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
