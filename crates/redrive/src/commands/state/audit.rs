//! `state audit`: the trail, and whether it is whole.

use redrive_control::ControlPlane;
use redrive_core::id::OpId;
use redrive_store::{PastOperation, Verified};
use serde_json::{Value, json};

use crate::cli::{Audit, Format};
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

/// How many changes are read at a time.
const PAGE: u32 = 1000;

pub async fn run(command: &Audit, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    match command {
        Audit::List { limit } => list(*limit, plane, context).await,
        Audit::Show { operation } => show(operation, plane, context).await,
        Audit::Verify => verify(plane, context).await,
    }
}

async fn list(limit: u32, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let limit = if limit == 0 { u32::MAX } else { limit };
    let operations = plane.view().operations(None, limit).await?;
    match context.global.output {
        Format::Json => output::json(&json!({"operations": operations.iter().map(object).collect::<Vec<_>>()}))?,
        Format::Jsonl => operations.iter().map(object).try_for_each(|operation| output::json(&operation))?,
        Format::Table | Format::Csv => {
            let rows = operations.iter().map(|past| {
                let operation = &past.operation;
                vec![
                    operation.at.to_string(),
                    operation.op_id.to_string(),
                    operation.actor.clone(),
                    past.changes.to_string(),
                    operation.command.clone(),
                    operation.reason.clone().unwrap_or_default(),
                ]
            });
            let header = ["at", "operation", "actor", "changes", "command", "reason"];
            let names = ["at", "op_id", "actor", "changes", "command", "reason"];
            output::rows(&header, &names, rows.collect(), context.global.output)?;
        }
    }
    Ok(Exit::Done)
}

fn object(past: &PastOperation) -> Value {
    let operation = &past.operation;
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    json!({
        "op_id": operation.op_id, "seq": past.seq, "at": operation.at, "actor": operation.actor,
        "command": operation.command, "filters": parsed(&operation.filters), "flags": parsed(&operation.flags),
        "reason": operation.reason, "changes": past.changes,
    })
}

async fn show(operation: &str, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let wrong = |_| Error::Usage(format!("{operation:?} is not an operation's id; `state audit list` shows them"));
    let op_id: OpId = operation.parse().map_err(wrong)?;
    let view = plane.view();
    let absent = || Error::NothingFound(format!("there is no operation {op_id}; `state audit list` shows them"));
    let found = view.operation(op_id).await?.ok_or_else(absent)?;
    let (mut changes, mut after) = (Vec::new(), 0);
    loop {
        let page = view.changes(op_id, after, PAGE).await?;
        let Some((seq, _)) = page.last() else { break };
        after = *seq;
        changes.extend(page.into_iter().map(|(_, change)| change));
    }
    let count = u64::try_from(changes.len()).unwrap_or(u64::MAX);
    let past = PastOperation { seq: 0, operation: found, changes: count };
    match context.global.output {
        Format::Json | Format::Jsonl => {
            let mut whole = object(&past);
            let each = changes.iter().map(|change| {
                let mut value = serde_json::to_value(&change.key).unwrap_or_default();
                value["before"] = json!(change.before);
                value["after"] = json!(change.after);
                value
            });
            whole["changes"] = each.collect();
            if let Some(object) = whole.as_object_mut() {
                object.remove("seq");
            }
            output::json(&whole)?;
        }
        Format::Table | Format::Csv => {
            let operation = &past.operation;
            if context.global.output == Format::Table {
                output::line(&format!("{} by {} at {}", operation.op_id, operation.actor, operation.at))?;
                output::line(&operation.command)?;
                output::line(&format!("filters {}  flags {}", operation.filters, operation.flags))?;
            }
            let rows = changes.iter().map(|change| {
                let before = change.before.as_ref().map_or("absent", |before| before.status.as_str());
                [output::key(&change.key), vec![before.to_owned(), change.after.status.as_str().to_owned()]].concat()
            });
            let header = ["source", "customer", "query", "date", "before", "after"];
            let names = [output::KEY.as_slice(), &["before", "after"]].concat();
            output::rows(&header, &names, rows.collect(), context.global.output)?;
        }
    }
    Ok(Exit::Done)
}

async fn verify(plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let (value, text, exit) = match plane.view().verify_audit().await? {
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
