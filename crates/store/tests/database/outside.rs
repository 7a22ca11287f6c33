//! SV-2: claims, heartbeats and reports of outside workers, whose questions and answers may be lost on the way.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::process::Kind;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{Change, End, Fault, Incident, ReportKind, Run, State, Verdict, Workload};
use redrive_store::{
    ClaimedRun, HeartbeatAnswer, HeldByWorker, InFlightLimit, OutsideCall, OutsideClaim, OutsideReport, ReportOutcome,
    RunClaim, Terms,
};

use crate::support::{LEASE, TestStore};

const WINDOW: Duration = Duration::from_secs(15);

fn share(categories: &[&str], max_in_flight: Option<u32>) -> RunClaim {
    let categories: Vec<String> = categories.iter().map(|&category| category.to_owned()).collect();
    RunClaim {
        max_in_flight: max_in_flight.map(|most| InFlightLimit { most, categories: Some(categories.clone()) }),
        categories: Some(categories),
        ..RunClaim::new(Workload::Process, "py", 0, WINDOW)
    }
}

fn claim(claim_id: &str, limit: u32, shares: Vec<RunClaim>) -> OutsideClaim {
    OutsideClaim { worker: "py".to_owned(), claim_id: claim_id.to_owned(), shares, limit, window: WINDOW }
}

async fn deliver(subject: &TestStore, claim_id: &str, limit: u32) -> Vec<ClaimedRun> {
    subject.store.data().deliver_runs(claim(claim_id, limit, vec![share(&["a"], None)])).await.unwrap()
}

async fn sweep(subject: &TestStore) -> usize {
    subject.store.data().expire(Workload::Process, 99, |_| RetryPolicy::process()).await.unwrap().len()
}

async fn report(subject: &TestStore, run: &Run, kind: ReportKind, end: End) -> ReportOutcome {
    let said = format!(r#"{{"report":"{kind}"}}"#);
    let report = OutsideReport { run_id: run.run_id, task_id: run.task_id.unwrap(), kind, said };
    let answer = |change: &Change| format!("{} {}", change.after.state, change.after.version);
    subject.store.data().report(report, |_| true, move |_| end.clone(), answer).await.unwrap()
}

async fn complete(subject: &TestStore, run: &Run) -> ReportOutcome {
    report(subject, run, ReportKind::Complete, End::Completed { verdict: Verdict::Passed, metrics: None }).await
}

async fn fail(subject: &TestStore, run: &Run) -> ReportOutcome {
    let fault = Fault { class: ErrorClass::Retryable, message: "boom".to_owned(), trace: None, retry_after: None };
    let end = End::Failed { fault, metrics: None, policy: RetryPolicy::process() };
    report(subject, run, ReportKind::Fail, end).await
}

fn held(run: &Run, progress: Option<&str>) -> HeldByWorker {
    HeldByWorker { run_id: run.run_id, task_id: run.task_id.unwrap(), progress: progress.map(str::to_owned) }
}

async fn beat(subject: &TestStore, run: &Run) -> HeartbeatAnswer {
    let held = vec![held(run, None)];
    subject.store.data().beat_outside(held, |run, now| run.prolonged(now, LEASE, LEASE * 10)).await.unwrap()[0].answer
}

/// SV-2: the same claim again gives the same runs, also when the first answer was lost, and its time begins anew.
async fn the_same_claim_gives_the_same_runs(subject: TestStore) {
    subject.submit(&["a", "a", "a"]).await;
    subject.clock.advance(Duration::from_secs(9));
    let first = deliver(&subject, "c1", 2).await;
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|given| given.run.awaits_ack && given.run.attempt == 1));
    assert_eq!(subject.run(first[0].run.run_id).await, first[0].run, "what is answered is what is stored");
    subject.clock.advance(Duration::from_secs(14));
    let again = deliver(&subject, "c1", 2).await;
    let facts = |given: &[ClaimedRun]| {
        given.iter().map(|g| (g.run.run_id, g.run.task_id, g.payload.clone())).collect::<Vec<_>>()
    };
    assert_eq!(facts(&again), facts(&first));
    assert_eq!(again[0].run.lease_until, Some(subject.now().saturating_add(WINDOW)));
    assert_eq!(deliver(&subject, "c2", 2).await.len(), 1, "another claim gets what is left");
    assert_eq!(beat(&subject, &first[0].run).await, HeartbeatAnswer::Held);
    subject.clock.advance(Duration::from_secs(1));
    let third = deliver(&subject, "c1", 2).await;
    assert_eq!(facts(&third), facts(&first));
    assert!(third[0].run.lease_until > third[1].run.lease_until, "an acknowledged lease is not shortened");
    assert!(!third[0].run.awaits_ack && third[1].run.awaits_ack);
}

/// SV-2: without a beat within 15 s a run is given back, no attempt is burnt, and the history says `delivery_lost`.
async fn a_lost_delivery_burns_nothing_and_is_told(subject: TestStore) {
    let id = subject.submit(&["a"]).await[0];
    let given = deliver(&subject, "c1", 1).await.remove(0).run;
    subject.clock.advance(WINDOW - Duration::from_micros(1));
    assert_eq!(sweep(&subject).await, 0);
    subject.clock.advance(Duration::from_micros(1));
    assert_eq!(sweep(&subject).await, 1);
    let back = subject.run(id).await;
    assert_eq!((back.state, back.attempt, back.retry_count, back.awaits_ack), (State::Queued, 0, 0, false));
    assert!(subject.store.view().run_failures(id).await.unwrap().is_empty());
    let told = subject.store.view().run_incidents(id).await.unwrap();
    assert_eq!(
        told.iter().map(|told| (told.incident, told.task_id)).collect::<Vec<_>>(),
        [(Incident::DeliveryLost, given.task_id.unwrap())]
    );
    let lost = subject.store.view().count_incidents(Incident::DeliveryLost, given.started_at.unwrap(), 9).await;
    assert_eq!(lost.unwrap(), 1);
    assert_eq!(beat(&subject, &given).await, HeartbeatAnswer::Lost);
    let next = deliver(&subject, "c1", 1).await.remove(0).run;
    assert_ne!(next.task_id, given.task_id, "the old claim is over: this is a new one");
    assert!(matches!(complete(&subject, &given).await, ReportOutcome::Late { .. }));
    assert!(matches!(complete(&subject, &next).await, ReportOutcome::Answer { .. }), "and its own worker ends it");
    let late = subject.store.view().run_incidents(id).await.unwrap().pop().unwrap();
    assert_eq!((late.incident, late.detail.as_deref()), (Incident::Late, Some(r#"{"report":"complete"}"#)));
}

/// SV-2: a worker that has spoken and then falls silent burns an attempt, as one of ours does.
async fn silence_after_the_first_word_counts(subject: TestStore) {
    let id = subject.submit(&["a"]).await[0];
    let given = deliver(&subject, "c1", 1).await.remove(0).run;
    assert_eq!(beat(&subject, &given).await, HeartbeatAnswer::Held);
    subject.clock.advance(LEASE);
    assert_eq!(sweep(&subject).await, 1);
    let after = subject.run(id).await;
    assert_eq!((after.state, after.attempt, after.retry_count), (State::Waiting, 1, 1));
    assert!(subject.store.view().run_incidents(id).await.unwrap().is_empty());
}

/// What a report is answered, and whether this call has recorded it.
fn answer(told: ReportOutcome) -> (String, bool) {
    match told {
        ReportOutcome::Answer { answer, change, .. } => (answer, change.is_some()),
        ReportOutcome::Late { .. } | ReportOutcome::NotAllowed | ReportOutcome::Absent => panic!("{told:?}"),
    }
}

/// SV-2: the same answer again for the same task, whatever became of the run since.
async fn the_same_report_gets_the_same_answer(subject: TestStore) {
    let id = subject.submit(&["a"]).await[0];
    let given = deliver(&subject, "c1", 1).await.remove(0).run;
    let (first, is_recorded) = answer(fail(&subject, &given).await);
    assert!(first.starts_with("waiting") && is_recorded, "{first}");
    let again = (first, false);
    assert_eq!(answer(fail(&subject, &given).await), again);
    assert!(
        matches!(complete(&subject, &given).await, ReportOutcome::Late { .. }),
        "another report of the same claim is none"
    );
    subject.clock.advance(Duration::from_secs(60));
    let next = deliver(&subject, "c2", 1).await.remove(0).run;
    assert_eq!((next.attempt, subject.store.view().run_failures(id).await.unwrap().len()), (2, 1));
    assert_eq!(answer(fail(&subject, &given).await), again, "also when the run has gone on");
    let (done, _) = answer(complete(&subject, &next).await);
    assert_eq!(answer(complete(&subject, &next).await), (done, false));
    assert_eq!(subject.run(id).await.verdict, Some(Verdict::Passed));
    assert!(subject.store.view().run_incidents(id).await.unwrap().is_empty(), "what is repeated is not late");
    subject.clock.advance(Duration::from_secs(60));
    assert_eq!(subject.store.control().forget_answers(subject.now()).await.unwrap(), 2);
}

/// SV-2: released is given back; cancelled is said by the next beat; past its time a run is lost.
async fn a_run_is_released_cancelled_or_over(subject: TestStore) {
    let ids = subject.submit(&["a", "a", "a"]).await;
    subject.clock.advance(Duration::from_secs(3));
    let given = deliver(&subject, "c1", 3).await;
    let released = report(&subject, &given[0].run, ReportKind::Release, End::Released { why: None }).await;
    assert!(matches!(&released, ReportOutcome::Answer { .. }));
    let back = subject.run(ids[0]).await;
    assert_eq!((back.state, back.attempt), (State::Queued, 0));
    subject.cancel(ids[1]).await;
    assert_eq!(beat(&subject, &given[1].run).await, HeartbeatAnswer::Cancelled);
    assert!(matches!(complete(&subject, &given[1].run).await, ReportOutcome::Late { .. }));
    let held = vec![held(&given[2].run, None)];
    let timeout = Duration::from_secs(20);
    let prolong = move |run: &Run, now| run.prolonged(now, LEASE, timeout);
    let beat = subject.store.data().beat_outside(held.clone(), prolong).await.unwrap()[0];
    assert_eq!(
        beat.until,
        Some(given[2].run.started_at.unwrap().saturating_add(timeout)),
        "no longer than it may take"
    );
    subject.clock.advance(timeout);
    assert_eq!(subject.store.data().beat_outside(held, prolong).await.unwrap()[0].answer, HeartbeatAnswer::Lost);
}

/// SV-2: a worker that names a run twice is not told that it has lost it.
async fn a_run_that_is_named_twice_is_held_twice(subject: TestStore) {
    subject.submit(&["a"]).await;
    let run = deliver(&subject, "c1", 1).await.remove(0).run;
    let twice = vec![held(&run, Some("0.1")), held(&run, Some("0.2"))];
    let beats = subject.store.data().beat_outside(twice, |run, now| run.prolonged(now, LEASE, LEASE * 10)).await;
    assert_eq!(beats.unwrap().into_iter().map(|beat| beat.answer).collect::<Vec<_>>(), [HeartbeatAnswer::Held; 2]);
}

/// SV-2: what a worker says of its progress is kept with its claim, and gone with it.
async fn progress_is_kept_while_a_worker_is_at_it(subject: TestStore) {
    let ids = subject.submit(&["a"]).await;
    subject.clock.advance(Duration::from_secs(9));
    let given = subject.store.data().deliver_runs(claim("c1", 1, vec![share(&["a"], None)])).await.unwrap();
    let said = async || subject.store.view().run_progress(&subject.run(ids[0]).await).await.unwrap();
    let beat = async |progress: Option<&str>| {
        let held = vec![held(&given[0].run, progress)];
        let prolong = |run: &Run, now| run.prolonged(now, LEASE, LEASE * 10);
        subject.store.data().beat_outside(held, prolong).await.unwrap()[0].answer
    };
    assert_eq!(said().await, None);
    assert_eq!(beat(Some("0.5")).await, HeartbeatAnswer::Held);
    assert_eq!(said().await.as_deref(), Some("0.5"));
    beat(None).await;
    assert_eq!(said().await.as_deref(), Some("0.5"), "saying nothing takes nothing back");
    complete(&subject, &given[0].run).await;
    assert_eq!(said().await, None);
}

/// SV-2: an attempt that took as long as it may is recorded as that.
async fn a_time_out_is_no_silence(subject: TestStore) {
    let ids = subject.submit(&["a"]).await;
    subject.clock.advance(Duration::from_secs(9));
    let given = subject.store.data().deliver_runs(claim("c1", 1, vec![share(&["a"], None)])).await.unwrap();
    let limit = LEASE * 2;
    let beat = async || {
        let prolong = move |run: &Run, now| run.prolonged(now, LEASE, limit);
        subject.store.data().beat_outside(vec![held(&given[0].run, None)], prolong).await.unwrap()[0].answer
    };
    for _ in 0..2 {
        assert_eq!(beat().await, HeartbeatAnswer::Held);
        subject.clock.advance(LEASE - Duration::from_secs(1));
    }
    assert_eq!(beat().await, HeartbeatAnswer::Held);
    subject.clock.advance(Duration::from_secs(2));
    let terms = move |_: &Run| Terms { policy: RetryPolicy::process(), limit: Some(limit) };
    assert_eq!(subject.store.data().expire(Workload::Process, 9, terms).await.unwrap().len(), 1);
    let failures = subject.store.view().run_failures(ids[0]).await.unwrap();
    assert_eq!(failures[0].record.message, format!("timed out after {} s", limit.as_secs()));
}

/// Sections share a claim, and each keeps its limit.
async fn a_claim_is_shared_among_sections(subject: TestStore) {
    subject.submit(&["a", "a", "a", "a", "b", "b", "b", "b"]).await;
    subject.clock.advance(Duration::from_secs(9));
    let shares = vec![share(&["a"], Some(3)), share(&["b"], Some(1))];
    let given = subject.store.data().deliver_runs(claim("c1", 6, shares)).await.unwrap();
    let count = |category: &str| given.iter().filter(|given| given.run.work.category() == category).count();
    assert_eq!((count("a"), count("b")), (3, 1));
}

/// SV-2: any call registers a worker; `drain` is kept and repeated; both times are kept.
async fn any_call_makes_a_worker_known_and_drain_is_repeated(subject: TestStore) {
    let call = |asks_for: Option<&str>| OutsideCall {
        worker: "py".to_owned(),
        host: "10.0.0.7".to_owned(),
        asks_for: asks_for.map(|category| vec![category.to_owned()]),
    };
    let data = subject.store.data();
    assert!(!data.meet(call(None)).await.unwrap());
    let seen = subject.store.view().processes().await.unwrap().remove(0);
    assert_eq!((seen.kind, seen.name.as_str(), seen.last_claim), (Kind::Outside, "py", None));
    subject.clock.advance(Duration::from_secs(5));
    data.meet(call(Some("a"))).await.unwrap();
    let claimed = subject.now();
    subject.clock.advance(Duration::from_secs(5));
    assert!(subject.store.control().drain_worker(&subject.operation("drain"), "py", true).await.unwrap());
    assert!(!subject.store.control().drain_worker(&subject.operation("drain"), "nobody", true).await.unwrap());
    assert!(data.meet(call(None)).await.unwrap());
    assert!(data.meet(call(None)).await.unwrap(), "and again");
    let seen = subject.store.view().processes().await.unwrap().remove(0);
    assert_eq!((seen.last_seen, seen.last_claim, seen.drain), (subject.now(), Some(claimed), true));
    assert_eq!(seen.serves.categories, ["a"]);
}

crate::on_both_databases!(
    the_same_claim_gives_the_same_runs,
    a_lost_delivery_burns_nothing_and_is_told,
    a_run_that_is_named_twice_is_held_twice,
    progress_is_kept_while_a_worker_is_at_it,
    a_time_out_is_no_silence,
    silence_after_the_first_word_counts,
    the_same_report_gets_the_same_answer,
    a_run_is_released_cancelled_or_over,
    a_claim_is_shared_among_sections,
    any_call_makes_a_worker_known_and_drain_is_repeated,
);
