//! How an operation's report is printed, and what it ends with.

use redrive_control::Report;
use redrive_control::shape::{Changed, Failed, Skipped, SubjectShape};
use redrive_core::count;
use redrive_core::id::OpId;
use redrive_core::refusal::Reason;
use serde::Serialize;

use super::halted;
use crate::cli::{Format, Global};
use crate::error::Result;
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;
use crate::shell::command_line_without;

pub fn exit(report: &Report) -> Exit {
    if let Some(halt) = &report.halt {
        return halted::exit(halt);
    }
    if report.matched == 0 {
        Exit::NothingFound
    } else if !report.failed.is_empty() {
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
    header: &[
        Column::new("source"),
        Column::new("customer"),
        Column::new("query"),
        Column::new("date"),
        Column::new(""),
        Column::detail(""),
    ],
    columns: &["source", "customer_id", "query_name", "logical_date", "outcome", "from", "to", "detail"],
    nothing: None,
};

/// A report's runs, one by one.
static RUNS: Layout = Layout {
    name: "runs",
    header: &[Column::new("run"), Column::new(""), Column::detail("")],
    columns: &["run_id", "outcome", "from", "to", "detail"],
    nothing: None,
};

pub fn report(report: &Report, global: &Global) -> Result<()> {
    match global.output {
        Format::Json => output::json(report)?,
        Format::Table if global.quiet => {}
        Format::Table | Format::Jsonl | Format::Csv => entries(report, global)?,
    }
    if let Some(halt) = &report.halt {
        halted::note(halt, report.count_changed(), report.noun(), "changed");
    }
    if !matches!(global.output, Format::Table) {
        return Ok(());
    }
    if !global.quiet {
        if let Some(rest) = report.beyond_limit.filter(|rest| *rest > 0) {
            output::note(&canary(report.count_changed(), rest, report.dry_run));
        }
        reasons(report).iter().try_for_each(|line| output::line(line))?;
    }
    output::line(&summary(report))
}

/// How much of everything a limited change was, and how to go on.
fn canary(changed: u64, rest: u64, dry_run: bool) -> String {
    let (of_all, would) = (count::grouped(changed + rest), if dry_run { "would be changed" } else { "changed" });
    format!("{} of {of_all} {would}; the rest: {}", count::grouped(changed), command_line_without("--limit"))
}

/// How many were left as they were, by the reason, each with what helps.
fn reasons(report: &Report) -> Vec<String> {
    let line = |(reason, count): (Reason, u64)| match help(reason, report.operation) {
        Some(help) => format!("{count} {reason}: {help}"),
        None => format!("{count} {reason}"),
    };
    report.count_by_reason().into_iter().map(line).collect()
}

/// What an operator can do about a partition or a run that was left as it was.
fn help(reason: Reason, operation: &str) -> Option<&'static str> {
    match reason {
        Reason::Terminal => Some("--clear-terminal takes the mark off and grants one attempt, --grant N grants more"),
        Reason::NoRawPartition => {
            Some("no attempt has left anything in the raw sink; --allow-missing-raw retries all the same")
        }
        Reason::Paused => Some("`redrive state resume` lets them go on"),
        Reason::BelowThreshold => Some("they have attempts left; `redrive state pause` withholds them"),
        Reason::InFlight => Some("a worker is at them; try again when it has ended"),
        Reason::ChangedSincePlan => Some("they have changed since they were counted; look again"),
        Reason::Exists => Some("--force-pending wants them again"),
        Reason::AlreadyPending if operation == "retry" => {
            Some("they wait for a worker already; --stale puts those back that no worker has")
        }
        Reason::NotFailed if operation == "retry" => Some("`redrive state reprocess` asks for a new run of successes"),
        Reason::NotSuccess if operation == "reprocess" => Some("`redrive state retry` requeues what failed"),
        Reason::NotQueued if operation == "withdraw" => Some("nobody has asked for them again"),
        Reason::AlreadyPending
        | Reason::NotFailed
        | Reason::NotSuccess
        | Reason::NotTerminal
        | Reason::NotPaused
        | Reason::NotQueued
        | Reason::NotDue
        | Reason::AlreadyCompleted
        | Reason::StaleFence
        | Reason::LeaseExpired => None,
    }
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
    // Scripts get everything; a person gets all that was changed, and of the rest enough to see what it is.
    let shown = |all: bool| match global.output {
        Format::Table if !all => LISTED,
        Format::Table | Format::Json | Format::Jsonl | Format::Csv => usize::MAX,
    };
    let (changes, rest) = (shown(!dry_run), shown(false));
    report.changed().take(changes).try_for_each(|changed| listing.add(&entry(Listed::Changed(changed), "changed")))?;
    report.skipped().take(rest).try_for_each(|skipped| listing.add(&entry(Listed::Skipped(skipped), "skipped")))?;
    report.failed.iter().try_for_each(|failed| listing.add(&entry(Listed::Failed(failed.clone()), "failed")))?;
    listing.end()?;
    let of = |count: u64, shown: usize| count.saturating_sub(count::of(shown));
    let left_out = of(report.count_changed(), changes) + of(report.count_skipped(), rest);
    if left_out > 0 {
        output::note(&format!("{left_out} more are not listed; -o jsonl lists all"));
    }
    Ok(())
}

/// How many lines of a preview, and of what was left as it was, a table shows.
const LISTED: usize = 50;

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
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        let line = |subject: &SubjectShape, what: &str, how: String| {
            let subject = cells(subject).into_iter().map(Cell::new);
            vec![subject.chain([Cell::state(what), Cell::new(how)]).collect()]
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
        // Among partitions, whose key has four columns.
        SubjectShape::Hold { hold_id } => vec![hold_id.to_string(), String::new(), String::new(), String::new()],
    }
}
