//! What a demo shows while it runs, and in the end.

use std::path::Path;
use std::time::Duration;

use redrive_core::text::one_line;
use redrive_data::worker::WorkerCounts;

use super::census::Census;
use crate::cli::Format;
use crate::commands::Context;
use crate::commands::doctor::Finding;
use crate::error::Result;
use crate::output;
use crate::output::progress::{Progress, Style};

/// Says what the demo is about, and begins to show how far it has come.
pub fn begin(context: &Context) -> Progress {
    if !context.global.quiet {
        output::note("3 customers × 2 queries × 60 days from a slow, unreliable source");
    }
    Progress::start(Style::Bar, context.global.quiet)
}

pub fn advance(progress: &Progress, census: &Census, counts: &WorkerCounts) {
    progress.of(census.partitions);
    progress.to(census.success + census.stopped());
    let Census { running, waiting, .. } = census;
    let (rejected, limited) = (counts.rejected, counts.rate_limited);
    progress.message(format!(
        "{running} running, {waiting} waiting, {} stopped; {rejected} failures, {limited} rate limits",
        census.stopped()
    ));
}

pub fn summary(
    census: &Census,
    counts: &WorkerCounts,
    took: Duration,
    findings: &[Finding],
    directory: &Path,
    context: &Context,
) -> Result<()> {
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(&serde_json::json!({
            "partitions": census,
            "worker": counts,
            "seconds": took.as_secs_f64(),
            "checks": findings,
        })),
        Format::Table | Format::Csv => in_words(census, counts, took, findings, directory),
    }
}

fn in_words(
    census: &Census,
    counts: &WorkerCounts,
    took: Duration,
    findings: &[Finding],
    directory: &Path,
) -> Result<()> {
    let Census { partitions, success, retried, attempts, records, .. } = census;
    let row = |name: &str, number: u64, more: String| output::line(&format!("  {name:<12}{number:>7}  {more}"));
    output::line(&format!("{partitions} partitions in {:.1} s", took.as_secs_f64()))?;
    row("successes", *success, format!("{records} records; {retried} needed more than one attempt"))?;
    row("retries", attempts.saturating_sub(*partitions), format!("{attempts} attempts, {} rejected", counts.rejected))?;
    row(
        "rate limits",
        counts.rate_limited,
        "each held back its customer until the time the source had named".to_owned(),
    )?;
    row("stopped", census.stopped(), "not tried again by itself:".to_owned())?;
    for (why, number) in &census.stopped {
        output::line(&format!("  {:<12}{number:>7}  {}", "", one_line(why)))?;
    }
    let wrong: Vec<&Finding> = findings.iter().filter(|finding| !finding.ok).collect();
    if wrong.is_empty() {
        output::line("  doctor       all is well: every invariant holds")?;
    }
    for finding in wrong {
        output::line(&format!("  doctor       WRONG: {}: {}", finding.check, finding.says))?;
    }
    output::line(&format!("\nLook around: cd {} and `redrive state inspect --status failed`", directory.display()))
}
