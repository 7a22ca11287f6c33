//! How an operation's report is printed, and what it ends with.

use redrive_control::{Halt, Report};
use redrive_core::id::OpId;
use redrive_core::key::PartitionKey;
use serde::Serialize;

use crate::cli::{Format, Global};
use crate::error::Result;
use crate::exit::{self, Exit};
use crate::output;

pub fn exit(report: &Report) -> Exit {
    match &report.halt {
        Some(Halt::Interrupted) => return Exit::Interrupted,
        Some(Halt::Fault(error)) => return exit::control(error),
        None => {}
    }
    if !report.failed.is_empty() {
        Exit::SomeFailed
    } else if report.any_refused() {
        Exit::Refused
    } else {
        Exit::Done
    }
}

pub fn report(report: &Report, global: &Global) -> Result<()> {
    match global.output {
        Format::Json => output::json(report)?,
        Format::Jsonl => lines(report)?,
        Format::Csv => csv(report)?,
        Format::Table if global.quiet => {}
        Format::Table => table(report)?,
    }
    if let Some(Halt::Fault(error)) = &report.halt {
        let done = report.changed.len();
        output::note(&format!("error: {error}; {done} partitions were changed by then, run it again for the rest"));
    }
    if let Some(Halt::Interrupted) = &report.halt {
        output::note(&format!("interrupted; {} partitions were changed by then", report.changed.len()));
    }
    if !matches!(global.output, Format::Table) {
        return Ok(());
    }
    output::line(&summary(report))
}

fn summary(report: &Report) -> String {
    let would = if report.dry_run { "would change" } else { "changed" };
    let Report { operation, matched, .. } = report;
    let (changed, skipped, failed) = (report.changed.len(), report.skipped.len(), report.failed.len());
    let mut text = format!("{operation}: {matched} matched, {changed} {would}, {skipped} skipped, {failed} failed");
    if let Some(op_id) = report.op_id {
        text.push_str(&format!("; operation {op_id}"));
    }
    text
}

fn table(report: &Report) -> Result<()> {
    let mut rows = Vec::new();
    for changed in &report.changed {
        let from = changed.from.unwrap_or("absent");
        let what = if report.dry_run { "would change" } else { "changed" };
        rows.push(row(&changed.key, what, format!("{from} → {}", changed.to)));
    }
    for skipped in &report.skipped {
        let what = if skipped.refused { "refused" } else { "skipped" };
        rows.push(row(&skipped.key, what, skipped.reason.as_str().to_owned()));
    }
    rows.extend(report.failed.iter().map(|failed| row(&failed.key, "failed", failed.error.clone())));
    match rows.is_empty() {
        true => Ok(()),
        false => output::line(&output::table(&["source", "customer", "query", "date", "", ""], rows)),
    }
}

fn row(key: &PartitionKey, what: &str, how: String) -> Vec<String> {
    [output::key(key), vec![what.to_owned(), how]].concat()
}

/// One partition's line: what the report has of it, in which of its lists, and of which operation.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(flatten)]
    partition: &'a T,
    outcome: &'static str,
    op_id: Option<OpId>,
}

fn lines(report: &Report) -> Result<()> {
    fn each<T: Serialize>(list: &[T], outcome: &'static str, op_id: Option<OpId>) -> Result<()> {
        list.iter().try_for_each(|partition| output::json(&Line { partition, outcome, op_id }))
    }
    each(&report.changed, "changed", report.op_id)?;
    each(&report.skipped, "skipped", report.op_id)?;
    each(&report.failed, "failed", report.op_id)
}

fn csv(report: &Report) -> Result<()> {
    output::csv_header(&[output::KEY.as_slice(), &["outcome", "from", "to", "detail"]].concat())?;
    for changed in &report.changed {
        let from = changed.from.unwrap_or_default().to_owned();
        let rest = vec!["changed".to_owned(), from, changed.to.to_owned(), String::new()];
        output::csv(&[output::key(&changed.key), rest].concat())?;
    }
    let nothing = String::new;
    for skipped in &report.skipped {
        let rest = vec!["skipped".to_owned(), nothing(), nothing(), skipped.reason.as_str().to_owned()];
        output::csv(&[output::key(&skipped.key), rest].concat())?;
    }
    for failed in &report.failed {
        let rest = vec!["failed".to_owned(), nothing(), nothing(), failed.error.clone()];
        output::csv(&[output::key(&failed.key), rest].concat())?;
    }
    Ok(())
}
