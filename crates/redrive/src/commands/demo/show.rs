//! What a demo shows while it runs, and in the end.

use std::path::Path;
use std::time::Duration;

use redrive_control::shape::UploadRunShape;
use redrive_core::text::one_line;
use redrive_data::worker::WorkerCounts;

use super::Outcome;
use super::census::Census;
use super::jobs::JobCensus;
use crate::cli::Format;
use crate::commands::Context;
use crate::commands::doctor::Finding;
use crate::error::Result;
use crate::output;
use crate::output::progress::{Progress, Style};

/// Says what the demo is about, and begins to show how far it has come.
pub fn begin(context: &Context) -> Progress {
    if !context.global.quiet {
        output::note("3 customers × 2 queries × 60 days from a slow, unreliable source, and 300 jobs of 3 categories");
    }
    Progress::start(Style::Bar, context.global.quiet)
}

pub fn advance(progress: &Progress, census: &Census, jobs: &JobCensus, counts: &WorkerCounts) {
    progress.of(census.partitions + jobs.jobs);
    progress.to(census.success + census.stopped() + jobs.jobs - jobs.unfinished);
    let Census { running, waiting, .. } = census;
    let (rejected, limited) = (counts.rejected, counts.rate_limited);
    let (stopped, unfinished) = (census.stopped() + jobs.stopped(), jobs.unfinished);
    progress.message(format!(
        "{running} running, {waiting} waiting, {unfinished} jobs to do, {stopped} stopped; \
         {rejected} failures, {limited} rate limits"
    ));
}

pub fn summary(
    outcome: &Outcome,
    took: Duration,
    findings: &[Finding],
    directory: &Path,
    context: &Context,
) -> Result<()> {
    match context.global.output {
        Format::Json | Format::Jsonl => output::json(&serde_json::json!({
            "partitions": outcome.partitions,
            "jobs": outcome.jobs,
            "uploads": outcome.uploads.iter().map(UploadRunShape::from).collect::<Vec<_>>(),
            "worker": outcome.counts,
            "seconds": took.as_secs_f64(),
            "checks": findings,
        })),
        Format::Table | Format::Csv => in_words(outcome, took, findings, directory),
    }
}

fn row(name: &str, number: u64, more: &str) -> Result<()> {
    output::line(&format!("  {name:<12}{number:>7}  {more}"))
}

fn in_words(outcome: &Outcome, took: Duration, findings: &[Finding], directory: &Path) -> Result<()> {
    let Outcome { partitions: census, jobs, uploads, counts } = outcome;
    let Census { partitions, success, retried, attempts, records, .. } = census;
    output::line(&format!("{partitions} partitions and {} jobs in {:.1} s", jobs.jobs, took.as_secs_f64()))?;
    row("successes", *success, &format!("{records} records; {retried} needed more than one attempt"))?;
    row("retries", attempts.saturating_sub(*partitions), &format!("{attempts} attempts at partitions"))?;
    job_rows(jobs)?;
    let held_back = "a partition's held back its customer, a job's only the job, for as long as the answer said";
    row("rate limits", counts.rate_limited, held_back)?;
    row("stopped", census.stopped() + jobs.stopped(), "not tried again by itself:")?;
    for (why, number) in census.stopped.iter().chain(&jobs.stopped) {
        row("", *number, &one_line(why))?;
    }
    for upload in uploads.iter().map(UploadRunShape::from) {
        let what = upload.error_message.as_deref().map_or_else(String::new, |why| format!(": {}", one_line(why)));
        output::line(&format!("  {:<12}{:>7}  {} is {}{what}", "upload", "", upload.file, upload.status))?;
    }
    let wrong: Vec<&Finding> = findings.iter().filter(|finding| !finding.ok).collect();
    if wrong.is_empty() {
        output::line("  doctor       all is well: every invariant holds")?;
    }
    for finding in wrong {
        output::line(&format!("  doctor       fail: {}: {}", finding.check, finding.says))?;
    }
    output::line(&format!(
        "\nLook around: cd {} and `redrive state inspect --status failed` or `redrive ingest search --word failed_orders`",
        directory.display()
    ))
}

fn job_rows(jobs: &JobCensus) -> Result<()> {
    let verdicts = jobs.verdicts.iter().map(|(verdict, number)| format!("{number} {verdict}"));
    let verdicts = verdicts.collect::<Vec<_>>().join(", ");
    let JobCensus { jobs: all, attempts, retried, .. } = jobs;
    let more = format!("{verdicts}; {attempts} attempts, {retried} jobs needed more than one");
    row("jobs", all - jobs.stopped(), &more)
}
