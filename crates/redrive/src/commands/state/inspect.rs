//! `state inspect` and `terminal`: partitions as they are now, nothing guessed.

use redrive_control::Insight;
use redrive_control::shape::{AttemptShape, PartitionShape};
use redrive_core::count;
use redrive_core::hold::Hold;
use redrive_core::outlook::Outlook;
use redrive_core::partition::{Partition, Status, Terminal};
use redrive_store::Page;
use serde::Serialize;
use serde_json::Value;

use super::{errors, filter, missing};
use crate::cli::{self, Inspect};
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

const PAGE: u32 = 1000;
pub const NOTHING: &str = "no entry found";
const HEADER: [Column; 10] = [
    Column::new("source"),
    Column::new("customer"),
    Column::new("query"),
    Column::new("date"),
    Column::new("status"),
    Column::number("attempts"),
    Column::number("records").spared(2),
    Column::new("run").spared(1),
    Column::detail("next"),
    Column::detail("error"),
];

static PARTITIONS: Layout = Layout {
    name: "partitions",
    header: &HEADER,
    columns: &[
        "source",
        "customer_id",
        "query_name",
        "logical_date",
        "status",
        "current_run_id",
        "record_count",
        "attempt_count",
        "error_class",
        "error_message",
        "terminal",
        "paused",
        "lane",
        "next_retry_at",
        "active_run_id",
        "created_at",
        "updated_at",
    ],
    nothing: Some(NOTHING),
};

/// With `--history` CSV is a table of attempts: two kinds of rows would be no table.
static HISTORY: Layout = Layout {
    columns: &[
        "source",
        "customer_id",
        "query_name",
        "logical_date",
        "run_id",
        "attempt",
        "outcome",
        "error_class",
        "error_message",
        "record_count",
        "started_at",
        "finished_at",
    ],
    ..PARTITIONS
};

pub async fn run(args: &Inspect, insight: &Insight, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, insight, context.global.quiet).await?;
    if args.missing {
        return missing::list(&filter, limit(args.limit), insight, context).await;
    }
    let page = Page { filter, paused: args.paused, ..Page::default() };
    let mut search = Search { insight, page, terminal: args.terminal, limit: limit(args.limit), found: 0, done: false };
    if args.group_by.is_some() {
        return errors::count(&mut Search { limit: u64::MAX, ..search }, context).await;
    }
    list(&mut search, args.history, context).await
}

pub async fn terminal(args: &cli::Terminal, insight: &Insight, context: &Context) -> Result<Exit> {
    let filter = filter::resolve(&args.filter, insight, context.global.quiet).await?;
    let page = Page { filter, ..Page::default() };
    let limit = limit(args.limit);
    list(&mut Search { insight, page, terminal: true, limit, found: 0, done: false }, false, context).await
}

fn limit(given: u32) -> u64 {
    if given == 0 { u64::MAX } else { given.into() }
}

/// A walk over the partitions that are asked for, a page at a time.
pub struct Search<'a> {
    pub insight: &'a Insight,
    page: Page,
    terminal: bool,
    limit: u64,
    found: u64,
    done: bool,
}

impl Search<'_> {
    pub async fn next(&mut self, holds: &[Hold]) -> Result<Vec<(Partition, Outlook)>> {
        while !self.done {
            self.page.limit = u32::try_from(self.limit - self.found).unwrap_or(PAGE).min(PAGE);
            if self.terminal {
                self.page.limit = PAGE;
                self.page.filter.status.get_or_insert(Status::Failed);
            }
            let page = self.insight.view().partitions(self.page.clone()).await?;
            self.done = page.len() < usize::try_from(self.page.limit).unwrap_or(usize::MAX);
            self.page.after = page.last().map(|last| last.state.key.clone());
            let mut kept: Vec<_> = page
                .into_iter()
                .map(|partition| {
                    let outlook = self.insight.outlook(&partition, holds);
                    (partition, outlook)
                })
                .filter(|(partition, _)| !self.terminal || self.insight.terminal(partition).is_some())
                .collect();
            kept.truncate(usize::try_from(self.limit - self.found).unwrap_or(usize::MAX));
            self.found += count::of(kept.len());
            self.done |= self.found >= self.limit;
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
        Ok(vec![])
    }
}

async fn list(search: &mut Search<'_>, history: bool, context: &Context) -> Result<Exit> {
    let holds = search.insight.holds().await?;
    let layout = if history { &HISTORY } else { &PARTITIONS };
    let mut listing = Listing::new(layout, &context.global).seen_from(search.insight.now());
    loop {
        let page = search.next(&holds).await?;
        if page.is_empty() {
            break;
        }
        let mut attempts = match history {
            true => {
                let keys = page.iter().map(|(partition, _)| partition.state.key.clone()).collect();
                search.insight.view().attempts_of(keys).await?.into_iter()
            }
            false => Vec::new().into_iter(),
        };
        for (partition, outlook) in page {
            let next = next(&partition, &outlook, search.insight, listing.times());
            let shape = search.insight.describe(partition, &outlook, attempts.next().as_deref());
            listing.add(&Inspected { shape, next })?;
        }
    }
    let count = listing.end()?;
    if search.found >= search.limit && search.limit > 1 && !context.global.quiet {
        output::note(&format!("the first {} are shown; --limit gives more", search.limit));
    }
    Ok(if count == 0 { Exit::NothingFound } else { Exit::Done })
}

#[derive(Serialize)]
struct Inspected {
    #[serde(flatten)]
    shape: PartitionShape,
    /// What happens next, in a few words for people.
    #[serde(skip)]
    next: String,
}

impl Row for Inspected {
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        let shape = &self.shape;
        let rest = vec![
            Cell::state(shape.status.as_str()),
            Cell::new(shape.attempt_count.to_string()),
            Cell::some(shape.record_count),
            Cell::some(shape.current_run_id),
            Cell::new(&self.next),
            Cell::some(shape.error_message.as_ref()),
        ];
        let partition = [output::key_cells(&shape.key), rest].concat();
        let attempts = shape.history.iter().flatten().map(|attempt| attempt_line(attempt, times));
        [partition].into_iter().chain(attempts).collect()
    }

    fn records(&self, columns: &[&str]) -> Result<Vec<Vec<String>>> {
        let Some(attempts) = &self.shape.history else {
            return Ok(vec![output::cells(columns, &serde_json::to_value(&self.shape)?)]);
        };
        let (key, columns) = (output::key(&self.shape.key), &columns[output::KEY.len()..]);
        // A partition that was never tried is not left out.
        if attempts.is_empty() {
            return Ok(vec![[key, output::cells(columns, &Value::Null)].concat()]);
        }
        let record = |attempt: &AttemptShape| {
            Ok([key.clone(), output::cells(columns, &serde_json::to_value(attempt)?)].concat())
        };
        attempts.iter().map(record).collect()
    }
}

fn attempt_line(attempt: &AttemptShape, times: Times) -> Vec<Cell> {
    let rest = [
        Cell::state(attempt.outcome.as_str()),
        Cell::new(attempt.attempt.to_string()),
        Cell::empty(),
        Cell::new(attempt.run_id.to_string()),
        Cell::some(attempt.started_at.map(|at| times.tell(at))),
        Cell::some(attempt.error_message.as_ref()),
    ];
    vec![Cell::empty(); output::KEY.len()].into_iter().chain(rest).collect()
}

fn next(partition: &Partition, outlook: &Outlook, insight: &Insight, times: Times) -> String {
    let mut next = match outlook {
        Outlook::Waiting { until, .. } => times.at("retry", *until),
        Outlook::Held(hold) => match hold.until {
            Some(until) => times.until(&outlook.code().replace('_', " "), until),
            None => outlook.code().replace('_', " "),
        },
        Outlook::Done => String::new(),
        Outlook::Queued { lane, .. } => format!("queued, {lane}"),
        Outlook::Exhausted(stop) => format!("terminal: {stop}"),
        Outlook::InFlight { .. }
        | Outlook::Paused(_)
        | Outlook::Marked(_)
        | Outlook::FinalError
        | Outlook::TooOldByThen { .. }
        | Outlook::Due { .. }
        | Outlook::NotQueued => outlook.code().to_owned(),
    };
    if let Outlook::Paused(_) | Outlook::InFlight { .. } = outlook {
        match insight.terminal(partition) {
            Some(Terminal::ByPolicy(stop)) => next.push_str(&format!("; terminal: {stop}")),
            Some(Terminal::Marked(_)) => next.push_str("; terminal"),
            None => {}
        }
    }
    next
}
