//! Leases: prolonged by a heartbeat, and what happens when nobody does.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Status};
use redrive_core::refusal::{Reason, Refused};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, State, Verdict, Workload};
use redrive_store::{HeartbeatAnswer, NewRun, Recorded, RunClaim};

use crate::steps::{accepted, changed, job_claim, keys, upload};
use crate::support::{LEASE, TestStore, key};

const SECOND: Duration = Duration::from_secs(1);

async fn expire(subject: &TestStore, limit: u32) -> Vec<redrive_core::run::Run> {
    let mut ended = Vec::new();
    for &workload in Workload::ALL {
        let policy = move |_: &_| match workload {
            Workload::Extract => RetryPolicy::partitions(),
            Workload::Ingest => RetryPolicy::ingest(),
            Workload::Process => RetryPolicy::process(),
        };
        ended.extend(subject.store.data().expire(workload, limit, policy).await.unwrap());
    }
    ended
}

/// A silent worker counts as a retryable failure.
async fn a_silent_worker_counts_as_a_retryable_failure_of_its_run(subject: TestStore) {
    let job = NewRun::job("a", None, subject.now());
    subject.store.control().submit(vec![job, upload(subject.now())]).await.unwrap();
    let mut claimed = subject.claim_jobs(1).await;
    let ingest = RunClaim { workload: Workload::Ingest, ..job_claim(1) };
    claimed.push(subject.store.data().claim_runs(ingest).await.unwrap().remove(0).run);
    subject.clock.advance(LEASE - Duration::from_micros(1));
    assert!(expire(&subject, 9).await.is_empty());
    subject.clock.advance(Duration::from_micros(1));
    let ended = expire(&subject, 9).await;
    assert_eq!(ended.len(), 2);
    for before in claimed {
        let after = subject.run(before.run_id).await;
        assert!(ended.contains(&after));
        assert_eq!((after.state, after.retry_count, after.lease_until), (State::Waiting, 1, None));
        assert_eq!(after.next_retry_at, Some(subject.now().saturating_add(60 * SECOND)));
        let failures = subject.store.view().run_failures(before.run_id).await.unwrap();
        assert_eq!((failures.len(), failures[0].record.message.as_str()), (1, "lease expired"));
        let held = vec![(before.run_id, before.task_id.unwrap())];
        assert_eq!(subject.store.data().beat(held, LEASE).await.unwrap().answers, [HeartbeatAnswer::Lost]);
        let late = End::Completed { verdict: Verdict::Passed, metrics: None };
        assert_eq!(subject.report(&before, late).await, Recorded::Refused(Refused::Rule(Reason::LeaseExpired)));
        assert_eq!(subject.run(before.run_id).await, after);
    }
    assert!(expire(&subject, 9).await.is_empty());
}

/// RP-3.1, RP-2.2
async fn a_silent_worker_fails_its_partition_and_burns_an_attempt(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![key.clone()]).await;
    let claimed = subject.claim(1).await.remove(0);
    subject.clock.advance(LEASE);
    let ended = expire(&subject, 9).await;
    assert_eq!((ended[0].state, ended[0].verdict), (State::Dead, Some(Verdict::Failed)));
    assert_eq!(subject.store.view().attempts(&key).await.unwrap(), ended);
    let failed = subject.read(&key).await;
    assert_eq!((failed.state.status, failed.state.attempt_count), (Status::Failed, 1));
    assert_eq!(failed.state.error_class, Some(ErrorClass::Retryable));
    assert_eq!(failed.state.error_message.as_deref(), Some("lease expired"));
    assert!(failed.control.is_empty());
    let late = Recorded::Refused(Refused::Rule(Reason::StaleFence));
    assert_eq!(subject.judge(&claimed.run, accepted(1)).await, late);
    assert_eq!(subject.read(&key).await, failed);
}

/// RP-2.6
async fn a_silent_reprocessing_leaves_the_success_whole(subject: TestStore) {
    let key = key("ads", "a", "daily", "2026-01-01");
    let done = subject.judged(vec![key.clone()], accepted(5)).await.remove(0);
    assert!(changed(&subject.ask(&key, ControlEvent::Reprocess).await));
    subject.claim(1).await;
    subject.clock.advance(LEASE);
    assert_eq!(expire(&subject, 9).await.len(), 1);
    let still = subject.read(&key).await;
    assert_eq!((still.state.status, still.state.current_run_id), (Status::Success, done.state.current_run_id));
    assert_eq!(still.state.attempt_count, 2);
    assert!(still.control.reprocess_rejected(), "the request stands");
}

/// IN-5
async fn a_heartbeat_keeps_the_lease(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a"], 1)).await;
    subject.submit(&["a"]).await;
    let runs = [subject.claim(1).await.remove(0).run, subject.claim_jobs(1).await.remove(0)];
    for _ in 0..5 {
        subject.clock.advance(LEASE - SECOND);
        let held: Vec<_> = runs.iter().map(|run| (run.run_id, run.task_id.unwrap())).collect();
        assert_eq!(subject.store.data().beat(held, LEASE).await.unwrap().answers, [HeartbeatAnswer::Held; 2]);
        assert!(expire(&subject, 9).await.is_empty());
    }
    for run in runs {
        let now = subject.run(run.run_id).await;
        assert_eq!(now.last_heartbeat, Some(subject.now()));
        assert_eq!(now.lease_until, Some(subject.now().saturating_add(LEASE)));
        assert_eq!((now.started_at, now.task_id), (run.started_at, run.task_id));
    }
}

/// CP-6.3: several keepers at once end each run once.
async fn concurrent_keepers_end_each_run_once(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b"], 20)).await;
    subject.submit(&["a"; 40]).await;
    assert_eq!((subject.claim(40).await.len(), subject.claim_jobs(40).await.len()), (40, 40));
    subject.clock.advance(LEASE);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let store = subject.again().await;
        tasks.push(tokio::spawn(async move {
            let mut ended = Vec::new();
            for workload in [Workload::Extract, Workload::Process] {
                loop {
                    let some = store.data().expire(workload, 15, |_| RetryPolicy::process()).await.unwrap();
                    if some.is_empty() {
                        break;
                    }
                    assert!(some.len() <= 15);
                    ended.extend(some.into_iter().map(|run| run.run_id));
                }
            }
            ended
        }));
    }
    let mut ended = Vec::new();
    for task in tasks {
        ended.extend(task.await.unwrap());
    }
    // A keeper that finds everything locked by others stops early; the next look finds what is left.
    ended.extend(expire(&subject, 99).await.into_iter().map(|run| run.run_id));
    assert_eq!(ended.len(), 80);
    ended.sort();
    ended.dedup();
    assert_eq!(ended.len(), 80);
    for key in keys("ads", &["a", "b"], 20) {
        assert_eq!(subject.read(&key).await.state.attempt_count, 1);
    }
}

crate::on_both_databases!(
    a_silent_worker_counts_as_a_retryable_failure_of_its_run,
    a_silent_worker_fails_its_partition_and_burns_an_attempt,
    a_silent_reprocessing_leaves_the_success_whole,
    a_heartbeat_keeps_the_lease,
    concurrent_keepers_end_each_run_once,
);
