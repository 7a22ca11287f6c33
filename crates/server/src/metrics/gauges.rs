//! How everything stands, from bounded queries: a count that reaches 10,000 may be more.

use std::collections::BTreeMap;

use redrive_control::shape::{Bounded, RunCountsShape, SourceShape, StatusShape};
use redrive_core::key::LogicalDate;
use redrive_core::time::Timestamp;

use super::text::{Kind, Page, number};
use crate::app::App;
use crate::error::Result;

pub(super) async fn read(app: &App) -> Result<String> {
    let rules = app.rules();
    let insight = rules.plane.insight();
    let status = insight.status(None, &rules.config).await?;
    let mut page = Page::default();
    for source in &status.sources {
        partitions(&mut page, source, status.now);
    }
    for counts in &status.runs {
        runs(&mut page, counts);
    }
    holds(&mut page, &status);
    processes(&mut page, &status);
    let (depth, oldest) = ("redrive_queue_depth", "redrive_queue_oldest_seconds");
    let (depth_help, oldest_help) = ("What waits for a worker.", "How long the oldest of it has been waiting.");
    let lanes = insight.view().lane_queues().await?;
    let lanes = lanes.iter().map(|one| ("lane", one.queue.as_str(), one.depth, one.oldest));
    let categories = insight.view().category_queues().await?;
    let categories = categories.iter().map(|one| ("category", one.queue.as_str(), one.depth, one.oldest));
    for (label, name, count, since) in lanes.chain(categories) {
        page.family(depth, Kind::Gauge, depth_help).add(&[(label, name)], number(count));
        let age = since.map_or(0.0, |since| status.now.since(since).as_secs_f64());
        page.family(oldest, Kind::Gauge, oldest_help).add(&[(label, name)], age);
    }
    let outbox = insight.view().outbox_depth().await?;
    page.family("redrive_outbox_depth", Kind::Gauge, "Notifications that receivers have not got yet.")
        .add(&[], number(outbox.open));
    Ok(page.into_text())
}

fn partitions(page: &mut Page, shape: &SourceShape, now: Timestamp) {
    let source = shape.source.as_str();
    let pending = shape.pending;
    let failed = shape.failed;
    let mut family = page.family("redrive_partitions", Kind::Gauge, "Partitions, by how they stand.");
    let all = [
        ("success", shape.success),
        ("pending", pending.queued + pending.running + pending.cooling_down + pending.held + pending.paused),
        (
            "failed",
            failed.waiting + failed.due + failed.final_errors + failed.exhausted + failed.marked + failed.paused,
        ),
    ];
    for (status, count) in all {
        family.add(&[("source", source), ("status", status)], counted(count));
    }
    let help = "Failures that are not tried again: marked by a person, out of attempts, or final.";
    let mut family = page.family("redrive_terminal", Kind::Gauge, help);
    for (by, count) in [("person", failed.marked), ("policy", failed.exhausted), ("final", failed.final_errors)] {
        family.add(&[("source", source), ("by", by)], counted(count));
    }
    if let Some(missing) = shape.missing {
        page.family("redrive_missing_partitions", Kind::Gauge, "Days that a calendar expects and that are not there.")
            .add(&[("source", source)], counted(missing));
    }
    if let Some(end) = shape.newest_success.and_then(end_of) {
        page.family(
            "redrive_freshness_seconds",
            Kind::Gauge,
            "How long ago the newest day that succeeded was over, in UTC.",
        )
        .add(&[("source", source)], now.since(end).as_secs_f64());
    }
}

/// When a day was over.
fn end_of(day: LogicalDate) -> Option<Timestamp> {
    let begin: Timestamp = serde_json::from_value(format!("{day}T00:00:00Z").into()).ok()?;
    Some(begin.saturating_add(std::time::Duration::from_secs(86_400)))
}

fn runs(page: &mut Page, counts: &RunCountsShape) {
    let RunCountsShape { workload, storing, queued, running, waiting, done, dead } = *counts;
    let mut family = page.family("redrive_runs", Kind::Gauge, "Runs, by how they stand.");
    let all = [
        ("storing", storing),
        ("queued", queued),
        ("running", running),
        ("waiting", waiting),
        ("done", done),
        ("dead", dead),
    ];
    for (state, count) in all {
        family.add(&[("workload", workload.as_str()), ("state", state)], counted(count));
    }
}

fn holds(page: &mut Page, status: &StatusShape) {
    let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
    for hold in &status.holds {
        *all.entry((hold.source.to_string(), hold.kind.to_string())).or_default() += 1;
    }
    let mut family = page.family("redrive_holds", Kind::Gauge, "Holds in force.");
    for ((source, kind), count) in &all {
        family.add(&[("source", source), ("kind", kind)], number(*count));
    }
}

fn processes(page: &mut Page, status: &StatusShape) {
    let mut all: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for process in &status.processes {
        let state = if process.alive { "alive" } else { "silent" };
        *all.entry((process.kind.to_string(), state)).or_default() += 1;
    }
    let mut family = page.family("redrive_processes", Kind::Gauge, "Workers, daemons and servers.");
    for ((kind, state), count) in &all {
        family.add(&[("kind", kind), ("state", state)], number(*count));
    }
}

fn counted(count: Bounded) -> f64 {
    number(count.number())
}
