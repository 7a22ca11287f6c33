//! What a process counts: what was committed, each once, whoever asked for it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Change, End, ReportKind, State, Verdict, Workload};
use redrive_metrics::Page;
use redrive_store::{JudgedAttempt, OutsideClaim, OutsideReport, ReportOutcome, RunClaim};

use crate::steps::{accepted, fault, fault_under, keys, recorded, rejected};
use crate::support::{LEASE, TestStore};

const DONE: End = End::Completed { verdict: Verdict::Passed, metrics: None };

/// The numbers that the process shows, by their series; those that are 0 are left out.
fn shown(subject: &TestStore) -> BTreeMap<String, f64> {
    let mut page = Page::default();
    subject.store.metrics().write(&mut page);
    let text = page.into_text();
    let series = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let numbers = series.map(|(series, value)| (series.to_owned(), value.parse::<f64>().unwrap()));
    numbers.filter(|(_, value)| *value != 0.0).collect()
}

fn number(subject: &TestStore, series: &str) -> f64 {
    shown(subject).get(series).copied().unwrap_or(0.0)
}

/// How many attempts ended so.
fn attempts(subject: &TestStore, workload: &str, source: &str, outcome: &str, class: &str) -> f64 {
    let labels = format!("workload=\"{workload}\",source=\"{source}\",outcome=\"{outcome}\",class=\"{class}\"");
    number(subject, &format!("redrive_attempts_total{{{labels}}}"))
}

/// All attempts that ended.
fn all_attempts(subject: &TestStore) -> f64 {
    let shown = shown(subject);
    shown.iter().filter(|(series, _)| series.starts_with("redrive_attempts_total")).map(|(_, value)| value).sum()
}

fn judged(claimed: redrive_store::ClaimedPartition, judgement: redrive_core::partition::Judgement) -> JudgedAttempt {
    JudgedAttempt { claimed, judgement, metrics: "{}".to_owned(), trace: None, breaker: BreakerPolicy::OFF }
}

async fn attempts_of_partitions_are_counted(subject: TestStore) {
    subject.want(Lane::Backfill, keys("ads", &["a"], 4)).await;
    subject.clock.advance(Duration::from_secs(60));
    let claimed = subject.claim(4).await;
    assert_eq!(number(&subject, "redrive_wait_duration_seconds_sum{lane=\"backfill\"}"), 240.0);
    assert_eq!(number(&subject, "redrive_wait_duration_seconds_count{lane=\"fresh\"}"), 0.0);
    subject.clock.advance(Duration::from_secs(3));
    let [accept, reject, release, limit] = &claimed[..] else { panic!("{claimed:?}") };
    let verdicts = [
        judged(accept.clone(), accepted(1)),
        judged(reject.clone(), rejected(ErrorClass::Retryable, "boom")),
        // Another worker's word on the first: refused, and so judged anew by itself.
        judged(accept.clone(), accepted(2)),
    ];
    subject.store.verdicts().judge_many(&verdicts).await.unwrap();
    recorded(subject.store.data().release(&release.run, None).await.unwrap());
    let until = subject.now().saturating_add(Duration::from_secs(60));
    recorded(subject.store.data().rate_limited(&limit.run, "slow down", until).await.unwrap());
    for (outcome, class) in [("success", ""), ("failed", "retryable"), ("released", ""), ("rate_limited", "")] {
        assert_eq!(attempts(&subject, "extract", "ads", outcome, class), 1.0, "{outcome}: {:#?}", shown(&subject));
    }
    assert_eq!(all_attempts(&subject), 4.0);
    let took = "redrive_attempt_duration_seconds_sum{workload=\"extract\"}";
    assert_eq!(number(&subject, took), 9.0, "what was released untried took no time");
    subject.read(&accept.partition.state.key).await;
    for op in ["claim", "record", "read", "write"] {
        assert!(number(&subject, &format!("redrive_store_duration_seconds_count{{op=\"{op}\"}}")) >= 1.0, "{op}");
    }
}

async fn attempts_of_jobs_are_counted(subject: TestStore) {
    subject.submit(&["a"; 4]).await;
    subject.clock.advance(Duration::from_secs(10));
    let claimed = subject.claim_jobs(4).await;
    assert_eq!(number(&subject, "redrive_wait_duration_seconds_sum{lane=\"process\"}"), 10.0 + 9.0 + 8.0 + 7.0);
    let once = RetryPolicy { max_attempts: Some(1), ..RetryPolicy::process() };
    let ends = [
        DONE,
        End::Completed { verdict: Verdict::Failed, metrics: None },
        fault(ErrorClass::Retryable, None),
        fault_under(once.clone(), ErrorClass::Retryable, None),
    ];
    for (run, end) in claimed.iter().zip(ends.clone()) {
        recorded(subject.report(run, end).await);
    }
    let before = shown(&subject);
    for (run, end) in claimed.iter().zip(ends) {
        // What was told already, or comes from a claim that is over, is counted no more.
        let _ = subject.report(run, end).await;
    }
    let exhausted = "redrive_retries_exhausted_total{workload=\"process\"}";
    assert_eq!(number(&subject, exhausted), 1.0);
    assert_eq!(attempts(&subject, "process", "a", "success", ""), 1.0);
    assert_eq!(attempts(&subject, "process", "a", "failed", ""), 1.0, "a verdict is no error");
    assert_eq!(attempts(&subject, "process", "a", "failed", "retryable"), 2.0);
    assert_eq!(number(&subject, "redrive_retry_delay_seconds_count{workload=\"process\"}"), 1.0);
    let work = |all: &BTreeMap<String, f64>| -> BTreeMap<String, f64> {
        all.iter().filter(|(series, _)| !series.contains("_store_")).map(|(s, v)| (s.clone(), *v)).collect()
    };
    assert_eq!(work(&shown(&subject)), work(&before));
    // A retry's wait is not known; it is left out.
    subject.clock.advance(Duration::from_secs(3600));
    let again = subject.claim_jobs(9).await;
    assert_eq!(again.len(), 1);
    assert_eq!(number(&subject, "redrive_wait_duration_seconds_count{lane=\"process\"}"), 4.0);
    recorded(subject.report(&again[0], fault_under(once, ErrorClass::Final, None)).await);
    assert_eq!(number(&subject, exhausted), 1.0, "a final error has not run out of attempts");
}

async fn a_lease_that_ran_out_is_counted_once(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a"], 2)).await;
    subject.submit(&["a"]).await;
    let (partitions, jobs) = (subject.claim(2).await, subject.claim_jobs(1).await);
    assert_eq!((partitions.len(), jobs.len()), (2, 1));
    subject.clock.advance(LEASE + Duration::from_secs(1));
    let data = subject.store.data();
    for workload in [Workload::Extract, Workload::Process, Workload::Extract, Workload::Process] {
        let once = RetryPolicy { max_attempts: Some(1), ..RetryPolicy::partitions() };
        let policy = if workload == Workload::Extract { once } else { RetryPolicy::process() };
        data.expire(workload, 9, move |_| policy.clone()).await.unwrap();
    }
    assert_eq!(number(&subject, "redrive_lease_lost_total{workload=\"extract\"}"), 2.0);
    assert_eq!(number(&subject, "redrive_lease_lost_total{workload=\"process\"}"), 1.0);
    assert_eq!(attempts(&subject, "extract", "ads", "abandoned", "retryable"), 2.0);
    assert_eq!(attempts(&subject, "process", "a", "abandoned", "retryable"), 1.0);
    assert_eq!(number(&subject, "redrive_retries_exhausted_total{workload=\"extract\"}"), 2.0);
    assert_eq!(number(&subject, "redrive_retries_exhausted_total{workload=\"process\"}"), 0.0);
    assert_eq!(number(&subject, "redrive_retry_delay_seconds_count{workload=\"process\"}"), 1.0);
    assert_eq!(all_attempts(&subject), 3.0);
}

async fn what_outside_workers_do_is_counted(subject: TestStore) {
    subject.submit(&["a", "a"]).await;
    subject.clock.advance(Duration::from_secs(5));
    let window = Duration::from_secs(15);
    let claim = |claim_id: &str| {
        let share =
            RunClaim { categories: Some(vec!["a".to_owned()]), ..RunClaim::new(Workload::Process, "py", 0, window) };
        OutsideClaim { worker: "py".to_owned(), claim_id: claim_id.to_owned(), shares: vec![share], limit: 1, window }
    };
    let data = subject.store.data();
    let given = data.deliver_runs(claim("c1")).await.unwrap();
    assert_eq!(data.deliver_runs(claim("c1")).await.unwrap().len(), 1);
    assert_eq!(
        number(&subject, "redrive_wait_duration_seconds_count{lane=\"process\"}"),
        1.0,
        "given twice, taken once"
    );
    let run = &given[0].run;
    let report = OutsideReport {
        run_id: run.run_id,
        task_id: run.task_id.unwrap(),
        kind: ReportKind::Complete,
        said: "{}".to_owned(),
    };
    for _ in 0..2 {
        let answer = |change: &Change| change.after.state.to_string();
        let told = data.report(report.clone(), |_| true, |_| DONE, answer).await.unwrap();
        assert!(matches!(told, ReportOutcome::Answer { .. }), "{told:?}");
    }
    assert_eq!(attempts(&subject, "process", "a", "success", ""), 1.0, "the same report is one attempt");
    assert_eq!(data.deliver_runs(claim("c2")).await.unwrap().len(), 1);
    subject.clock.advance(window);
    for _ in 0..2 {
        data.expire(Workload::Process, 9, |_| RetryPolicy::process()).await.unwrap();
    }
    assert_eq!(number(&subject, "redrive_delivery_lost_total"), 1.0);
    assert_eq!(all_attempts(&subject), 1.0, "nothing was tried");
    assert_eq!(number(&subject, "redrive_lease_lost_total{workload=\"process\"}"), 0.0);
}

async fn a_cancelled_attempt_is_counted_and_a_cancelled_job_is_not(subject: TestStore) {
    subject.submit(&["a", "a"]).await;
    let claimed = subject.claim_jobs(1).await;
    for run in subject.store.view().runs(redrive_store::RunPage { limit: 9, ..Default::default() }).await.unwrap() {
        subject.cancel(run.run_id).await;
    }
    assert_eq!(attempts(&subject, "process", "a", "cancelled", ""), 1.0);
    let _ = subject.report(&claimed[0], DONE).await;
    assert_eq!(all_attempts(&subject), 1.0);
}

/// A caller that goes away leaves its work to be done; it is counted all the same.
#[tokio::test]
async fn what_a_caller_no_longer_waits_for_is_counted() {
    let subject = TestStore::sqlite().await;
    subject.submit(&["a"]).await;
    let run = subject.claim_jobs(1).await.remove(0);
    let data = subject.store.data();
    {
        let mut call = pin!(data.record(vec![(run.clone(), DONE)]));
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending), "the writer thread does it");
    }
    redrive_fixture::eventually("it is done and counted", async || {
        subject.run(run.run_id).await.state == State::Done && all_attempts(&subject) == 1.0
    })
    .await;
}

crate::on_both_databases!(
    attempts_of_partitions_are_counted,
    attempts_of_jobs_are_counted,
    a_lease_that_ran_out_is_counted_once,
    what_outside_workers_do_is_counted,
    a_cancelled_attempt_is_counted_and_a_cancelled_job_is_not,
);
