//! Many runs that end in one call. Whether a run ends is decided by its own claim, not by its neighbours.

use redrive_core::id::RunId;
use redrive_core::run::{End, State};
use redrive_store::{Recorded, RunPage};

use crate::steps::{job_claim, passed, recorded};
use crate::support::TestStore;

/// A claim that ended otherwise, one that goes on and one that is another worker's by now lie among those that end.
async fn runs_that_end_together_end_each_by_its_own_claim(subject: TestStore) {
    let categories: Vec<&str> = [vec!["a"; 300], vec!["b"; 40], vec!["c"; 3]].concat();
    let ids = subject.submit(&categories).await;
    let claimed = subject.claim_jobs(343).await;
    assert_eq!(claimed.len(), ids.len());
    let [cancelled, goes_on, anothers] = [50, 150, 320].map(|nth| claimed[nth].clone());
    subject.cancel(cancelled.run_id).await;
    recorded(subject.report(&anothers, End::Released { why: None }).await);
    let again = subject.store.data().claim_runs(job_claim(9)).await.unwrap();
    assert_eq!(again.iter().map(|claimed| claimed.run.run_id).collect::<Vec<_>>(), [anothers.run_id]);

    let ends = claimed.iter().filter(|run| run.run_id != goes_on.run_id).map(|run| (run.clone(), passed()));
    let ends: Vec<_> = ends.collect();
    let outcomes = subject.store.data().record(ends.clone()).await.unwrap();
    for ((run, _), outcome) in ends.iter().zip(&outcomes) {
        let is_its_own = ![cancelled.run_id, anothers.run_id].contains(&run.run_id);
        assert_eq!(matches!(outcome, Recorded::As(_)), is_its_own, "{}: {outcome:?}", run.run_id);
    }
    let with_state = async |state: State| -> Vec<RunId> {
        let page = RunPage { states: vec![state], limit: 999, ..RunPage::default() };
        subject.store.view().runs(page).await.unwrap().into_iter().map(|run| run.run_id).collect()
    };
    let mut running = with_state(State::Running).await;
    running.sort();
    assert_eq!(running, [goes_on.run_id, anothers.run_id]);
    assert_eq!(with_state(State::Done).await.len(), claimed.len() - 3);
    recorded(subject.report(&goes_on, passed()).await);
    recorded(subject.report(&again[0].run, passed()).await);
}

crate::on_both_databases!(runs_that_end_together_end_each_by_its_own_claim);
