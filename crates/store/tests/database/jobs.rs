//! What a submitter and an operator can ask of jobs: a later start, fewer attempts, a limit on how many run, retry, cancel, undo,
//! pages.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::failure::ErrorClass;
use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{ControlEvent, End, Run, State, Workload, label};
use redrive_store::{
    Backlog, Error, HeartbeatAnswer, InFlightLimit, NewRun, Queued, RunChangeOutcome, RunClaim, RunPage,
};

use crate::steps::{after, fault, job_claim, passed, recorded, upload};
use crate::support::{LEASE, START, TestStore};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn cancel() -> ControlEvent {
    ControlEvent::Cancel { by: "ada".to_owned() }
}

/// A job that is wanted later is discovered, waits, and then competes by its submission.
async fn a_job_for_later_waits_for_its_time(subject: TestStore) {
    let later = NewRun { not_before: Some(START.saturating_add(HOUR)), ..NewRun::job("any%", None, START) };
    let id = subject.store.control().submit(vec![later]).await.unwrap()[0].run_id;
    let run = subject.run(id).await;
    assert_eq!((run.state, run.next_retry_at, label(&run)), (State::Waiting, None, "discovered"));
    assert_eq!(run.due_at(), Some(START.saturating_add(HOUR)));
    assert!(subject.claim_jobs(9).await.is_empty());
    let backlog = subject.store.view().run_backlog(Workload::Process, None, None).await.unwrap();
    assert_eq!(backlog, Backlog { queued: Queued::Nothing, in_flight: 0 });
    subject.clock.advance(HOUR);
    let younger = subject.submit(&["any%"]).await[0];
    let claimed: Vec<_> = subject.claim_jobs(9).await.into_iter().map(|run| run.run_id).collect();
    assert_eq!(claimed, [id, younger]);
}

/// Its own attempts go before the policy's, and are kept with it.
async fn a_job_has_as_many_attempts_as_it_was_given(subject: TestStore) {
    let twice = NewRun { max_attempts: Some(2), ..NewRun::job("any%", None, START) };
    let id = subject.store.control().submit(vec![twice]).await.unwrap()[0].run_id;
    let claimed = subject.claim_jobs(1).await;
    assert_eq!(recorded(subject.report(&claimed[0], fault(ErrorClass::Retryable, None)).await).state, State::Waiting);
    subject.clock.advance(MINUTE);
    let claimed = subject.claim_jobs(1).await;
    recorded(subject.report(&claimed[0], fault(ErrorClass::Retryable, None)).await);
    let run = subject.again().await.view().run(id).await.unwrap().unwrap();
    assert_eq!((run.state, run.next_retry_at, run.max_attempts), (State::Dead, None, Some(2)));
    let most = NewRun { max_attempts: Some(u32::MAX), ..NewRun::job("any%", None, START) };
    let id = subject.store.control().submit(vec![most]).await.unwrap()[0].run_id;
    assert_eq!(subject.run(id).await.max_attempts, Some(u32::MAX), "as many as can be said");
}

/// AR-4: the sum of free waits is kept with the run, over all its claims.
async fn free_waits_are_added_up(subject: TestStore) {
    let id = subject.submit(&["any%"]).await[0];
    for nth in 1..=13 {
        let claimed = subject.claim_jobs(1).await;
        let run = recorded(subject.report(&claimed[0], fault(ErrorClass::RateLimited, Some(2 * HOUR))).await);
        let counted = u32::from(nth == 13);
        assert_eq!((run.retry_count, run.rate_limit_waited), (counted, 2 * HOUR * nth.min(12)), "wait {nth}");
        assert_eq!(subject.run(id).await, run);
        subject.clock.advance(2 * HOUR);
    }
    recorded(subject.report(&subject.claim_jobs(1).await[0], passed()).await);
    let run = subject.run(id).await;
    assert_eq!((run.state, run.retry_count, run.rate_limit_waited), (State::Done, 0, Duration::ZERO));
}

/// The limit counts what runs of these categories everywhere, exactly.
async fn no_more_run_at_once_than_the_limit_says(subject: TestStore) {
    subject.submit(&["a", "b", "a", "c", "b", "a", "a", "b", "c", "a"]).await;
    let stores = [subject.store.clone(), subject.again().await, subject.again().await];
    let asked = |worker: &str| RunClaim {
        categories: Some(vec!["b".to_owned(), "a".to_owned()]),
        max_in_flight: limit(3, &["b", "a"]),
        worker: worker.to_owned(),
        ..job_claim(2)
    };
    let mut claimed = Vec::new();
    for _ in 0..4 {
        let claims = join_all(stores.iter().map(|store| async { store.data().claim_runs(asked("w")).await.unwrap() }));
        claimed.extend(claims.await.into_iter().flatten());
        let running = RunPage { states: vec![State::Running], limit: 100, ..RunPage::default() };
        assert!(subject.store.view().runs(running).await.unwrap().len() <= 3);
    }
    assert_eq!(claimed.len(), 3);
    let view = subject.store.view();
    let backlog = |most| {
        let categories = Some(vec!["a".to_owned(), "b".to_owned()]);
        view.run_backlog(Workload::Process, categories, limit(most, &["a", "b"]))
    };
    assert_eq!(backlog(3).await.unwrap(), Backlog { queued: Queued::HeldBack, in_flight: 3 });
    assert_eq!(backlog(4).await.unwrap(), Backlog { queued: Queued::Claimable, in_flight: 3 });
    let other = RunClaim { categories: Some(vec!["c".to_owned()]), max_in_flight: limit(3, &["c"]), ..job_claim(9) };
    assert_eq!(subject.store.data().claim_runs(other).await.unwrap().len(), 2, "other categories have their own");
    recorded(subject.report(&claimed[0].run, passed()).await);
    assert_eq!(subject.store.data().claim_runs(asked("w")).await.unwrap().len(), 1, "room for one");
    assert_eq!(view.categories_waiting().await.unwrap(), [("a".to_owned(), 3), ("b".to_owned(), 1)]);
    assert_eq!(view.categories_with_work(9).await.unwrap(), ["a", "b"]);
    assert_eq!(view.categories_with_work(1).await.unwrap(), ["a"]);
}

fn limit(most: u32, categories: &[&str]) -> Option<InFlightLimit> {
    let categories = categories.iter().map(|&category| category.to_owned()).collect();
    Some(InFlightLimit { most, categories: Some(categories) })
}

/// Workers that each serve one category of a section share its limit.
async fn a_limit_holds_for_all_categories_that_share_it(subject: TestStore) {
    subject.submit(&["a", "b", "a", "b", "a", "b"]).await;
    let stores = [subject.store.clone(), subject.again().await];
    let asked = |category: &str| RunClaim {
        categories: Some(vec![category.to_owned()]),
        max_in_flight: limit(3, &["a", "b"]),
        ..job_claim(2)
    };
    let mut claimed = 0;
    for _ in 0..3 {
        let claims = stores
            .iter()
            .zip(["a", "b"])
            .map(|(store, category)| async { store.data().claim_runs(asked(category)).await.unwrap().len() });
        claimed += join_all(claims).await.into_iter().sum::<usize>();
    }
    assert_eq!(claimed, 3);
    let view = subject.store.view();
    let backlog = view.run_backlog(Workload::Process, Some(vec!["a".to_owned()]), limit(3, &["a", "b"])).await.unwrap();
    assert_eq!(backlog.queued, Queued::HeldBack);
}

/// A person's words are written where the run is still as it was read, and can be taken back.
async fn retry_and_cancel_are_written_once_and_undone(subject: TestStore) {
    let ids = subject.submit(&["any%", "any%", "any%", "any%"]).await;
    let claimed = subject.claim_jobs(2).await;
    let dead = recorded(subject.report(&claimed[0], fault(ErrorClass::Final, None)).await);
    let stale = subject.run(ids[3]).await;
    let items = vec![
        (dead.clone(), ControlEvent::Retry),
        (subject.run(ids[1]).await, cancel()),
        (subject.run(ids[2]).await, cancel()),
        (subject.run(ids[2]).await, ControlEvent::Retry),
    ];
    let queued = subject.run(ids[2]).await;
    let outcomes = subject.put_runs(items).await;
    assert_eq!(outcomes[3], RunChangeOutcome::Refused(Refused::NoOp(Reason::AlreadyPending)));
    let changed: Vec<Run> = outcomes.into_iter().take(3).map(after).collect();
    assert_eq!(changed.iter().map(|run| run.state).collect::<Vec<_>>(), [State::Queued, State::Dead, State::Dead]);
    for run in &changed {
        assert_eq!(&subject.run(run.run_id).await, run);
    }
    let held = vec![(ids[1], claimed[1].task_id.unwrap())];
    assert_eq!(subject.store.data().beat(held, LEASE).await.unwrap().answers, [HeartbeatAnswer::Cancelled]);

    let undo = |run: &Run, to: &Run| ControlEvent::Revert { to: to.snapshot(), from_version: run.version };
    let back = after(subject.ask_run(ids[2], undo(&changed[2], &queued)).await);
    assert_eq!(back, Run { version: back.version, ..queued });
    assert_eq!(
        subject.ask_run(ids[2], undo(&changed[2], &back)).await,
        RunChangeOutcome::Refused(Refused::Rule(Reason::ChangedSincePlan))
    );
    let back = after(subject.ask_run(ids[0], undo(&changed[0], &dead)).await);
    assert_eq!((back.state, back.error_class), (State::Dead, Some(ErrorClass::Final)));

    assert_eq!(subject.claim_jobs(9).await.len(), 2);
    let overtaken = subject.put_runs(vec![(stale, cancel())]).await.remove(0);
    assert_eq!(overtaken, RunChangeOutcome::Overtaken(Box::new(subject.run(ids[3]).await)));
    assert_eq!(subject.run(ids[3]).await.state, State::Running);
}

/// The version guards what was claimed and given back in between.
async fn a_run_that_was_claimed_and_given_back_is_not_as_it_was_read(subject: TestStore) {
    let id = subject.submit(&["any%"]).await[0];
    let read = subject.run(id).await;
    let claimed = subject.claim_jobs(1).await;
    let released = recorded(subject.report(&claimed[0], End::Released { why: None }).await);
    assert_eq!((released.state, released.attempt), (State::Queued, 0));
    let outcome = subject.put_runs(vec![(read, cancel())]).await.remove(0);
    assert_eq!(outcome, RunChangeOutcome::Overtaken(Box::new(released)));
}

async fn what_does_not_fit_is_refused(subject: TestStore) {
    let control = subject.store.control();
    let large = |bytes: usize| NewRun::job("any%", Some("x".repeat(bytes)), START);
    let fits = control.submit(vec![large(1024 * 1024)]).await.unwrap()[0].run_id;
    assert_eq!(subject.store.view().payload(fits).await.unwrap().map(|text| text.len()), Some(1024 * 1024));
    let never = NewRun { max_attempts: Some(0), ..large(1) };
    let ancient = NewRun::job("any%", None, redrive_core::time::Timestamp::from_micros(-1));
    for (bad, what) in [(large(1024 * 1024 + 1), "payload"), (never, "max_attempts"), (ancient, "time of submission")] {
        let error = control.submit(vec![large(1), bad]).await.unwrap_err();
        assert!(matches!(error, Error::Input { what: found, .. } if found == what), "{error}");
    }
    assert_eq!(subject.claim_jobs(9).await.len(), 1, "nothing of a refused submission is there");
}

/// A page has the newest submissions, and goes on where the last one ended, whatever the runs' states are.
async fn pages_cover_every_run_once(subject: TestStore) {
    let mut ids = subject.submit(&["a", "b", "a", "b", "a", "b", "a", "b", "a"]).await;
    ids.extend(subject.store.control().submit(vec![upload(START)]).await.unwrap().iter().map(|new| new.run_id));
    let claimed = subject.claim_jobs(5).await;
    recorded(subject.report(&claimed[0], passed()).await);
    recorded(subject.report(&claimed[1], fault(ErrorClass::Final, None)).await);
    recorded(subject.report(&claimed[2], fault(ErrorClass::Retryable, None)).await);
    let view = subject.store.view();
    let mut expected = ids.clone();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = view.runs(RunPage { before, limit: 3, ..RunPage::default() }).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.run_id);
        found.extend(page.iter().map(|run| run.run_id));
    }
    assert_eq!(found, expected);
    let count = async |page: RunPage| {
        let runs = view.runs(RunPage { limit: 100, ..page }).await.unwrap();
        runs.into_iter().map(|run| run.run_id).collect::<BTreeSet<_>>().len()
    };
    let any = RunPage::default;
    assert_eq!(count(RunPage { workload: Some(Workload::Ingest), ..any() }).await, 1);
    assert_eq!(count(RunPage { categories: Some(vec!["a".to_owned()]), ..any() }).await, 5);
    assert_eq!(count(RunPage { states: vec![State::Running, State::Dead], ..any() }).await, 3);
    assert_eq!(count(RunPage { states: vec![State::Done], ..any() }).await, 1);
    assert_eq!(count(RunPage { error_class: Some(ErrorClass::Final), ..any() }).await, 1);
    assert_eq!(count(RunPage { error_class: Some(ErrorClass::Retryable), ..any() }).await, 1);
    let second = |nth| Some(START.saturating_add(Duration::from_secs(nth)));
    assert_eq!(count(RunPage { since: second(2), until: second(5), ..any() }).await, 3);
}

/// Its handler may not have heard of the cancel: no other may have the job before the lease has passed.
async fn a_cancelled_run_is_not_claimed_before_its_lease_ends(subject: TestStore) {
    let id = subject.submit(&["any%"]).await[0];
    let claimed = subject.claim_jobs(1).await.remove(0);
    subject.clock.advance(LEASE / 2);
    let running = subject.run(id).await;
    let cancelled = after(subject.ask_run(id, cancel()).await);
    assert_eq!((cancelled.state, cancelled.lease_until), (State::Dead, claimed.lease_until));
    assert_eq!(subject.run(id).await, cancelled);
    let retried = after(subject.ask_run(id, ControlEvent::Retry).await);
    assert_eq!((retried.state, retried.due_at()), (State::Waiting, claimed.lease_until));
    assert_eq!(subject.run(id).await, retried);
    assert!(subject.claim_jobs(1).await.is_empty());
    let again = after(subject.ask_run(id, cancel()).await);
    let undo = ControlEvent::Revert { to: running.snapshot(), from_version: again.version };
    let back = after(subject.ask_run(id, undo).await);
    assert_eq!((back.state, back.due_at()), (State::Waiting, claimed.lease_until));
    assert!(subject.claim_jobs(1).await.is_empty());
    subject.clock.advance(LEASE / 2);
    let anew = subject.claim_jobs(1).await;
    assert_eq!((anew[0].run_id, anew[0].attempt), (id, 2));
}

/// Workers need not wait for their next heartbeat; on PostgreSQL also those of other processes.
async fn a_cancel_of_a_running_run_is_announced(subject: TestStore) {
    let ids = subject.submit(&["any%", "any%"]).await;
    let elsewhere = subject.again().await;
    subject.claim_jobs(1).await;
    let (mut here, mut there) = (subject.store.data().cancels(), elsewhere.data().cancels());
    here.mark_unchanged();
    after(subject.ask_run(ids[1], cancel()).await);
    assert!(!here.has_changed().unwrap(), "no worker has it");
    after(subject.ask_run(ids[0], cancel()).await);
    assert!(here.has_changed().unwrap());
    if subject.store.kind() == "postgres" {
        there.changed().await.unwrap();
    }
}

/// AR-5: everything about a run is there after the store is opened again.
async fn a_run_is_the_same_after_opening_again(subject: TestStore) {
    let ids = subject.submit(&["any%", "any%", "any%"]).await;
    let claimed = subject.claim_jobs(2).await;
    recorded(subject.report(&claimed[0], fault(ErrorClass::RateLimited, Some(HOUR))).await);
    let before: Vec<Run> = join_all(ids.iter().map(|id| subject.run(*id))).await;
    let again = subject.again().await;
    assert_eq!(again.view().runs_of(ids).await.unwrap(), before);
    subject.clock.advance(HOUR);
    let claimed = again.data().claim_runs(job_claim(9)).await.unwrap();
    assert_eq!(claimed.iter().map(|claimed| claimed.run.attempt).collect::<Vec<_>>(), [2, 1]);
}

crate::on_both_databases!(
    a_job_for_later_waits_for_its_time,
    a_job_has_as_many_attempts_as_it_was_given,
    free_waits_are_added_up,
    no_more_run_at_once_than_the_limit_says,
    a_limit_holds_for_all_categories_that_share_it,
    retry_and_cancel_are_written_once_and_undone,
    a_run_that_was_claimed_and_given_back_is_not_as_it_was_read,
    what_does_not_fit_is_refused,
    pages_cover_every_run_once,
    a_cancelled_run_is_not_claimed_before_its_lease_ends,
    a_cancel_of_a_running_run_is_announced,
    a_run_is_the_same_after_opening_again,
);
