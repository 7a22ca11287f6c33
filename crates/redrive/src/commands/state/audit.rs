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
use crate::output::listing::{Layout, Listing, Row};

/// How many rows are read at a time.
const PAGE: u32 = 1000;

static OPERATIONS: Layout = Layout {
    name: "operations",
    header: &["at", "operation", "actor", "changes", "command", "reason"],
    columns: &["at", "op_id", "actor", "changes", "command", "reason"],
    nothing: Some("there are no operations yet"),
};

static CHANGES: Layout = Layout {
    name: "changes",
    header: &["source", "customer", "query", "date", "before", "after"],
    columns: &["source", "customer_id", "query_name", "logical_date", "before", "after"],
    nothing: Some("it changed no partition, run or hold"),
};

impl Row for OperationShape {
    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.at.to_string(),
            self.op_id.to_string(),
            self.actor.clone(),
            output::text_or_empty(self.changes),
            self.command.clone(),
            self.reason.clone().unwrap_or_default(),
        ]]
    }
}

impl Row for ChangeShape {
    fn lines(&self) -> Vec<Vec<String>> {
        let before = self.before.as_ref().map_or("absent", StandShape::word);
        let subject = match &self.subject {
            SubjectShape::Partition(key) => output::key(key),
            SubjectShape::Run { run_id } => vec![run_id.to_string(), String::new(), String::new(), String::new()],
            SubjectShape::Hold { hold_id } => {
                let held = [Some(&self.after), self.before.as_ref()].into_iter().flatten().find_map(StandShape::hold);
                held.map_or_else(|| vec![hold_id.to_string(), String::new(), String::new(), String::new()], scope_cells)
            }
        };
        vec![[subject, vec![before.to_owned(), self.after.word().to_owned()]].concat()]
    }

    /// The status alone: the whole of before and after would be JSON in a cell.
    fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
        Ok(self.lines())
    }
}

/// The scope of a hold, in the columns of a key.
fn scope_cells(hold: &HoldShape) -> Vec<String> {
    let (customer, query) =
        (output::text_or_empty(hold.customer_id.as_ref()), output::text_or_empty(hold.query_name.as_ref()));
    vec![hold.source.to_string(), customer, query, String::new()]
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
    let (mut operations, mut listing) = (insight.operations(filter), Listing::new(&OPERATIONS, &context.global));
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
