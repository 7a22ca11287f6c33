//! Forgetting what ended long ago, and what submitters and operators do meanwhile.

use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{ControlEvent, Workload};
use redrive_store::{NewRun, Prunable, Pruning, Submitted};

use crate::raw::{Raw, meanwhile};
use crate::steps::{after, fault, named_job, passed, recorded};
use crate::support::{START, TestStore};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// Only what has ended before the moment is forgotten, a little at a time, and its external id is free again.
async fn old_ends_are_pruned_and_nothing_else(subject: TestStore) {
    let control = subject.store.control();
    let names = ["done", "dead", "late", "waiting", "running", "queued"];
    let jobs = names.iter().map(|name| named_job("any%", name, START)).collect();
    let before = START.saturating_add(2 * HOUR);
    let ids: Vec<_> = control.submit(jobs).await.unwrap().into_iter().map(|new| new.run_id).collect();
    subject.clock.advance(2 * HOUR);
    let claimed = subject.claim_jobs(5).await;
    recorded(subject.report(&claimed[0], passed()).await);
    recorded(subject.report(&claimed[1], fault(ErrorClass::Final, None)).await);
    recorded(subject.report(&claimed[3], fault(ErrorClass::Retryable, None)).await);
    subject.clock.advance(MINUTE);
    recorded(subject.report(&claimed[2], passed()).await);
    let pruning = Pruning { ended_before: before.saturating_add(MINUTE), ..all_jobs() };
    let other = Pruning { categories: Some(vec!["other".to_owned()]), ..pruning.clone() };
    let uploads = Pruning { workload: Workload::Ingest, ..pruning.clone() };
    for nothing in [other, uploads] {
        assert!(subject.prune(&nothing, 100).await.is_empty());
    }
    assert_eq!(subject.prune(&pruning, 1).await, [1, 1], "one transaction for each");
    assert!(subject.prune(&pruning, 1).await.is_empty());
    for (nth, id) in ids.iter().enumerate() {
        assert_eq!(subject.store.view().run(*id).await.unwrap().is_none(), nth < 2, "{}", names[nth]);
    }
    assert!(subject.store.view().run_failures(ids[1]).await.unwrap().is_empty());
    assert_eq!(subject.store.view().run_failures(ids[3]).await.unwrap().len(), 1);
    let again = control.submit(vec![named_job("any%", "done", START), named_job("any%", "late", START)]).await.unwrap();
    assert_eq!(again.iter().map(|new| new.existing).collect::<Vec<_>>(), [false, true]);
}

fn all_jobs() -> Pruning {
    Pruning { workload: Workload::Process, categories: None, ended_before: START }
}

trait Prunes {
    async fn prune(&self, pruning: &Pruning, limit: u32) -> Vec<u64>;
}

impl Prunes for TestStore {
    /// Forgets everything, page by page; gives how many each page had.
    async fn prune(&self, pruning: &Pruning, limit: u32) -> Vec<u64> {
        let (mut pruned, mut after) = (Vec::new(), None);
        while let Some(page) = self.store.view().prunable_runs(pruning.clone(), after, limit).await.unwrap() {
            pruned.push(self.store.control().prune_runs(None, pruning.clone(), page.clone()).await.unwrap());
            after = Some(page);
        }
        pruned
    }
}

/// That it was named is noted once an hour: a job may have been named up to an hour after the note.
async fn a_job_that_its_submitter_names_is_not_pruned(subject: TestStore) {
    let control = subject.store.control();
    control.submit(vec![named_job("any%", "x", START)]).await.unwrap();
    recorded(subject.report(&subject.claim_jobs(1).await[0], passed()).await);
    // Named every 40 minutes, for the last time 40 minutes before the note would be renewed.
    for _ in 0..8 {
        subject.clock.advance(40 * MINUTE);
        assert!(control.submit(vec![named_job("any%", "x", subject.now())]).await.unwrap()[0].existing);
        let pruning = Pruning { ended_before: subject.now(), ..all_jobs() };
        assert!(subject.prune(&pruning, 10).await.is_empty(), "it was named this moment");
    }
    subject.clock.advance(2 * HOUR);
    assert_eq!(subject.prune(&Pruning { ended_before: subject.now(), ..all_jobs() }, 10).await, [1]);
}

async fn pruning_goes_on_after_what_is_kept_and_looks_again_before_it_forgets(subject: TestStore) {
    let control = subject.store.control();
    let mut jobs: Vec<NewRun> = (0..10).map(|nth| named_job("a", &nth.to_string(), START)).collect();
    jobs.extend((0..4).map(|_| NewRun::job("b", None, START)));
    let ids: Vec<RunId> = control.submit(jobs).await.unwrap().into_iter().map(|new| new.run_id).collect();
    for run in subject.claim_jobs(20).await {
        recorded(subject.report(&run, fault(ErrorClass::Final, None)).await);
    }
    subject.clock.advance(3 * HOUR);
    // The oldest of them are kept, because they were named again.
    control.submit((0..5).map(|nth| named_job("a", &nth.to_string(), START)).collect()).await.unwrap();
    let pruning = Pruning { ended_before: subject.now(), ..all_jobs() };
    let view = subject.store.view();
    let first = view.prunable_runs(pruning.clone(), None, 2).await.unwrap().unwrap();
    assert_eq!(first, Prunable { category: "a".to_owned(), runs: ids[5..7].to_vec() });
    let second = view.prunable_runs(pruning.clone(), Some(first.clone()), 2).await.unwrap().unwrap();
    assert_eq!(second.runs, ids[7..9]);
    // Between the look and the deed one is tried again, and one is named.
    after(subject.ask_run(ids[5], ControlEvent::Retry).await);
    control.submit(vec![named_job("a", "6", START)]).await.unwrap();
    assert_eq!(control.prune_runs(None, pruning.clone(), first).await.unwrap(), 0);
    assert_eq!(subject.prune(&pruning, 3).await, [3, 3, 1], "ids 7 to 9, and the other category");
    let left: Vec<bool> = join_all(ids.iter().map(|id| async { view.run(*id).await.unwrap().is_some() })).await;
    assert_eq!(left, [[true; 7].as_slice(), &[false; 7]].concat());
}

async fn pruning_finds_what_lies_behind_any_number_that_are_kept(subject: TestStore) {
    let control = subject.store.control();
    let jobs: Vec<NewRun> = (0..2100).map(|nth| named_job("a", &nth.to_string(), START)).collect();
    control.submit(jobs.clone()).await.unwrap();
    let last = control.submit(vec![NewRun::job("a", None, START.saturating_add(MINUTE))]).await.unwrap()[0].run_id;
    let ends = subject.claim_jobs(3000).await.into_iter().map(|run| (run, passed()));
    subject.store.data().record(ends.collect::<Vec<_>>()).await.unwrap();
    subject.clock.advance(3 * HOUR);
    control.submit(jobs).await.unwrap();
    let pruning = Pruning { ended_before: subject.now(), ..all_jobs() };
    assert_eq!(subject.prune(&pruning, 5).await, [1]);
    assert!(subject.store.view().run(last).await.unwrap().is_none());
}

/// Its submitter has slipped by three thousand years.
async fn a_job_whose_submission_is_still_to_come_is_pruned_once_it_has_ended(subject: TestStore) {
    let to_come = START.saturating_add(3000 * 366 * 24 * HOUR);
    let jobs = vec![NewRun::job("a", None, START), NewRun::job("a", None, to_come), NewRun::job("a", None, to_come)];
    let ids = subject.store.control().submit(jobs).await.unwrap();
    for run in subject.claim_jobs(2).await {
        recorded(subject.report(&run, passed()).await);
    }
    let all = |subject: &TestStore| Pruning { ended_before: subject.now(), ..all_jobs() };
    assert!(subject.prune(&Pruning { ended_before: START, ..all(&subject) }, 1).await.is_empty(), "none had ended");
    subject.clock.advance(MINUTE);
    assert_eq!(subject.prune(&all(&subject), 1).await, [1, 1]);
    assert!(subject.store.view().run(ids[2].run_id).await.unwrap().is_some(), "it is queued");
}

/// A job `x` of the category `a` that ended three hours ago, and what would forget it.
async fn forgettable(subject: &TestStore) -> (RunId, Pruning) {
    let id = subject.store.control().submit(vec![named_job("a", "x", START)]).await.unwrap()[0].run_id;
    recorded(subject.report(&subject.claim_jobs(1).await[0], passed()).await);
    subject.clock.advance(3 * HOUR);
    (id, Pruning { ended_before: subject.now(), ..all_jobs() })
}

async fn a_job_that_is_named_while_it_is_about_to_be_forgotten_stays(subject: TestStore) {
    let (id, pruning) = forgettable(&subject).await;
    let page = subject.store.view().prunable_runs(pruning.clone(), None, 9).await.unwrap().unwrap();
    let named = format!("UPDATE run_specs SET named_at = {}", subject.now().micros());
    let control = subject.again().await.control();
    let prune = async move { control.prune_runs(None, pruning, page).await.unwrap() };
    assert_eq!(meanwhile(&subject, &[&named], prune).await, 0);
    assert_eq!(subject.run(id).await.run_id, id);
}

/// Begins to name `x` again, lets it be forgotten when the submission waits for this lock, and gives what was submitted. On SQLite
/// nothing can come in between.
async fn forgotten_meanwhile(lock: &str) -> (RunId, Vec<Submitted>) {
    let subject = TestStore::postgres().await;
    let (id, _) = forgettable(&subject).await;
    let raw = Raw::of(&subject).await;
    raw.run("BEGIN").await;
    raw.run(lock).await;
    // So many are not committed together with other callers', who would try again by themselves.
    let jobs = ["x"].into_iter().map(str::to_owned).chain((0..20).map(|nth| nth.to_string()));
    let jobs = jobs.map(|name| named_job("a", &name, subject.now())).collect();
    let control = subject.again().await.control();
    let submitting = tokio::spawn(async move { control.submit(jobs).await.unwrap() });
    Raw::of(&subject).await.wait_for_lock().await;
    raw.run("DELETE FROM run_ends; DELETE FROM run_specs; COMMIT").await;
    let submitted = submitting.await.unwrap();
    for new in &submitted {
        subject.run(new.run_id).await;
    }
    (id, submitted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_forgotten_before_its_submission_has_found_it_is_made_anew() {
    // The new ones are queued before the others are looked for.
    let (id, submitted) = forgotten_meanwhile("LOCK TABLE run_queue IN ACCESS EXCLUSIVE MODE").await;
    assert!(submitted.iter().all(|new| !new.existing && new.run_id != id), "{submitted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_forgotten_before_it_is_noted_that_it_was_named_is_made_anew() {
    let (id, submitted) = forgotten_meanwhile("SELECT 1 FROM run_specs FOR UPDATE").await;
    assert!(submitted.iter().all(|new| !new.existing && new.run_id != id), "{submitted:?}");
}

crate::on_both_databases!(
    old_ends_are_pruned_and_nothing_else,
    a_job_that_its_submitter_names_is_not_pruned,
    pruning_goes_on_after_what_is_kept_and_looks_again_before_it_forgets,
    pruning_finds_what_lies_behind_any_number_that_are_kept,
    a_job_whose_submission_is_still_to_come_is_pruned_once_it_has_ended,
    a_job_that_is_named_while_it_is_about_to_be_forgotten_stays,
);
