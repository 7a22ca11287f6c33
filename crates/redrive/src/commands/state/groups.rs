//! `state groups`: partitions that are failed now, by cause.

use redrive_control::Insight;
use redrive_control::shape::GroupShape;
use redrive_core::count::grouped;

use super::filter;
use crate::cli::{Format, Groups};
use crate::commands::Context;
use crate::commands::status::show;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::listing::{Layout, Listing, Row};

static GROUPS: Layout = Layout {
    name: "groups",
    header: &[],
    columns: &[
        "group",
        "count",
        "error_class",
        "template",
        "sample",
        "sources",
        "customers",
        "customer_count",
        "first_seen",
        "last_seen",
        "waiting",
        "final",
        "exhausted",
    ],
    nothing: Some("no partition is failed now"),
};

impl Row for GroupShape {
    fn lines(&self) -> Vec<Vec<String>> {
        // A table of groups knows the terminal's width.
        vec![]
    }
}

/// What happens to a group's partitions next.
pub fn next(group: &GroupShape) -> String {
    let parts = [
        (group.waiting, "waiting"),
        (group.final_errors, "final"),
        // As the overview's table of sources calls it.
        (group.exhausted, "spent"),
        (group.withheld(), "withheld"),
    ];
    let told: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{} {word}", grouped(*n))).collect();
    told.join(", ")
}

pub async fn run(args: &Groups, insight: &Insight, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, insight, context.global.quiet).await?;
    let mut groups = insight.groups(&filter).await?;
    if args.limit > 0 {
        groups.truncate(usize::try_from(args.limit).unwrap_or(usize::MAX));
    }
    match (context.global.output, groups.is_empty()) {
        (Format::Table, false) => {
            let width = output::terminal::width(&context.environment);
            output::line(&show::groups(&groups, insight.now(), width).join("\n"))?;
        }
        _ => Listing::print(&GROUPS, &context.global, &groups)?,
    }
    Ok(if groups.is_empty() { Exit::NothingFound } else { Exit::Done })
}
