//! The queue of runs on both databases.

use redrive_core::retry::RetryPolicy;
use redrive_core::run::{State, Verdict, Workload};
use redrive_store::{NewRun, Recorded, Report, RunClaim};
use crate::support::{LEASE, Subject};

fn claim(limit: u32) -> RunClaim {
    RunClaim { workload: Workload::Process, categories: None, limit, worker: "w1".to_owned(), lease: LEASE }
}

async fn a_run_is_claimed_and_completed_once(subject: Subject) {
    let (control, data) = (subject.store.control(), subject.store.data());
    let jobs = vec![NewRun::job("any%", Some("{\"x\":1.50}".to_owned()), subject.now())];
    let submitted = control.submit(jobs).await.unwrap();
    let claimed = data.claim_runs(claim(10)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].payload.as_deref(), Some("{\"x\":1.50}"));
    assert!(data.claim_runs(claim(10)).await.unwrap().is_empty());
    let done = Report::Completed { verdict: Verdict::Passed, metrics: None };
    let policy = RetryPolicy::process();
    let first = data.record(vec![(claimed[0].run.clone(), done.clone())], &policy).await.unwrap();
    assert!(matches!(&first[..], [Recorded::As(run)] if run.state == State::Done), "{first:?}");
    let second = data.record(vec![(claimed[0].run.clone(), done)], &policy).await.unwrap();
    assert_eq!(second, [Recorded::Lost]);
    let view = subject.store.view();
    assert_eq!(view.run(submitted[0].run_id).await.unwrap().unwrap().state, State::Done);
    assert_eq!(view.run_metrics(Workload::Process, 5).await.unwrap().by_state, [(State::Done, 1)]);
}

crate::on_both_databases!(a_run_is_claimed_and_completed_once);
