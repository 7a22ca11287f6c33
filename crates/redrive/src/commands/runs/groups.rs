//! `runs groups`: what is failed now, by cause.

use redrive_control::Insight;
use redrive_control::shape::RunGroupShape;
use redrive_store::RunPage;

use super::filter;
use crate::cli::RunGroups;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::listing::{Layout, Listing, Row};

static GROUPS: Layout = Layout {
    name: "groups",
    header: &["group", "count", "class", "waiting", "final", "exhausted", "categories", "last seen", "template"],
    columns: &[
        "group",
        "count",
        "error_class",
        "template",
        "sample",
        "categories",
        "first_seen",
        "last_seen",
        "waiting",
        "final",
        "exhausted",
    ],
    nothing: Some("nothing is failed now"),
};

impl Row for RunGroupShape {
    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.group.to_string(),
            self.count.to_string(),
            self.error_class.to_string(),
            self.waiting.to_string(),
            self.final_errors.to_string(),
            self.exhausted.to_string(),
            self.categories.join(", "),
            self.last_seen.to_string(),
            self.template.clone(),
        ]]
    }
}

pub async fn run(args: &RunGroups, insight: &Insight, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, insight).await?;
    let limit = if args.limit == 0 { u32::MAX } else { args.limit };
    let page: RunPage = filter.page(limit);
    let groups: Vec<_> = insight.view().run_groups(page).await?.into_iter().map(RunGroupShape::from).collect();
    Listing::print(&GROUPS, &context.global, &groups)?;
    Ok(if groups.is_empty() { Exit::NothingFound } else { Exit::Done })
}
