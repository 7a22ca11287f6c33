//! `state inspect --missing`: days that calendars expect and that have no partition.

use redrive_control::{Insight, expected};
use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;

use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

static MISSING: Layout = Layout {
    name: "missing",
    header: &[Column::new("source"), Column::new("customer"), Column::new("query"), Column::new("date")],
    columns: &output::KEY,
    nothing: Some("nothing is missing"),
};

impl Row for PartitionKey {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        vec![output::key_cells(self)]
    }
}

pub async fn list(filter: &Filter, limit: u64, insight: &Insight, context: &Context) -> Result<Exit> {
    let (mut count, mut listing) = (0u64, Listing::new(&MISSING, &context.global));
    'search: for (span, latest) in expected::spans(insight, filter) {
        let Some(missing) = expected::missing_days(insight, span, latest).await? else { continue };
        for key in missing.keys() {
            if count >= limit {
                break 'search;
            }
            count += 1;
            listing.add(&key)?;
        }
    }
    listing.end()?;
    if count >= limit && !context.global.quiet {
        output::note(&format!("the first {limit} are shown; --limit gives more"));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}
