//! `state audit`: who did what, and whether the trail is unbroken.

use redrive_control::shape::{ChangeShape, HoldShape, OperationShape, StandShape, SubjectShape, VerifiedShape};
use redrive_control::{Insight, OperationFilter};
use redrive_store::{Head, Verified};
use serde_json::json;

use super::operation;
use crate::cli::{Audit, AuditList, Format};
use crate::commands::Context;
use crate::commands::runs::filter as runs_filter;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

/// How many rows are read at a time.
const PAGE: u32 = 1000;

static OPERATIONS: Layout = Layout {
    name: "operations",
    header: &[
        Column::new("at"),
        Column::new("operation"),
        Column::text("actor"),
        Column::number("changes"),
        Column::detail("command"),
        Column::detail("reason"),
    ],
    columns: &["at", "op_id", "actor", "changes", "command", "reason"],
    nothing: Some("there are no operations yet"),
};

static CHANGES: Layout = Layout {
    name: "changes",
    header: &[
        Column::new("source"),
        Column::new("customer"),
        Column::new("query"),
        Column::new("date"),
        Column::new("before"),
        Column::new("after"),
    ],
    columns: &["source", "customer_id", "query_name", "logical_date", "before", "after"],
    nothing: Some("it changed no partition, run or hold"),
};

impl Row for OperationShape {
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        vec![vec![
            Cell::new(times.tell(self.at)),
            Cell::new(self.op_id.to_string()),
            Cell::new(&self.actor),
            Cell::some(self.changes),
            Cell::new(&self.command),
            Cell::some(self.reason.as_ref()),
        ]]
    }
}

impl Row for ChangeShape {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        let subject = subject(self).into_iter().map(Cell::new);
        vec![subject.chain(words(self).map(Cell::state)).collect()]
    }

    /// The status alone: the whole of before and after would be JSON in a cell.
    fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
        Ok(vec![[subject(self), words(self).map(str::to_owned).to_vec()].concat()])
    }
}

/// What a change is about, in a key's four columns.
fn subject(change: &ChangeShape) -> Vec<String> {
    let alone = |id: String| vec![id, String::new(), String::new(), String::new()];
    match &change.subject {
        SubjectShape::Partition(key) => output::key(key),
        SubjectShape::Run { run_id } => alone(run_id.to_string()),
        SubjectShape::Hold { hold_id } => {
            let held = [Some(&change.after), change.before.as_ref()].into_iter().flatten().find_map(StandShape::hold);
            held.map_or_else(|| alone(hold_id.to_string()), scope_cells)
        }
    }
}

/// How it stood before and after.
fn words(change: &ChangeShape) -> [&str; 2] {
    [change.before.as_ref().map_or("absent", StandShape::word), change.after.word()]
}

/// The scope of a hold, in the columns of a key.
fn scope_cells(hold: &HoldShape) -> Vec<String> {
    let (customer, query) =
        (hold.customer_id.as_ref().map(ToString::to_string), hold.query_name.as_ref().map(ToString::to_string));
    vec![hold.source.to_string(), customer.unwrap_or_default(), query.unwrap_or_default(), String::new()]
}

pub async fn run(command: &Audit, insight: &Insight, context: &Context) -> Result<Exit> {
    match command {
        Audit::List(args) => list(args, insight, context).await,
        Audit::Show { operation } => show(operation, insight, context).await,
        Audit::Head => head(insight, context).await,
        Audit::Verify { head } => verify(head.as_ref(), insight, context).await,
    }
}

async fn list(args: &AuditList, insight: &Insight, context: &Context) -> Result<Exit> {
    let since = args.since.as_deref().map(|text| runs_filter::since("--since", text, insight.now())).transpose()?;
    let filter = OperationFilter { actor: args.actor.clone(), since, verb: args.operation.clone() };
    let mut left = if args.limit == 0 { usize::MAX } else { usize::try_from(args.limit).unwrap_or(usize::MAX) };
    let mut operations = insight.operations(filter);
    let mut listing = Listing::new(&OPERATIONS, &context.global).seen_from(insight.now());
    while left > 0
        && let Some(mut page) = operations.next().await?
    {
        page.truncate(left);
        left -= page.len();
        page.into_iter().try_for_each(|past| listing.add(&OperationShape::from(past)))?;
    }
    Ok(if listing.end()? == 0 { Exit::NothingFound } else { Exit::Done })
}

async fn show(operation: &str, insight: &Insight, context: &Context) -> Result<Exit> {
    let op_id = operation::find(operation, &context.actor(), insight).await?;
    let absent =
        || Error::NothingFound(format!("there is no operation {op_id}; `redrive state audit list` shows them"));
    let found = insight.view().operation(op_id).await?.ok_or_else(absent)?;
    if context.global.output == Format::Table {
        output::line(&format!("{} by {} at {}", found.op_id, found.actor, found.at))?;
        output::line(&found.command)?;
        output::line(&format!("filters {}  flags {}", found.filters, found.flags))?;
    }
    let mut listing = Listing::inside(&OperationShape::from(found), &CHANGES, &context.global)?;
    let mut after = 0;
    loop {
        let page = insight.view().changes(op_id, after, PAGE).await?;
        let Some((seq, _)) = page.last() else { break };
        after = *seq;
        page.into_iter().try_for_each(|(_, change)| listing.add(&ChangeShape::try_from(change)?))?;
    }
    listing.end()?;
    Ok(Exit::Done)
}

async fn head(insight: &Insight, context: &Context) -> Result<Exit> {
    let head = insight.view().audit_head().await?;
    let value = json!({"seq": head.seq, "hash": head.hex(), "head": head.to_string()});
    output::one(&["seq", "hash", "head"], &value, &context.global, || head.to_string())?;
    Ok(Exit::Done)
}

async fn verify(anchor: Option<&Head>, insight: &Insight, context: &Context) -> Result<Exit> {
    let verified = match anchor {
        Some(anchor) => insight.view().verify_audit_against(anchor.clone()).await?,
        None => insight.view().verify_audit().await?,
    };
    let (text, exit) = match &verified {
        Verified::Whole(head) => (format!("whole: {} rows, head {}", head.seq, head.hex()), Exit::Done),
        Verified::Broken { seq, why } => (format!("BROKEN at row {seq}: {why}"), Exit::SomeFailed),
    };
    let value = VerifiedShape::from(verified);
    let names = ["whole", "rows", "head", "broken_at", "why"];
    output::ignore_broken_pipe(output::one(&names, &value, &context.global, || text))?;
    Ok(exit)
}
