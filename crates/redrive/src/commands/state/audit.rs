//! `state audit`: who did what, and whether the trail is unbroken.

use redrive_control::Insight;
use redrive_control::shape::{ChangeShape, HoldShape, OperationShape, StandShape, SubjectShape};
use redrive_core::id::OpId;
use redrive_store::Verified;
use serde_json::json;

use crate::cli::{Audit, Format};
use crate::commands::Context;
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
        Audit::List { limit } => list(*limit, insight, context).await,
        Audit::Show { operation } => show(operation, insight, context).await,
        Audit::Verify => verify(insight, context).await,
    }
}

async fn list(limit: u32, insight: &Insight, context: &Context) -> Result<Exit> {
    let mut left = if limit == 0 { u32::MAX } else { limit };
    let (mut before, mut listing) = (None, Listing::new(&OPERATIONS, &context.global));
    while left > 0 {
        let page = insight.view().operations(before, left.min(PAGE)).await?;
        let Some(last) = page.last() else { break };
        (before, left) = (Some(last.seq), left - u32::try_from(page.len()).unwrap_or(left));
        page.into_iter().try_for_each(|past| listing.add(&OperationShape::from(past)))?;
    }
    listing.end()?;
    Ok(Exit::Done)
}

async fn show(operation: &str, insight: &Insight, context: &Context) -> Result<Exit> {
    let wrong = |_| Error::Usage(format!("{operation:?} is not an operation's id; `state audit list` shows them"));
    let op_id: OpId = operation.parse().map_err(wrong)?;
    let absent = || Error::NothingFound(format!("there is no operation {op_id}; `state audit list` shows them"));
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

async fn verify(insight: &Insight, context: &Context) -> Result<Exit> {
    let (value, text, exit) = match insight.view().verify_audit().await? {
        Verified::Whole(head) => (
            json!({"whole": true, "rows": head.seq, "head": head.hex()}),
            format!("whole: {} rows, head {}", head.seq, head.hex()),
            Exit::Done,
        ),
        Verified::Broken { seq, why } => (
            json!({"whole": false, "broken_at": seq, "why": why}),
            format!("BROKEN at row {seq}: {why}"),
            Exit::SomeFailed,
        ),
    };
    output::ignore_broken_pipe(match context.global.output {
        Format::Json | Format::Jsonl => output::json(&value),
        Format::Csv => output::record(&["whole", "rows", "head", "broken_at", "why"], &value),
        Format::Table => output::line(&text),
    })?;
    Ok(exit)
}
