//! How an operation's report is printed, and what it ends with.

use redrive_control::shape::{Changed, Failed, Skipped, SubjectShape};
use redrive_control::{Halt, Report};
use redrive_core::id::OpId;
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

/// A report's runs, one by one.
static RUNS: Layout = Layout {
    name: "runs",
    header: &["run", "", ""],
    columns: &["run_id", "outcome", "from", "to", "detail"],
    nothing: None,
};

pub fn report(report: &Report, global: &Global) -> Result<()> {
    match global.output {
        Format::Json => output::json(report)?,
        Format::Table if global.quiet => {}
        Format::Table | Format::Jsonl | Format::Csv => entries(report, global)?,
    }
    if let Some(Halt::Fault(error)) = &report.halt {
        let (done, noun) = (report.count_changed(), report.noun());
        output::note(&format!("error: {error}; {done} {noun} were changed by then, run it again for the rest"));
    }
    if let Some(Halt::Interrupted) = &report.halt {
        output::note(&format!("interrupted; {} {} were changed by then", report.count_changed(), report.noun()));
    }
    if !matches!(global.output, Format::Table) {
        return Ok(());
    }
    output::line(&summary(report))
}

fn summary(report: &Report) -> String {
    let would = if report.dry_run { "would change" } else { "changed" };
    let Report { operation, matched, .. } = report;
    let (changed, skipped, failed) = (report.count_changed(), report.count_skipped(), report.failed.len());
    let mut text = format!("{operation}: {matched} matched, {changed} {would}, {skipped} skipped, {failed} failed");
    if let Some(op_id) = report.op_id {
        text.push_str(&format!("; operation {op_id}"));
    }
    text
}

fn entries(report: &Report, global: &Global) -> Result<()> {
    let mut listing = Listing::new(if report.noun() == "runs" { &RUNS } else { &PARTITIONS }, global);
    let (op_id, dry_run) = (report.op_id, report.dry_run);
    let entry = |listed, outcome| Entry { listed, outcome, op_id, dry_run };
    report.changed().try_for_each(|changed| listing.add(&entry(Listed::Changed(changed), "changed")))?;
    report.skipped().try_for_each(|skipped| listing.add(&entry(Listed::Skipped(skipped), "skipped")))?;
    report.failed.iter().try_for_each(|failed| listing.add(&entry(Listed::Failed(failed.clone()), "failed")))?;
    listing.end().map(drop)
}

/// One partition or run of a report: what became of it, in which of the report's lists, and of which operation.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    listed: Listed,
    outcome: &'static str,
    op_id: Option<OpId>,
    #[serde(skip)]
    dry_run: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Listed {
    Changed(Changed),
    Skipped(Skipped),
    Failed(Failed),
}

impl Row for Entry {
    fn lines(&self) -> Vec<Vec<String>> {
        let line = |subject: &SubjectShape, what: &str, how: String| {
            vec![[cells(subject), vec![what.to_owned(), how]].concat()]
        };
        match &self.listed {
            Listed::Changed(changed) => {
                let what = if self.dry_run { "would change" } else { "changed" };
                line(
                    &changed.subject,
                    what,
                    format!("{} → {}", changed.words.from.unwrap_or("absent"), changed.words.to),
                )
            }
            Listed::Skipped(skipped) => {
                let what = if skipped.refused { "refused" } else { "skipped" };
                line(&skipped.subject, what, skipped.reason.as_str().to_owned())
            }
            Listed::Failed(failed) => line(&failed.subject, "failed", failed.error.clone()),
        }
    }

    fn records(&self, _: &[&str]) -> Result<Vec<Vec<String>>> {
        let (subject, from, to, detail) = match &self.listed {
            Listed::Changed(changed) => {
                (&changed.subject, changed.words.from.unwrap_or_default(), changed.words.to, "")
            }
            Listed::Skipped(skipped) => (&skipped.subject, "", "", skipped.reason.as_str()),
            Listed::Failed(failed) => (&failed.subject, "", "", failed.error.as_str()),
        };
        Ok(vec![[cells(subject), [self.outcome, from, to, detail].map(str::to_owned).to_vec()].concat()])
    }
}

/// What a partition or a run is known by.
fn cells(subject: &SubjectShape) -> Vec<String> {
    match subject {
        SubjectShape::Partition(key) => output::key(key),
        SubjectShape::Run { run_id } => vec![run_id.to_string()],
        SubjectShape::Hold { hold_id } => vec![hold_id.to_string()],
    }
}
