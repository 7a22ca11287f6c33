//! Jobs that are claimed together for the first time share rows of `run_bundles`. Nobody but the store can tell: they are read, beaten,
//! ended, cancelled and counted as if each had a row of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Run, State, Workload};
use redrive_store::{HeartbeatAnswer, InFlightLimit, Recorded, RunClaim, RunPage};

use crate::raw::Raw;
use crate::steps::{fault, job_claim, passed, recorded};
use crate::support::{LEASE, TestStore};

const MINUTE: Duration = Duration::from_secs(60);

/// Submits so many jobs and claims all of them.
async fn claimed(subject: &TestStore, jobs: usize) -> Vec<Run> {
    subject.submit(&vec!["any%"; jobs]).await;
    let claimed = subject.claim_jobs(1000).await;
    assert_eq!(claimed.len(), jobs);
    claimed
}

fn held(runs: &[Run]) -> Vec<(RunId, TaskId)> {
    runs.iter().map(|run| (run.run_id, run.task_id.unwrap())).collect()
}

fn ids(runs: &[Run]) -> BTreeSet<RunId> {
    runs.iter().map(|run| run.run_id).collect()
}

async fn end(subject: &TestStore, runs: &[Run], end: End) -> Vec<Recorded> {
    let ends: Vec<_> = runs.iter().map(|run| (run.clone(), end.clone())).collect();
    subject.store.data().record(ends).await.unwrap()
}

async fn running(subject: &TestStore) -> Vec<Run> {
    let page = RunPage { states: vec![State::Running], limit: 1000, ..RunPage::default() };
    subject.store.view().runs(page).await.unwrap()
}

/// How many rows there are of claims and of bundles.
async fn rows(subject: &TestStore) -> (i64, i64) {
    let counts = Raw::of(subject)
        .await
        .rows("SELECT (SELECT count(*) FROM run_claims), (SELECT count(*) FROM run_bundles)")
        .await;
    let count = |nth: usize| counts[0][nth].as_ref().unwrap().parse().unwrap();
    (count(0), count(1))
}

async fn expire(subject: &TestStore, limit: u32) -> Vec<Run> {
    subject.store.data().expire(Workload::Process, limit, |_: &Run| RetryPolicy::process()).await.unwrap()
}

async fn many_first_claims_share_rows_and_are_read_like_any_other(subject: TestStore) {
    let claimed = claimed(&subject, 100).await;
    assert_eq!(rows(&subject).await, (0, 2));
    for run in &claimed {
        assert_eq!(subject.run(run.run_id).await, *run);
    }
    let mut newest_first = claimed.clone();
    newest_first.reverse();
    assert_eq!(running(&subject).await, newest_first);
    let middle = RunPage { before: Some(claimed[60].run_id), limit: 5, ..RunPage::default() };
    let page = subject.store.view().runs(middle).await.unwrap();
    assert_eq!(page, newest_first[40..45]);
    let counted = subject.store.view().run_metrics(Workload::Process, 1).await.unwrap();
    assert_eq!(counted.by_state, [(State::Running, 100)]);
    let in_flight = subject.store.view().runs_in_flight(Workload::Process, vec!["any%".to_owned()]).await.unwrap();
    assert_eq!(in_flight, 100);
}

async fn few_first_claims_have_rows_of_their_own(subject: TestStore) {
    claimed(&subject, 15).await;
    assert_eq!(rows(&subject).await, (15, 0));
}

async fn jobs_leave_their_bundle_as_they_end_and_the_last_takes_it_along(subject: TestStore) {
    let claimed = claimed(&subject, 70).await;
    let (few, many) = (&claimed[60..67], [&claimed[..60], &claimed[67..]].concat());
    for recorded_as in end(&subject, few, passed()).await {
        assert_eq!(recorded(recorded_as).state, State::Done);
    }
    assert_eq!(ids(&running(&subject).await), ids(&many));
    assert_eq!(rows(&subject).await, (0, 2));
    // The same report again is what was recorded, and another is refused.
    assert!(end(&subject, few, passed()).await.iter().all(|again| matches!(again, Recorded::As(_))));
    let contrary = end(&subject, few, fault(ErrorClass::Final, None)).await;
    assert!(contrary.iter().all(|contrary| !matches!(contrary, Recorded::As(_))), "{contrary:?}");
    for recorded_as in end(&subject, &many, fault(ErrorClass::Retryable, None)).await {
        let run = recorded(recorded_as);
        assert_eq!((run.state, run.retry_count, run.attempt), (State::Waiting, 1, 1));
        assert_eq!(subject.run(run.run_id).await, run);
    }
    assert_eq!(rows(&subject).await, (0, 0));
}

/// A worker that has lost its claim cannot end what another holds by now.
async fn a_fence_that_has_passed_takes_nothing_out_of_a_bundle(subject: TestStore) {
    let first = claimed(&subject, 20).await;
    subject.clock.advance(LEASE);
    assert_eq!(expire(&subject, 100).await.len(), 20);
    subject.clock.advance(MINUTE);
    let second = subject.claim_jobs(100).await;
    assert_eq!(second.len(), 20);
    let stale = end(&subject, &first, passed()).await;
    assert!(stale.iter().all(|stale| !matches!(stale, Recorded::As(_))), "{stale:?}");
    assert_eq!(ids(&running(&subject).await), ids(&second));
    // The same of a task that nobody has, while the bundle is there.
    let third = claimed_anew(&subject).await;
    let other = TaskId::from_uuid(uuid::Uuid::from_u128(7));
    let forged: Vec<Run> = third.iter().map(|run| Run { task_id: Some(other), ..run.clone() }).collect();
    assert!(end(&subject, &forged, passed()).await.iter().all(|forged| !matches!(forged, Recorded::As(_))));
    assert_eq!(running(&subject).await.len(), 40);
}

async fn claimed_anew(subject: &TestStore) -> Vec<Run> {
    subject.submit(&["any%"; 20]).await;
    subject.claim_jobs(100).await
}

async fn a_job_that_is_cancelled_leaves_its_bundle_and_its_worker_hears_of_it(subject: TestStore) {
    let claimed = claimed(&subject, 20).await;
    let (news, before) = (subject.store.wakeups(), *subject.store.wakeups().borrow());
    let cancelled = subject.cancel(claimed[7].run_id).await;
    let there_is_room = news.borrow().of(Workload::Process) != before.of(Workload::Process);
    assert!(there_is_room, "whoever waits below a limit looks again");
    assert_eq!((cancelled.state, cancelled.lease_until), (State::Dead, claimed[7].lease_until));
    assert_eq!(running(&subject).await.len(), 19);
    let answers = subject.store.data().beat(held(&claimed), LEASE).await.unwrap().answers;
    for (nth, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if nth == 7 { HeartbeatAnswer::Cancelled } else { HeartbeatAnswer::Held });
    }
    assert!(!matches!(subject.report(&claimed[7], passed()).await, Recorded::As(_)));
}

async fn a_heartbeat_prolongs_the_leases_of_those_it_names_alone(subject: TestStore) {
    let claimed = claimed(&subject, 100).await;
    let (named, unnamed) = ([&claimed[..30], &claimed[33..]].concat(), claimed[30..33].to_vec());
    subject.clock.advance(LEASE / 2);
    let beat = subject.store.data().beat(held(&named), LEASE).await.unwrap();
    assert_eq!(beat.answers, vec![HeartbeatAnswer::Held; 97]);
    for run in &named {
        let expected = Run { last_heartbeat: Some(beat.at), lease_until: Some(beat.until), ..run.clone() };
        assert_eq!(subject.run(run.run_id).await, expected);
    }
    for run in &unnamed {
        assert_eq!(subject.run(run.run_id).await, *run, "its lease is as it was");
    }
    subject.clock.advance(LEASE / 2);
    assert_eq!(ids(&expire(&subject, 100).await), ids(&unnamed));
    assert_eq!(ids(&running(&subject).await), ids(&named));
    // A lease that has passed is lost, though nobody has ended it yet.
    subject.clock.advance(LEASE / 2);
    let late = subject.store.data().beat(held(&named), LEASE).await.unwrap().answers;
    assert_eq!(late, vec![HeartbeatAnswer::Lost; 97]);
    assert!(end(&subject, &named, passed()).await.iter().all(|late| matches!(late, Recorded::Refused(_))));
}

/// AR-3: a silent worker counts as a retryable failure of each of its jobs.
async fn leases_of_bundles_run_out_a_page_at_a_time(subject: TestStore) {
    let claimed = claimed(&subject, 200).await;
    subject.clock.advance(LEASE);
    let overdue = subject.store.view().overdue(Workload::Process, 1000).await.unwrap();
    assert_eq!(ids(&overdue), ids(&claimed));
    let mut ended = Vec::new();
    while ended.len() < claimed.len() {
        let page = expire(&subject, 60).await;
        assert!((1..=60).contains(&page.len()), "{}", page.len());
        ended.extend(page);
    }
    assert_eq!(ids(&ended), ids(&claimed));
    assert!(expire(&subject, 60).await.is_empty());
    assert_eq!(rows(&subject).await, (0, 0));
    for run in ended {
        assert_eq!(
            (run.state, run.retry_count, run.error_message.as_deref()),
            (State::Waiting, 1, Some("lease expired"))
        );
        assert_eq!(subject.run(run.run_id).await, run);
    }
}

/// What was tried before has a past, which a bundle has no room for.
async fn retries_and_first_claims_are_claimed_together_by_age(subject: TestStore) {
    let tried = claimed(&subject, 20).await;
    end(&subject, &tried, fault(ErrorClass::Retryable, None)).await;
    let given_back = claimed_anew(&subject).await;
    end(&subject, &given_back, End::Released { why: None }).await;
    subject.clock.advance(MINUTE);
    subject.submit(&["any%"; 30]).await;
    let all = subject.claim_jobs(1000).await;
    assert_eq!(all.len(), 70);
    assert_eq!(rows(&subject).await, (40, 1));
    assert!(all.is_sorted_by_key(|run| run.run_id), "the oldest first");
    let retried: Vec<Run> =
        all.iter().filter(|run| run.retry_count == 1 && run.error_message.is_some()).cloned().collect();
    assert_eq!(ids(&retried), ids(&tried));
    for run in &all {
        assert_eq!(subject.run(run.run_id).await, *run);
    }
    end(&subject, &all, passed()).await;
    assert_eq!(rows(&subject).await, (0, 0));
}

async fn a_limit_counts_jobs_and_not_bundles(subject: TestStore) {
    let limit = InFlightLimit { most: 50, categories: Some(vec!["any%".to_owned()]) };
    let asked = RunClaim { categories: Some(vec!["any%".to_owned()]), max_in_flight: Some(limit), ..job_claim(30) };
    subject.submit(&["any%"; 100]).await;
    let data = subject.store.data();
    assert_eq!(data.claim_runs(asked.clone()).await.unwrap().len(), 30);
    let second = data.claim_runs(asked.clone()).await.unwrap();
    assert_eq!(second.len(), 20);
    assert!(data.claim_runs(asked.clone()).await.unwrap().is_empty());
    end(&subject, &[second[0].run.clone()], passed()).await;
    assert_eq!(data.claim_runs(asked).await.unwrap().len(), 1);
}

/// Results of one bundle that are committed at the same moment, and a heartbeat among them, lose nothing.
async fn results_and_heartbeats_of_one_bundle_do_not_undo_each_other(subject: TestStore) {
    let claimed = claimed(&subject, 64).await;
    let data = subject.store.data();
    let ends = claimed.chunks(4).map(|runs| {
        let ends: Vec<_> = runs.iter().map(|run| (run.clone(), passed())).collect();
        data.record(ends)
    });
    let beats = (0..8).map(|_| data.beat(held(&claimed), LEASE));
    let (recorded_as, beats) =
        tokio::join!(futures_util::future::join_all(ends), futures_util::future::join_all(beats));
    for outcome in recorded_as.into_iter().flat_map(Result::unwrap) {
        assert_eq!(recorded(outcome).state, State::Done);
    }
    beats.into_iter().for_each(|beat| drop(beat.unwrap()));
    assert!(running(&subject).await.is_empty());
    assert_eq!(rows(&subject).await, (0, 0));
}

crate::on_both_databases!(
    many_first_claims_share_rows_and_are_read_like_any_other,
    few_first_claims_have_rows_of_their_own,
    jobs_leave_their_bundle_as_they_end_and_the_last_takes_it_along,
    a_fence_that_has_passed_takes_nothing_out_of_a_bundle,
    a_job_that_is_cancelled_leaves_its_bundle_and_its_worker_hears_of_it,
    a_heartbeat_prolongs_the_leases_of_those_it_names_alone,
    leases_of_bundles_run_out_a_page_at_a_time,
    retries_and_first_claims_are_claimed_together_by_age,
    a_limit_counts_jobs_and_not_bundles,
    results_and_heartbeats_of_one_bundle_do_not_undo_each_other,
);
