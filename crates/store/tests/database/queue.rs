//! The queue of runs: oldest submission first, new runs and due retries together.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{End, EndedBy, State, Verdict, Workload};
use redrive_core::time::Timestamp;
use redrive_store::{NewRun, Recorded, RunClaim};

use crate::steps::{fault, job_claim, named_job, recorded, upload};
use crate::support::{START, TestStore};

/// A day of the example, in which hints last four: no hint holds anything back for longer than 24 hours.
const DAY: Duration = Duration::from_secs(6 * 3600);

fn day(nth: u32) -> Timestamp {
    START.saturating_add(DAY * (nth - 1))
}

async fn submit_at(subject: &TestStore, at: Timestamp) -> RunId {
    subject.store.control().submit(vec![NewRun::job("any%", None, at)]).await.unwrap()[0].run_id
}

/// IN-7, IN-8, AR-6
async fn a_run_is_claimed_and_completed_once(subject: TestStore) {
    let (control, data) = (subject.store.control(), subject.store.data());
    let jobs = vec![NewRun::job("any%", Some("{\"x\":1.50}".to_owned()), subject.now())];
    let submitted = control.submit(jobs).await.unwrap();
    let claimed = data.claim_runs(job_claim(10)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].payload.as_deref(), Some("{\"x\":1.50}"));
    assert!(data.claim_runs(job_claim(10)).await.unwrap().is_empty());
    let done = End::Completed { verdict: Verdict::Passed, metrics: Some("{\"n\":1}".to_owned()) };
    let first = recorded(subject.report(&claimed[0].run, done.clone()).await);
    assert_eq!((first.state, first.completed_at), (State::Done, Some(subject.now())));
    // As after an answer that was lost.
    assert_eq!(recorded(subject.report(&claimed[0].run, done).await), first);
    let other = End::Completed { verdict: Verdict::Failed, metrics: None };
    assert_eq!(subject.report(&claimed[0].run, other).await, Recorded::Lost);
    assert_eq!(subject.run(submitted[0].run_id).await, first);
    assert_eq!(subject.store.view().run_metrics(Workload::Process, 5).await.unwrap().by_state, [(State::Done, 1)]);
}

/// Whatever lies between them: jobs of another category, jobs that have run before, and inputs too long to be read in passing.
async fn each_of_many_jobs_comes_with_its_own_input(subject: TestStore) {
    let input = |nth: usize| match nth {
        nth if nth.is_multiple_of(7) => None,
        // Of all kinds of letters, so that it is not stored in less.
        nth if nth.is_multiple_of(5) => Some((0u32..3000).map(|at| char::from(33 + (at * at % 89) as u8)).collect()),
        nth => Some(nth.to_string()),
    };
    let job = |nth: usize| {
        let category = if nth.is_multiple_of(3) { "other" } else { "any%" };
        NewRun { max_attempts: u32::try_from(nth + 1).ok(), ..NewRun::job(category, input(nth), subject.now()) }
    };
    let submitted = subject.store.control().submit((0..90).map(job).collect()).await.unwrap();
    let again = subject.claim_jobs(4).await;
    for run in &again {
        recorded(subject.report(run, fault(ErrorClass::RateLimited, Some(DAY))).await);
    }
    subject.clock.advance(DAY);
    let wanted = RunClaim { categories: Some(vec!["any%".to_owned()]), ..job_claim(1000) };
    let claimed = subject.store.data().claim_runs(wanted).await.unwrap();
    let expected = submitted.iter().enumerate().filter(|(nth, _)| !nth.is_multiple_of(3));
    let expected = expected.map(|(nth, new)| (new.run_id, input(nth), u32::try_from(nth + 1).ok()));
    let found = claimed.into_iter().map(|claimed| (claimed.run.run_id, claimed.payload, claimed.run.max_attempts));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// AR-7: age decides, whatever the kind.
async fn new_runs_and_due_retries_compete_by_the_age_of_their_submission(subject: TestStore) {
    let oldest = submit_at(&subject, day(1)).await;
    let claimed = subject.claim_jobs(1).await;
    recorded(subject.report(&claimed[0], fault(ErrorClass::RateLimited, Some(4 * DAY))).await);
    subject.clock.advance(3 * DAY);
    let not_ready = submit_at(&subject, day(4)).await;
    let claimed = subject.claim_jobs(1).await;
    recorded(subject.report(&claimed[0], fault(ErrorClass::RateLimited, Some(2 * DAY))).await);
    let third = submit_at(&subject, day(4)).await;
    let second = submit_at(&subject, day(3)).await;
    subject.clock.advance(DAY);

    let mut order = Vec::new();
    for _ in 0..4 {
        order.extend(subject.claim_jobs(1).await.into_iter().map(|run| run.run_id));
    }
    assert_eq!(order, [oldest, second, third]);
    assert_eq!(subject.run(not_ready).await.state, State::Waiting);
    subject.clock.advance(DAY);
    assert_eq!(subject.claim_jobs(9).await[0].run_id, not_ready);
}

/// AR-7: age decides across categories too, within one claim.
async fn age_decides_across_categories(subject: TestStore) {
    let ids = subject.submit(&["c", "a", "b", "a", "c", "b", "a"]).await;
    let claimed: Vec<_> = subject.claim_jobs(4).await.into_iter().map(|run| run.run_id).collect();
    assert_eq!(claimed, ids[..4]);
    let claimed: Vec<_> = subject.claim_jobs(9).await.into_iter().map(|run| run.run_id).collect();
    assert_eq!(claimed, ids[4..]);
}

/// AR-8
async fn only_allowed_categories_are_claimed(subject: TestStore) {
    let ids = subject.submit(&["any%", "100%", "other", "any%", "ANY%"]).await;
    let only = |categories: &[&str]| RunClaim {
        categories: Some(categories.iter().map(|category| (*category).to_owned()).collect()),
        ..job_claim(9)
    };
    let data = subject.store.data();
    assert!(data.claim_runs(only(&[])).await.unwrap().is_empty());
    assert!(data.claim_runs(only(&["absent"])).await.unwrap().is_empty());
    let claimed = data.claim_runs(only(&["any%", "100%", "any%", "absent"])).await.unwrap();
    assert_eq!(claimed.iter().map(|claimed| claimed.run.run_id).collect::<Vec<_>>(), [ids[0], ids[1], ids[3]]);
    let ingest = RunClaim { workload: Workload::Ingest, ..job_claim(9) };
    assert!(data.claim_runs(ingest).await.unwrap().is_empty());
    assert_eq!(subject.claim_jobs(9).await.len(), 2);
}

/// AR-10
async fn waiting_retries_never_block_new_work(subject: TestStore) {
    subject.submit(&["a"; 300]).await;
    let claimed = subject.claim_jobs(300).await;
    let failed: Vec<_> = claimed.into_iter().map(|run| (run, fault(ErrorClass::Retryable, None))).collect();
    subject.store.data().record(failed).await.unwrap();
    subject.clock.advance(Duration::from_secs(59));
    let new = submit_at(&subject, subject.now()).await;
    let claimed = subject.claim_jobs(5).await;
    assert_eq!(claimed.iter().map(|run| run.run_id).collect::<Vec<_>>(), [new]);
    subject.clock.advance(Duration::from_secs(1));
    assert_eq!(subject.claim_jobs(999).await.len(), 300);
}

/// AR-7: also when more retries come due at once than a claim moves back to the queue.
async fn the_oldest_due_retry_goes_first_however_many_are_due(subject: TestStore) {
    let mut ids = subject.submit(&["a"; 5000]).await;
    ids.extend(subject.submit(&["b"; 10]).await);
    let claimed = subject.claim_jobs(6000).await;
    let failed = claimed.into_iter().map(|run| {
        // The oldest submissions of each category come due last, long after those that a claim moves at once.
        let wait = if ids[..3].contains(&run.run_id) || ids[5000..].contains(&run.run_id) { 20 } else { 10 };
        (run, fault(ErrorClass::RateLimited, Some(Duration::from_secs(wait))))
    });
    subject.store.data().record(failed.collect::<Vec<_>>()).await.unwrap();
    subject.clock.advance(Duration::from_secs(20));
    let only = |category: &str, limit| RunClaim { categories: Some(vec![category.to_owned()]), ..job_claim(limit) };
    let claim = async |asked: RunClaim| -> Vec<RunId> {
        let claimed = subject.store.data().claim_runs(asked).await.unwrap();
        claimed.into_iter().map(|claimed| claimed.run.run_id).collect()
    };
    assert_eq!(claim(only("a", 2)).await, ids[..2]);
    assert_eq!(claim(job_claim(2)).await, ids[5000..5002], "submitted a second before the third of the others");
    assert_eq!(claim(only("a", 1)).await, ids[2..3]);
}

/// 100,000 of another category cost a claim nothing: the one job is there in the next claim of its own category.
async fn a_backlog_of_one_category_does_not_delay_another(subject: TestStore) {
    for _ in 0..20 {
        let jobs = (0..5000).map(|_| NewRun::job("many", None, START)).collect();
        subject.store.control().submit(jobs).await.unwrap();
    }
    let only = |category: &str| RunClaim { categories: Some(vec![category.to_owned()]), ..job_claim(16) };
    let data = subject.store.data();
    assert_eq!(data.claim_runs(only("many")).await.unwrap().len(), 16);
    subject.clock.advance(Duration::from_secs(1));
    let one = subject.submit(&["one"]).await[0];
    // A round is a claim of each section.
    assert_eq!(data.claim_runs(only("many")).await.unwrap().len(), 16);
    let claimed = data.claim_runs(only("one")).await.unwrap();
    assert_eq!(claimed.iter().map(|claimed| claimed.run.run_id).collect::<Vec<_>>(), [one]);
}

async fn an_external_id_gives_the_run_that_is_there(subject: TestStore) {
    let named = |category: &str, id: &str| named_job(category, id, subject.now());
    let control = subject.store.control();
    let first = control.submit(vec![named("a", "x"), named("a", "y"), named("a", "x"), named("b", "x")]).await.unwrap();
    assert_eq!(first.iter().map(|submitted| submitted.existing).collect::<Vec<_>>(), [false, false, true, false]);
    assert_eq!(first[2].run_id, first[0].run_id);
    let ingest = upload(subject.now());
    let nameless = NewRun::job("a", None, subject.now());
    let again = control.submit(vec![named("a", "y"), ingest, nameless.clone(), nameless]).await.unwrap();
    assert_eq!(again.iter().map(|submitted| submitted.existing).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(again[0].run_id, first[1].run_id);
    let claimed = subject.store.data().claim_runs(job_claim(99)).await.unwrap();
    assert_eq!(claimed.len(), 5);
    assert_eq!(claimed[0].run.work.external_id(), Some("x"));
}

/// IN-1: no worker gets an upload whose file is still on its way.
async fn an_upload_is_not_claimed_while_it_is_being_stored(subject: TestStore) {
    let stored = upload(subject.now());
    let awaited = NewRun { awaits_input: true, ..stored.clone() };
    let submitted = subject.store.control().submit(vec![awaited, stored]).await.unwrap();
    let ids: Vec<_> = submitted.iter().map(|submitted| submitted.run_id).collect();
    assert_eq!(subject.run(ids[0]).await.state, State::Storing);
    let ingest = RunClaim { workload: Workload::Ingest, ..job_claim(9) };
    let claimed = subject.store.data().claim_runs(ingest).await.unwrap();
    assert_eq!(claimed.iter().map(|claimed| claimed.run.run_id).collect::<Vec<_>>(), [ids[1]]);
    let cancelled = subject.cancel(ids[0]).await;
    assert_eq!((cancelled.ended_by, subject.run(ids[0]).await), (Some(EndedBy::Cancelled), cancelled.clone()));
}

/// CP-6.2: the same submission from eight clients at once makes one run.
async fn concurrent_submissions_of_one_external_id_make_one_run(subject: TestStore) {
    let named = named_job("a", "x", subject.now());
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (store, run) = (subject.again().await, named.clone());
        tasks.push(tokio::spawn(async move { store.control().submit(vec![run]).await.unwrap()[0] }));
    }
    let (mut new, mut ids) = (0, Vec::new());
    for task in tasks {
        let submitted = task.await.unwrap();
        new += usize::from(!submitted.existing);
        ids.push(submitted.run_id);
    }
    ids.dedup();
    assert_eq!((new, ids.len()), (1, 1));
}

/// AR-6: several verdicts, and one refused report among good ones.
async fn reports_in_one_call_stand_each_for_itself(subject: TestStore) {
    subject.submit(&["a"; 4]).await;
    let mut claimed = subject.claim_jobs(4).await;
    recorded(subject.report(&claimed[1], End::Completed { verdict: Verdict::Passed, metrics: None }).await);
    // What a worker believes of its lease does not count: the row does.
    claimed[3].lease_until = Some(subject.now());
    let reports = [
        End::Completed { verdict: Verdict::NeedsReview, metrics: None },
        fault(ErrorClass::Retryable, None),
        fault(ErrorClass::Final, None),
        End::Released { why: None },
    ];
    let all: Vec<_> = claimed.iter().cloned().zip(reports).collect();
    let outcome = subject.store.data().record(all).await.unwrap();
    assert!(matches!(&outcome[0], Recorded::As(run) if run.verdict == Some(Verdict::NeedsReview)), "{outcome:?}");
    assert_eq!(outcome[1], Recorded::Lost);
    assert!(matches!(&outcome[2], Recorded::As(run) if run.state == State::Dead), "{outcome:?}");
    assert!(matches!(&outcome[3], Recorded::As(run) if run.state == State::Queued), "{outcome:?}");
    assert!(subject.store.view().run_failures(claimed[1].run_id).await.unwrap().is_empty());
    assert_eq!(subject.run(claimed[3].run_id).await.state, State::Queued);
}

crate::on_both_databases!(
    a_run_is_claimed_and_completed_once,
    each_of_many_jobs_comes_with_its_own_input,
    new_runs_and_due_retries_compete_by_the_age_of_their_submission,
    age_decides_across_categories,
    only_allowed_categories_are_claimed,
    waiting_retries_never_block_new_work,
    the_oldest_due_retry_goes_first_however_many_are_due,
    a_backlog_of_one_category_does_not_delay_another,
    an_external_id_gives_the_run_that_is_there,
    concurrent_submissions_of_one_external_id_make_one_run,
    an_upload_is_not_claimed_while_it_is_being_stored,
    reports_in_one_call_stand_each_for_itself,
);
