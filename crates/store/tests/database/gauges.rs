//! What gauges show is what the overview shows, and each number ends at its bound.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::key::{PartitionKey, Source};
use redrive_core::lane::Lane;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Verdict, Workload};
use redrive_store::statements::{self, For};
use redrive_store::{GaugeQuery, OverviewQuery, RunCounts, SourceCounts, SourceGauges, StoreUrl};

use crate::steps::{accepted, fault, keys, mark, pause, rejected, retry, upload};
use crate::support::{TestStore, key};

const DONE: End = End::Completed { verdict: Verdict::Passed, metrics: None };

fn policy() -> RetryPolicy {
    RetryPolicy { max_attempts: Some(2), max_age: Some(Duration::from_secs(86_400)), ..RetryPolicy::partitions() }
}

fn query(subject: &TestStore, most: u64) -> GaugeQuery {
    let known = BTreeMap::from([("ads".parse().unwrap(), policy()), ("absent".parse().unwrap(), policy())]);
    GaugeQuery { known, others: 2, otherwise: RetryPolicy::partitions(), now: subject.now(), most }
}

async fn gauges(subject: &TestStore, most: u64) -> BTreeMap<Source, SourceGauges> {
    subject.store.view().source_gauges(query(subject, most)).await.unwrap()
}

async fn counts(subject: &TestStore) -> BTreeMap<Source, SourceCounts> {
    let GaugeQuery { known, otherwise, now, .. } = query(subject, 0);
    let asked = OverviewQuery { source: None, policies: known, otherwise, holds: vec![], now };
    subject.store.view().source_counts(asked).await.unwrap()
}

/// What the overview says, in the terms of gauges.
fn as_gauges(counts: &SourceCounts) -> SourceGauges {
    SourceGauges {
        success: counts.success,
        pending: counts.queued + counts.running + counts.cooling_down + counts.held + counts.paused_pending,
        failed: counts.waiting
            + counts.due
            + counts.final_errors
            + counts.exhausted
            + counts.marked
            + counts.paused_failed,
        marked: counts.marked,
        exhausted: counts.exhausted,
        final_errors: counts.final_errors,
        newest_success: counts.newest_success,
    }
}

/// Partitions of a source with every verdict.
async fn every_verdict(subject: &TestStore, source: &str) {
    let days = keys(source, &["a", "b"], 12);
    let judge = |nth: usize| match nth % 4 {
        0 => accepted(1),
        1 => rejected(ErrorClass::Final, "gone"),
        _ => rejected(ErrorClass::Retryable, "boom"),
    };
    subject.want(Lane::Fresh, days.clone()).await;
    let nth = |judged: &PartitionKey| days.iter().position(|day| day == judged).unwrap();
    subject.judge_each(|key| judge(nth(key))).await;
    for day in [2, 3] {
        subject.ask(&days[day], retry(&policy())).await;
    }
    subject.judge_each(|_| rejected(ErrorClass::Retryable, "boom")).await;
}

/// Partitions of a source that wait, run, or are withheld, beside those with verdicts.
async fn every_standing(subject: &TestStore, source: &str) {
    let days = keys(source, &["a", "b"], 12);
    subject.ask(&days[6], mark(1)).await;
    subject.ask(&days[7], pause()).await;
    subject.ask(&days[10], retry(&policy())).await;
    let more = ["2026-01-01", "2026-01-02", "2026-01-03"].map(|day| key(source, "c", "daily", day));
    subject.want(Lane::Backfill, more.to_vec()).await;
    subject.ask(&more[2], pause()).await;
    assert_eq!(subject.claim(1).await.len(), 1);
}

async fn gauges_show_what_the_overview_shows(subject: TestStore) {
    for source in ["ads", "crm"] {
        every_verdict(&subject, source).await;
    }
    for source in ["ads", "crm"] {
        every_standing(&subject, source).await;
    }
    for later in [0, 100_000] {
        subject.clock.advance(Duration::from_secs(later));
        let (gauges, counts) = (gauges(&subject, 1000).await, counts(&subject).await);
        assert_eq!(gauges.len(), 2, "{gauges:?}");
        for (source, counts) in &counts {
            assert_eq!(gauges[source], as_gauges(counts), "{source} after {later} s");
        }
        let SourceGauges { success, pending, failed, marked, exhausted, final_errors, .. } =
            gauges[&"ads".parse().unwrap()];
        let open = [success, pending, failed, marked, exhausted, final_errors];
        assert!(later > 0 || open.iter().all(|count| *count > 0), "{open:?}");
    }
}

async fn gauges_end_at_their_bound(subject: TestStore) {
    for source in ["ads", "b", "c", "d"] {
        let judgement = if source == "ads" { accepted(1) } else { rejected(ErrorClass::Retryable, "boom") };
        subject.judged(keys(source, &["a"], 5), judgement).await;
    }
    let gauges = gauges(&subject, 3).await;
    let sources: Vec<&str> = gauges.keys().map(Source::as_str).collect();
    assert_eq!(sources, ["ads", "b", "c"], "the one that is known, and two others");
    let shown = |source: &str| gauges[&source.parse::<Source>().unwrap()];
    assert_eq!((shown("ads").success, shown("b").failed), (3, 3));
}

async fn runs_are_counted_to_a_bound(subject: TestStore) {
    subject.submit(&["a"; 9]).await;
    subject.clock.advance(Duration::from_secs(10));
    let claimed = subject.claim_jobs(6).await;
    for (nth, run) in claimed.iter().enumerate() {
        let class = if nth == 0 { ErrorClass::Retryable } else { ErrorClass::Final };
        match nth {
            0..=2 => drop(subject.report(run, fault(class, None)).await),
            3 | 4 => drop(subject.report(run, DONE).await),
            _ => {}
        }
    }
    subject.store.control().submit(vec![upload(subject.now())]).await.unwrap();
    let of = |all: &[RunCounts], workload| *all.iter().find(|counts| counts.workload == workload).unwrap();
    let view = subject.store.view();
    let (gauges, counts) = (view.run_gauges(100).await.unwrap(), view.run_counts().await.unwrap());
    assert_eq!(gauges, counts);
    let process = of(&gauges, Workload::Process);
    assert_eq!((process.queued, process.running, process.waiting, process.dead, process.done), (3, 1, 1, 2, 2));
    let bounded = of(&view.run_gauges(1).await.unwrap(), Workload::Process);
    assert_eq!((bounded.queued, bounded.dead, bounded.done), (1, 1, 1));
}

/// The queries of a scrape step down indexes; no table is gone through.
#[tokio::test]
async fn gauges_go_through_no_table() {
    let subject = TestStore::sqlite().await;
    let StoreUrl::Sqlite(path) = &subject.database.url else { panic!("it is a file") };
    let connection = rusqlite::Connection::open(path).unwrap();
    for sql in statements::gauges(For::Sqlite) {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let (mut rows, mut steps) = (plan.raw_query(), Vec::new());
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get::<_, String>(3).unwrap());
        }
        // What was cut to the bound already may be gone through.
        let tables =
            ["partitions", "p", "partition_control", "series", "run_waiting", "run_queue", "run_claims", "run_ends"];
        let is_table = |step: &str| tables.contains(&step.split(' ').next().unwrap_or_default());
        let through = |step: &&String| step.strip_prefix("SCAN ").is_some_and(is_table);
        assert_eq!(steps.iter().find(through), None, "{sql}: {steps:#?}");
        assert!(steps.iter().any(|step| step.starts_with("SEARCH ")), "{sql}: {steps:#?}");
        // A partition that is counted costs a step in an index, and no look at its row.
        let looks = |step: &&String| step.starts_with("SEARCH partitions ") && !step.contains("COVERING");
        assert_eq!(steps.iter().find(looks), None, "{sql}: {steps:#?}");
    }
}

crate::on_both_databases!(gauges_show_what_the_overview_shows, gauges_end_at_their_bound, runs_are_counted_to_a_bound);
