//! How everything stands, from bounded queries: a count that reaches 10,000 may be more, or less than that where many sources are
//! configured.

use std::collections::BTreeMap;

use redrive_control::status::{Gauges, SourceGauge};
use redrive_metrics::{Kind, Page, number};
use redrive_store::RunCounts;

use crate::app::App;
use crate::error::Result;

/// What holds of a source that is not shown by itself are shown under.
const OTHER: &str = "other";

pub(super) async fn read(app: &App) -> Result<String> {
    let gauges = app.insight().gauges().await?;
    let mut page = Page::default();
    gauges.sources.iter().for_each(|source| partitions(&mut page, source));
    gauges.runs.iter().for_each(|counts| runs(&mut page, counts));
    holds(&mut page, &gauges);
    processes(&mut page, &gauges);
    queues(&mut page, &gauges);
    page.family("redrive_outbox_depth", Kind::Gauge, "Notifications that receivers have not got yet.")
        .add(&[], number(gauges.outbox));
    Ok(page.into_text())
}

fn partitions(page: &mut Page, gauge: &SourceGauge) {
    let SourceGauge { source, counts, missing, freshness, freshness_limit } = gauge;
    let source = source.as_str();
    let mut family = page.family("redrive_partitions", Kind::Gauge, "Partitions, by how they stand.");
    for (status, count) in [("success", counts.success), ("pending", counts.pending), ("failed", counts.failed)] {
        family.add(&[("source", source), ("status", status)], number(count));
    }
    let help = "Failures that are not tried again: marked by a person, out of attempts, or final.";
    let mut family = page.family("redrive_terminal", Kind::Gauge, help);
    for (by, count) in [("person", counts.marked), ("policy", counts.exhausted), ("final", counts.final_errors)] {
        family.add(&[("source", source), ("by", by)], number(count));
    }
    if let Some(missing) = missing {
        let help = "Days that a calendar expects and that are not there.";
        page.family("redrive_missing_partitions", Kind::Gauge, help).add(&[("source", source)], number(*missing));
    }
    if let Some(freshness) = freshness {
        let help = "How long ago the newest day that succeeded was over, in UTC.";
        page.family("redrive_freshness_seconds", Kind::Gauge, help).add(&[("source", source)], freshness.as_secs_f64());
    }
    if let Some(limit) = freshness_limit {
        let help = "How long ago the newest day may have been over, by the calendar, before the next one is ready.";
        page.family("redrive_freshness_limit_seconds", Kind::Gauge, help)
            .add(&[("source", source)], limit.as_secs_f64());
    }
}

fn runs(page: &mut Page, counts: &RunCounts) {
    let RunCounts { workload, storing, queued, running, waiting, done, dead } = *counts;
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
        family.add(&[("workload", workload.as_str()), ("state", state)], number(count));
    }
}

fn holds(page: &mut Page, gauges: &Gauges) {
    let is_shown = |name: &str| gauges.sources.iter().any(|gauge| gauge.source.as_str() == name);
    let mut all: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for ((source, kind), count) in &gauges.holds {
        let source = Some(source.as_str()).filter(|name| is_shown(name)).unwrap_or(OTHER);
        *all.entry((source, kind.as_str())).or_default() += count;
    }
    let mut family = page.family("redrive_holds", Kind::Gauge, "Holds in force.");
    for ((source, kind), count) in all {
        family.add(&[("source", source), ("kind", kind)], number(count));
    }
}

fn processes(page: &mut Page, gauges: &Gauges) {
    let help = "Workers, daemons and servers. An outside worker that asks for no work is `not_claiming`.";
    let mut family = page.family("redrive_processes", Kind::Gauge, help);
    for ((kind, state), count) in &gauges.processes {
        family.add(&[("kind", kind.as_str()), ("state", state.as_str())], number(*count));
    }
}

fn queues(page: &mut Page, gauges: &Gauges) {
    let (depth, oldest) = ("redrive_queue_depth", "redrive_queue_oldest_seconds");
    let (depth_help, oldest_help) = ("What waits for a worker.", "How long the oldest of it has been waiting.");
    let lanes = gauges.lanes.iter().map(|one| ("lane", one.queue.as_str(), one.depth, one.oldest));
    let categories = gauges.categories.iter().map(|one| ("category", one.queue.as_str(), one.depth, one.oldest));
    for (label, name, count, since) in lanes.chain(categories) {
        page.family(depth, Kind::Gauge, depth_help).add(&[(label, name)], number(count));
        let age = since.map_or(0.0, |since| gauges.now.since(since).as_secs_f64());
        page.family(oldest, Kind::Gauge, oldest_help).add(&[(label, name)], age);
    }
}
