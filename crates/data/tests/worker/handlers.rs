//! Handlers of Rust code: what the worker makes of every way in which one may end.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::run::{State, Verdict};
use redrive_data::process::{Answer, Failure, Section, Sections};
use redrive_data::worker::LeaseTerms;
use redrive_fixture::eventually;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::house::{TestDataPlane, Work};
use crate::told::{Act, Told, section, work};

async fn an_answer_is_recorded_with_its_metrics(house: TestDataPlane) {
    let ids = house.submit_jobs("a", 2).await;
    let handler = Told::to(|job| {
        let verdict = if job.payload() == Some("0") { Verdict::NeedsReview } else { Verdict::Failed };
        let metrics = json!({"frames": 7, "attempts": "what it says of itself"}).as_object().unwrap().clone();
        Act::Answer(Answer { verdict, metrics })
    });
    let counts = house.drain_jobs(vec![section("a", handler)]).await;
    assert_eq!((counts.claimed, counts.accepted, counts.rejected), (2, 2, 0));
    for (id, verdict) in ids.into_iter().zip([Verdict::NeedsReview, Verdict::Failed]) {
        let run = house.run(id).await;
        assert_eq!((run.state, run.verdict), (State::Done, Some(verdict)));
        let metrics: Value = serde_json::from_str(&run.metrics.unwrap()).unwrap();
        assert_eq!((&metrics["frames"], &metrics["attempts"]), (&json!(7), &json!(1)));
        assert!(metrics["duration_seconds"].as_f64().unwrap() < 60.0);
    }
}

async fn a_handler_that_panics_has_failed(house: TestDataPlane) {
    let id = house.submit_jobs("a", 1).await[0];
    house.drain_jobs(vec![section("a", Told::to(|_| Act::Panic))]).await;
    let run = house.run(id).await;
    assert_eq!((run.state, run.error_class), (State::Waiting, Some(ErrorClass::Retryable)));
    assert!(run.error_message.unwrap().contains("panicked"));
}

async fn a_handler_that_takes_too_long_has_failed_and_is_dropped(house: TestDataPlane) {
    let id = house.submit_jobs("a", 1).await[0];
    let never = Arc::new(Semaphore::new(0));
    let handler = Told::to(move |_| Act::Wait(Arc::clone(&never)));
    let slow = Section { timeout: Duration::from_millis(50), ..section("a", Arc::clone(&handler) as _) };
    house.drain_jobs(vec![slow]).await;
    let run = house.run(id).await;
    assert_eq!((run.state, run.error_class), (State::Waiting, Some(ErrorClass::Retryable)));
    assert_eq!(run.error_message.as_deref(), Some("timed out after 0.05 s"));
    assert_eq!(handler.running(), 0);
}

/// A heartbeat is an hour away.
async fn an_operators_cancel_reaches_the_handler_at_once(house: TestDataPlane) {
    let ids = house.submit_jobs("a", 2).await;
    let gate = Arc::new(Semaphore::new(0));
    let handler = {
        let gate = Arc::clone(&gate);
        Told::to(move |_| Act::Wait(Arc::clone(&gate)))
    };
    let terms = LeaseTerms { lease: Duration::from_secs(7200), heartbeat: Duration::from_secs(3600) };
    let worker = house.serve(vec![section("a", Arc::clone(&handler) as _)], Work { terms, ..work() }).await.0;
    let working = tokio::spawn(worker.run());
    eventually("both are under way", async || handler.running() == 2).await;
    house.cancel(ids[0]).await;
    eventually("one was dropped", async || handler.running() == 1).await;
    gate.add_permits(1);
    let counts = working.await.unwrap().unwrap();
    assert_eq!((counts.accepted, counts.cancelled, counts.lost), (1, 1, 0));
    let cancelled = house.run(ids[0]).await;
    assert_eq!((cancelled.state, cancelled.error_message.as_deref()), (State::Dead, Some("cancelled by ada")));
}

async fn a_shutdown_gives_back_what_it_cannot_finish_without_an_attempt(house: TestDataPlane) {
    let id = house.submit_jobs("a", 1).await[0];
    let never = Arc::new(Semaphore::new(0));
    let handler = Told::to(move |_| Act::Wait(Arc::clone(&never)));
    let sections = vec![section("a", Arc::clone(&handler) as _)];
    let (worker, shutdown) = house.serve(sections, Work { drain: false, ..work() }).await;
    let working = tokio::spawn(worker.run());
    eventually("it is under way", async || handler.running() == 1).await;
    shutdown.request();
    shutdown.request();
    assert_eq!(working.await.unwrap().unwrap().released, 1);
    let run = house.run(id).await;
    assert_eq!((run.state, run.attempt, run.retry_count), (State::Queued, 0, 0));
    assert!(house.store.view().run_failures(id).await.unwrap().is_empty());
}

/// DESIGN 4.11: nothing of it counts, the section rests with one job at a time, and the other goes on.
async fn a_handler_that_cannot_be_used_burns_nothing_and_stops_nobody_else(house: TestDataPlane) {
    let ids = house.submit_jobs("broken", 50).await;
    house.submit_jobs("well", 100).await;
    let is_repaired = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let broken = {
        let is_repaired = Arc::clone(&is_repaired);
        Told::to(move |_| if is_repaired.load(std::sync::atomic::Ordering::SeqCst) { Act::Pass } else { Act::Unusable })
    };
    let sections = vec![section("broken", Arc::clone(&broken) as _), section("well", Told::to(|_| Act::Pass))];
    let (worker, shutdown) = house.serve(sections, Work { drain: false, ..work() }).await;
    let mut counts = worker.counts();
    let working = tokio::spawn(worker.run());
    counts.wait_for(|counts| counts.accepted == 100 && counts.released > 0).await.unwrap();
    let asked = broken.asked();
    assert!(asked <= 8, "no more than the permits were started before it was at rest: {asked}");
    eventually("it was looked at again", async || broken.asked() > asked).await;
    assert_eq!(broken.asked(), asked + 1, "with one job, not with all permits");
    for id in &ids {
        let run = house.run(*id).await;
        assert_eq!((run.retry_count, run.error_class), (0, None), "no attempt is burnt");
        assert!(run.attempt <= 1);
    }
    is_repaired.store(true, std::sync::atomic::Ordering::SeqCst);
    counts.wait_for(|counts| counts.accepted == 150).await.unwrap();
    shutdown.request();
    working.await.unwrap().unwrap();
    assert_eq!(house.run(ids[49]).await.attempt, 1);
}

/// A drain does what it can, and ends with the reason.
async fn a_drain_goes_on_without_a_section_that_cannot_be_used(house: TestDataPlane) {
    let ids = house.submit_jobs("broken", 20).await;
    house.submit_jobs("well", 20).await;
    let sections = vec![section("broken", Told::to(|_| Act::Unusable)), section("well", Told::to(|_| Act::Pass))];
    let worker = house.serve(sections, work()).await.0;
    let counts = worker.counts();
    let error = worker.run().await.unwrap_err();
    assert_eq!(error.to_string(), "[process.broken] cannot be used: out of paper");
    assert_eq!(counts.borrow().accepted, 20);
    let run = house.run(ids[0]).await;
    assert_eq!((run.state, run.attempt), (State::Queued, 0));
}

async fn secrets_are_in_neither_message_nor_trace(house: TestDataPlane) {
    let id = house.submit_jobs("a", 1).await[0];
    let mut handler = Told::to(|_| {
        let failure = Failure::fatal("the key s3cr3t-k3y is refused");
        Act::Say(b"sent s3cr3t-k3y\n[terminal]\x1b[1m\n".to_vec(), failure)
    });
    Arc::get_mut(&mut handler).unwrap().secrets = vec!["s3cr3t-k3y".to_owned()];
    house.drain_jobs(vec![section("a", handler)]).await;
    let run = house.run(id).await;
    assert_eq!(run.error_message.as_deref(), Some("the key *** is refused"));
    assert_eq!(run.error_traceback.as_deref(), Some("sent ***\n[terminal]\n"));
}

async fn only_the_categories_that_are_asked_for_are_claimed(house: TestDataPlane) {
    let (a, b) = (house.submit_jobs("a", 3).await, house.submit_jobs("b", 3).await);
    let both = Section { categories: vec!["a".to_owned(), "b".to_owned()], ..section("both", Told::to(|_| Act::Pass)) };
    let sections = Sections::new([both]).unwrap();
    let workloads = sections.workloads(&house.store.data(), Some(&["b".to_owned()]));
    let counts = house.worker_for(workloads, work()).await.0.run().await.unwrap();
    assert_eq!(counts.accepted, 3);
    assert_eq!(house.run(a[0]).await.state, State::Queued);
    assert_eq!(house.run(b[0]).await.state, State::Done);
}

#[test]
fn a_category_belongs_to_one_section() {
    let two = ["one", "two"].map(|name| Section {
        categories: vec!["shared".to_owned(), name.to_owned()],
        ..section(name, Told::to(|_| Act::Pass))
    });
    let error = Sections::new(two).unwrap_err();
    let text = "the category \"shared\" is in process.one and in process.two; it belongs to one section";
    assert_eq!(error.to_string(), text);
}

redrive_fixture::on_both_databases!(
    an_answer_is_recorded_with_its_metrics,
    a_handler_that_panics_has_failed,
    a_handler_that_takes_too_long_has_failed_and_is_dropped,
    an_operators_cancel_reaches_the_handler_at_once,
    a_shutdown_gives_back_what_it_cannot_finish_without_an_attempt,
    a_handler_that_cannot_be_used_burns_nothing_and_stops_nobody_else,
    a_drain_goes_on_without_a_section_that_cannot_be_used,
    secrets_are_in_neither_message_nor_trace,
    only_the_categories_that_are_asked_for_are_claimed,
);
