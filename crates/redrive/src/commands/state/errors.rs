//! `state inspect --group-by error`: which errors there are, and how many partitions have each.

use std::collections::BTreeMap;

use redrive_core::count::grouped;
use serde::Serialize;

use super::inspect::{NOTHING, Search};
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

static GROUPS: Layout = Layout {
    name: "groups",
    header: &[Column::number("count"), Column::new("class"), Column::text("error")],
    columns: &["count", "error_class", "error_message"],
    nothing: Some(NOTHING),
};

#[derive(Serialize)]
struct Group {
    count: u64,
    error_class: &'static str,
    error_message: String,
}

impl Row for Group {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        vec![vec![Cell::new(grouped(self.count)), Cell::new(self.error_class), Cell::new(&self.error_message)]]
    }
}

pub async fn count(search: &mut Search<'_>, context: &Context) -> Result<Exit> {
    let holds = search.insight.holds().await?;
    let mut counts: BTreeMap<(&'static str, String), u64> = BTreeMap::new();
    loop {
        let page = search.next(&holds).await?;
        if page.is_empty() {
            break;
        }
        for (partition, _) in page {
            let Some(message) = partition.state.error_message else { continue };
            let class = partition.state.error_class.map_or("", |class| class.as_str());
            *counts.entry((class, message)).or_default() += 1;
        }
    }
    let group = |((error_class, error_message), count)| Group { count, error_class, error_message };
    let mut groups: Vec<Group> = counts.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Listing::print(&GROUPS, &context.global, &groups)?;
    Ok(if groups.is_empty() { Exit::NothingFound } else { Exit::Done })
}
