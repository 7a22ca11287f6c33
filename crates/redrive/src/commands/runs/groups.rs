//! `runs groups`: what is failed now, by cause.

use redrive_control::Insight;
use redrive_control::shape::RunGroupShape;
use redrive_core::count::grouped;
use redrive_store::RunPage;

use super::filter;
use crate::cli::RunGroups;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;
use crate::output::tone;

static GROUPS: Layout = Layout {
    name: "groups",
    header: &[
        Column::new("group"),
        Column::number("count"),
        Column::new("class"),
        Column::number("waiting"),
        Column::number("final"),
        Column::number("exhausted"),
        Column::text("categories"),
        Column::new("last seen"),
        Column::detail("template"),
    ],
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
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        let number = |count: u64| if count == 0 { Cell::empty() } else { Cell::new(grouped(count)) };
        vec![vec![
            Cell::new(self.group.to_string()),
            Cell::styled(grouped(self.count), tone::BAD),
            Cell::new(self.error_class.as_str()),
            number(self.waiting),
            number(self.final_errors),
            number(self.exhausted),
            Cell::new(self.categories.join(", ")),
            Cell::new(times.tell(self.last_seen)),
            Cell::new(&self.template),
        ]]
    }
}

pub async fn run(args: &RunGroups, insight: &Insight, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, insight).await?;
    let limit = if args.limit == 0 { u32::MAX } else { args.limit };
    let page: RunPage = filter.page(limit);
    let groups: Vec<_> = insight.view().run_groups(page).await?.into_iter().map(RunGroupShape::from).collect();
    Listing::print_as_of(&GROUPS, &context.global, &groups, insight.now())?;
    Ok(if groups.is_empty() { Exit::NothingFound } else { Exit::Done })
}
