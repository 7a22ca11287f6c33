//! How an operation's report is printed, and what it ends with.

use redrive_control::shape::{Changed, Failed, Skipped};
use redrive_control::{Halt, Report};
use redrive_core::id::OpId;
use redrive_core::key::PartitionKey;
use serde::Serialize;

use crate::cli::{Format, Global};
use crate::error::Result;
use crate::exit::{self, Exit};
use crate::output;
use crate::output::listing::{Layout, Listing, Row};

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

/// A report's partitions, one by one.
static PARTITIONS: Layout = Layout {
    name: "partitions",
    header: &["source", "customer", "query", "date", "", ""],
    columns: &["source", "customer_id", "query_name", "logical_date", "outcome", "from", "to", "detail"],
    nothing: None,
};

pub fn report(report: &Report, global: &Global) -> Result<()> {
    match global.output {
        Format::Json => output::json(report)?,
        Format::Table if global.quiet => {}
        Format::Table | Format::Jsonl | Format::Csv => partitions(report, global)?,
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

fn partitions(report: &Report, global: &Global) -> Result<()> {
    let mut listing = Listing::new(&PARTITIONS, global);
    let (op_id, dry_run) = (report.op_id, report.dry_run);
    let entry = |partition, outcome| Entry { partition, outcome, op_id, dry_run };
    report.changed.iter().try_for_each(|changed| listing.add(&entry(Listed::Changed(changed), "changed")))?;
    report.skipped.iter().try_for_each(|skipped| listing.add(&entry(Listed::Skipped(skipped), "skipped")))?;
    report.failed.iter().try_for_each(|failed| listing.add(&entry(Listed::Failed(failed), "failed")))?;
    listing.end().map(drop)
}

/// One partition of a report: what became of it, in which of the report's lists, and of which operation.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    partition: Listed<'a>,
    outcome: &'static str,
    op_id: Option<OpId>,
    #[serde(skip)]
    dry_run: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Listed<'a> {
    Changed(&'a Changed),
    Skipped(&'a Skipped),
    Failed(&'a Failed),
}

impl Row for Entry<'_> {
    fn lines(&self) -> Vec<Vec<String>> {
        let line =
            |key: &PartitionKey, what: &str, how: String| vec![[output::key(key), vec![what.to_owned(), how]].concat()];
        match self.partition {
            Listed::Changed(changed) => {
                let what = if self.dry_run { "would change" } else { "changed" };
                line(&changed.key, what, format!("{} → {}", changed.from.unwrap_or("absent"), changed.to))
            }
            Listed::Skipped(skipped) => {
                let what = if skipped.refused { "refused" } else { "skipped" };
                line(&skipped.key, what, skipped.reason.as_str().to_owned())
            }
            Listed::Failed(failed) => line(&failed.key, "failed", failed.error.clone()),
        }
    }

    fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
        let (key, from, to, detail) = match self.partition {
            Listed::Changed(changed) => (&changed.key, changed.from.unwrap_or_default(), changed.to, ""),
            Listed::Skipped(skipped) => (&skipped.key, "", "", skipped.reason.as_str()),
            Listed::Failed(failed) => (&failed.key, "", "", failed.error.as_str()),
        };
        Ok(vec![[output::key(key), [self.outcome, from, to, detail].map(str::to_owned).to_vec()].concat()])
    }
}
