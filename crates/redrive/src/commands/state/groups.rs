//! `state groups`: partitions that are failed now, by cause.

use redrive_control::Insight;
use redrive_control::shape::{Bounded, GroupShape};
use redrive_core::count::grouped;

use super::filter;
use crate::cli::Groups;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;
use crate::output::tone;

pub static GROUPS: Layout = Layout {
    name: "groups",
    header: &[
        Column::new("group"),
        Column::number("count"),
        Column::new("class").spared(2),
        Column::new("sources"),
        Column::number("customers"),
        Column::new("first seen").spared(1),
        Column::new("last seen"),
        Column::detail("what happens next"),
        Column::detail("template"),
    ],
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
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        vec![vec![
            Cell::new(self.group.to_string()),
            Cell::styled(Bounded::new(self.count).to_string(), tone::BAD),
            Cell::new(self.error_class.as_str()),
            Cell::new(some(&self.sources)),
            Cell::new(some_customers(self)),
            Cell::new(times.tell(self.first_seen)),
            Cell::new(times.tell(self.last_seen)),
            Cell::new(next(self)),
            Cell::new(&self.template),
        ]]
    }
}

/// The first of some names, and how many more there are.
fn some(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} +{}", rest.len()),
    }
}

fn some_customers(group: &GroupShape) -> String {
    match (&group.customers[..], group.customer_count) {
        ([one, ..], 1) => one.clone(),
        (_, count) => count.to_string(),
    }
}

/// What happens to a group's partitions next.
fn next(group: &GroupShape) -> String {
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
    Listing::print_as_of(&GROUPS, &context.global, &groups, insight.now())?;
    Ok(if groups.is_empty() { Exit::NothingFound } else { Exit::Done })
}
