//! One attempt, from its claim to its verdict.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::partition::{ControlEvent, Judgement, Status};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::State;
use redrive_data::extract::Failure;
use redrive_data::validate::{JudgedAttempt, Recorder, Verdict};
use redrive_fixture::eventually;
use redrive_store::Recorded;
use redrive_store::raw::RunOutcome;

use crate::house::{TERMS, TestDataPlane, Work, key, keys};
use crate::source::{Act, Source};

/// RP-2.1, RP-9.3
async fn an_accepted_run_is_current_and_has_its_raw_partition(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let tally = house.drain(Source::new(|_| Act::Bring(3))).await;
    assert_eq!((tally.claimed, tally.accepted, tally.records), (1, 1, 3));
    let state = house.partition(&key).await.state;
    assert_eq!((state.status, state.record_count, state.attempt_count), (Status::Success, Some(3), 1));
    let manifest = house.sink.view().manifest(&key, state.current_run_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((manifest.outcome, manifest.records, manifest.extractor.as_str()), (RunOutcome::Complete, 3, "told"));
    let run = house.attempts(&key).await.remove(0);
    let metrics: serde_json::Value = serde_json::from_str(&run.metrics.unwrap()).unwrap();
    assert_eq!((&metrics["records"], &metrics["parts"]), (&3.into(), &1.into()));
}

/// RP-2.2: whatever goes wrong, there is a manifest that says so, and the validator's verdict says the same.
async fn every_failure_leaves_a_manifest_and_a_verdict(house: TestDataPlane) {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let source = Source::new(move |job| match job.key.customer_id.as_str() {
        "final" => Act::Fail(Failure::fatal("no such report")),
        "later" => Act::Fail(Failure::retryable("connection reset")),
        "panics" => Act::Panic,
        _ => Act::Wait(Arc::clone(&gate)),
    });
    let expected = [
        ("final", ErrorClass::Final, "no such report"),
        ("later", ErrorClass::Retryable, "connection reset"),
        ("panics", ErrorClass::Retryable, "the extractor panicked; its log has more"),
        ("hangs", ErrorClass::Retryable, "timed out after 0.2 s"),
    ];
    house.want(&expected.map(|(customer, ..)| key(customer, 0))).await;
    let job = Work { timeout: Duration::from_millis(200), ..Work::with(source) };
    let work = house.worker(job).await.0.run();
    let tally = tokio::time::timeout(Duration::from_secs(30), work).await.expect("nothing hangs").unwrap();
    assert_eq!((tally.accepted, tally.rejected), (0, 4));
    for (customer, class, message) in expected {
        let key = key(customer, 0);
        let state = house.partition(&key).await.state;
        assert_eq!((state.status, state.error_class), (Status::Failed, Some(class)), "{customer}");
        assert_eq!((state.error_message.as_deref(), state.attempt_count), (Some(message), 1));
        assert_eq!(state.current_run_id, None);
        let run = house.attempts(&key).await.remove(0);
        let manifest = house.sink.view().manifest(&key, run.run_id).await.unwrap().unwrap();
        let told = RunOutcome::Failed { error_class: class.to_string(), message: message.to_owned() };
        assert_eq!(manifest.outcome, told, "{customer}");
    }
}

async fn a_secret_reaches_neither_state_nor_manifest(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let mut source = Source::of(|_| Act::Fail(Failure::fatal("401 for token hunter2-hunter2, sent hunter2-hunter2")));
    source.secret = Some("hunter2-hunter2".to_owned());
    house.drain(Arc::new(source)).await;
    let state = house.partition(&key).await.state;
    assert_eq!(state.error_message.as_deref(), Some("401 for token ***, sent ***"));
    let run = house.attempts(&key).await.remove(0);
    assert!(!format!("{run:?}").contains("hunter2"));
    let manifest = house.sink.view().manifest(&key, run.run_id).await.unwrap().unwrap();
    assert!(!format!("{manifest:?}").contains("hunter2"));
}

/// RP-3.1: a verdict whose answer was lost may be given again.
async fn a_verdict_given_twice_counts_once(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let claimed = house.claim(TERMS.lease).await;
    let recorder = Recorder::start(house.store.verdicts());
    let judged = |judgement: &Judgement| JudgedAttempt {
        claimed: claimed.clone(),
        judgement: judgement.clone(),
        metrics: "{}".to_owned(),
        trace: None,
        breaker: redrive_core::breaker::BreakerPolicy::OFF,
    };
    let accepted = Judgement::Accepted { records: 1 };
    for _ in 0..2 {
        let verdict = recorder.record(judged(&accepted)).await.unwrap();
        assert_eq!(verdict, Verdict::Recorded(accepted.clone()));
    }
    let rejected = Judgement::Rejected { class: ErrorClass::Retryable, message: "no".to_owned(), not_before: None };
    let other = recorder.record(judged(&rejected)).await.unwrap();
    assert!(matches!(other, Verdict::Refused(_)), "a different verdict is not the same one again: {other:?}");
    let state = house.partition(&key).await.state;
    assert_eq!((state.attempt_count, state.status), (1, Status::Success));
}

/// A run that was given back is nobody's to judge.
async fn a_released_run_is_refused_its_verdict(house: TestDataPlane) {
    house.want(&[key("c", 0)]).await;
    let claimed = house.claim(TERMS.lease).await;
    assert!(matches!(house.store.data().release(&claimed.run, None).await.unwrap(), Recorded::As(_)));
    let recorder = Recorder::start(house.store.verdicts());
    let judged = JudgedAttempt {
        claimed,
        judgement: Judgement::Accepted { records: 1 },
        metrics: "{}".to_owned(),
        trace: None,
        breaker: redrive_core::breaker::BreakerPolicy::OFF,
    };
    let verdict = recorder.record(judged).await.unwrap();
    assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
    assert_eq!(house.partition(&key("c", 0)).await.state.attempt_count, 0);
}

/// The sink is ours: its failure costs the partition no attempt.
async fn a_sink_that_fails_burns_no_attempt(house: TestDataPlane) {
    house.want(&[key("c", 0)]).await;
    let raw = house.database.path().join("raw");
    std::fs::remove_dir(&raw).unwrap();
    std::fs::write(&raw, "a file where the sink was").unwrap();
    let (worker, _) = house.worker(Work::with(Source::new(|_| Act::Bring(1)))).await;
    let error = worker.run().await.unwrap_err();
    assert!(matches!(error, redrive_data::Error::Raw(_)), "{error}");
    let partition = house.partition(&key("c", 0)).await;
    assert_eq!((partition.state.status, partition.state.attempt_count), (Status::Pending, 0));
    assert_eq!(partition.control.active, None, "it was given back");
    std::fs::remove_file(&raw).unwrap();
    assert_eq!(house.drain(Source::new(|_| Act::Bring(1))).await.accepted, 1);
}

/// A worker is at rest before it gives back what its sink did not take, and stays so until the sink is well: the partition
/// is not claimed over and over, and its one run in between says why.
async fn a_sink_that_fails_is_left_in_peace_until_it_is_well(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let raw = house.database.path().join("raw");
    std::fs::remove_dir(&raw).unwrap();
    std::fs::write(&raw, "a file where the sink was").unwrap();
    let work = Work { drain: false, poll: Duration::from_millis(10), ..Work::with(Source::new(|_| Act::Bring(1))) };
    let (worker, stop) = house.worker(work).await;
    let mut tally = worker.counts();
    let work = tokio::spawn(worker.run());
    eventually("it is given back", async || house.attempts(&key).await.iter().any(|run| run.state == State::Dead))
        .await;
    // Longer than its first rest.
    let again = tokio::time::timeout(Duration::from_millis(1500), tally.wait_for(|tally| tally.claimed > 1)).await;
    assert!(again.is_err(), "it was claimed again");
    std::fs::remove_file(&raw).unwrap();
    eventually("it is a success", async || house.partition(&key).await.state.status == Status::Success).await;
    stop.request();
    let tally = work.await.unwrap().unwrap();
    assert_eq!((tally.claimed, tally.released, tally.accepted), (2, 1, 1));
    let given_back = house.attempts(&key).await.remove(0);
    let message = given_back.error_message.unwrap();
    assert!(message.starts_with("released by its worker: ") && message.contains("raw"), "{message}");
    assert_eq!((given_back.verdict, house.partition(&key).await.state.attempt_count), (None, 1));
}

/// Key values that would escape, collide or trip a file system have directories of their own inside the sink.
async fn hostile_keys_have_directories_of_their_own(house: TestDataPlane) {
    let long = "x".repeat(256);
    let hostile = [
        "../../x",
        "a/b",
        ".",
        "..",
        "%2e",
        "%2E",
        "CON",
        "con",
        "Con",
        "caf\u{e9}",
        "cafe\u{301}",
        "a b",
        "a\\b",
        "~",
        "a%2Fb",
        &long,
    ];
    let keys: Vec<_> = hostile
        .iter()
        .map(|value| redrive_core::key::PartitionKey::new("src", value, value, "2026-01-01").unwrap())
        .collect();
    house.want(&keys).await;
    assert_eq!(house.drain(Source::new(|_| Act::Bring(1))).await.accepted, 16);
    let root = house.database.path().join("raw/source=src");
    let directories: std::collections::BTreeSet<String> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().to_lowercase())
        .collect();
    assert_eq!(directories.len(), 16, "one for each, also where case does not count: {directories:?}");
    let outside = std::fs::read_dir(house.database.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(outside.into_iter().all(|name| name == "raw" || name.to_string_lossy().starts_with("redrive.db")));
    for key in &keys {
        let state = house.partition(key).await.state;
        let manifest = house.sink.view().manifest(key, state.current_run_id.unwrap()).await.unwrap().unwrap();
        assert_eq!(manifest.key, *key);
    }
}

/// A partition for which alone the sink has no place runs out of attempts, and holds up nobody.
async fn a_partition_that_the_sink_refuses_is_rejected_by_itself(house: TestDataPlane) {
    let (bad, good) = (key("bad", 0), keys("good", 5));
    house.want(std::slice::from_ref(&bad)).await;
    house.want(&good).await;
    let raw = house.database.path().join("raw/source=src");
    std::fs::create_dir_all(&raw).unwrap();
    std::fs::write(raw.join("customer_id=bad"), "a file in the way").unwrap();
    let tally = house.drain(Source::new(|_| Act::Bring(1))).await;
    assert_eq!((tally.accepted, tally.rejected, tally.released), (5, 1, 0));
    let state = house.partition(&bad).await.state;
    assert_eq!((state.status, state.error_class), (Status::Failed, Some(ErrorClass::Retryable)));
    assert!(state.error_message.unwrap().contains("a file stands where a directory should be"));
}

/// A source may send back what it was sent, and a rejection quotes records.
async fn a_secret_that_comes_back_as_data_is_blacked_out(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let secret = "hunter2-".repeat(20);
    let mut source = Source::of({
        let secret = secret.clone();
        move |_| Act::Say(format!("auth failed for {secret}"))
    });
    source.secret = Some(secret);
    assert_eq!(house.drain(Arc::new(source)).await.rejected, 1);
    let message = house.partition(&key).await.state.error_message.unwrap();
    assert!(message.contains("auth failed for ***") && !message.contains("hunter2"), "{message}");
}

/// What is being judged when the worker must leave is given back too, and can be judged again by another.
async fn work_that_is_being_judged_is_given_back(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let stop_at_the_end = Arc::new(std::sync::OnceLock::<redrive_data::worker::Shutdown>::new());
    let source = {
        let stop = Arc::clone(&stop_at_the_end);
        // The last thing it does is to have the worker told, twice, that it must go.
        Source::new(move |_| {
            let stop = stop.get().unwrap().clone();
            Act::BringAnd(1, Box::new(move || (0..2).for_each(|_| stop.request())))
        })
    };
    let (worker, stop) = house.worker(Work { drain: false, ..Work::with(source) }).await;
    stop_at_the_end.set(stop).unwrap();
    let tally = worker.run().await.unwrap();
    assert_eq!((tally.accepted, tally.released, tally.lost), (0, 1, 0));
    let partition = house.partition(&key).await;
    assert_eq!((partition.state.attempt_count, partition.control.active), (0, None));
}

/// A database that refuses the verdict for good: the attempt is given back, and nobody waits for ever.
#[tokio::test]
async fn a_verdict_that_is_refused_for_good_ends_a_drain() {
    let house = TestDataPlane::sqlite().await;
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let database = rusqlite::Connection::open(house.database.path().join("redrive.db")).unwrap();
    let trigger = "CREATE TRIGGER no BEFORE UPDATE ON partitions WHEN new.status = 'success' BEGIN \
                   SELECT raise(ABORT, 'no successes here'); END";
    database.execute_batch(trigger).unwrap();
    let work = house.worker(Work::with(Source::new(|_| Act::Bring(1)))).await.0.run();
    let ended = tokio::time::timeout(Duration::from_secs(30), work).await.expect("it does not wait for ever");
    assert!(ended.unwrap_err().to_string().contains("no successes here"));
    let partition = house.partition(&key).await;
    assert_eq!((partition.state.attempt_count, partition.control.active), (0, None), "it was given back");
}

/// `max_shrink` holds against the run that was accepted last, also where a person has set the partition to pending.
async fn a_rerun_that_shrinks_is_refused_whatever_the_status(house: TestDataPlane) {
    let key = key("c", 0);
    house.want(std::slice::from_ref(&key)).await;
    let source = Source::new(|job| Act::Bring(if job.attempt == 1 { 10 } else { 4 }));
    let settings = redrive_data::validate::Settings { max_shrink: Some(0.5), ..Default::default() };
    let work = |source: &Arc<Source>| Work { rules: settings.build().unwrap(), ..Work::with(Arc::clone(source) as _) };
    assert_eq!(house.worker(work(&source)).await.0.run().await.unwrap().accepted, 1);
    let policy = RetryPolicy::partitions();
    let event = ControlEvent::Backfill { policy: &policy, force_pending: true };
    let before = house.partition(&key).await;
    house.put(before.clone(), event).await;
    assert_eq!(house.worker(work(&source)).await.0.run().await.unwrap().rejected, 1);
    let state = house.partition(&key).await.state;
    assert_eq!((state.status, state.current_run_id), (Status::Failed, before.state.current_run_id));
    assert!(state.error_message.unwrap().contains("max_shrink"));
}

/// A partition that runs out of attempts is counted when it does, and one whose error is final is not.
async fn running_out_of_attempts_is_counted_once(house: TestDataPlane) {
    let exhausted = || {
        let mut page = redrive_metrics::Page::default();
        house.store.metrics().write(&mut page);
        let text = page.into_text();
        let series = "redrive_retries_exhausted_total{workload=\"extract\"} ";
        text.lines().find_map(|line| line.strip_prefix(series)).unwrap().to_owned()
    };
    let keys = [key("later", 0), key("final", 0)];
    let source = Source::new(|job| match job.key.customer_id.as_str() {
        "final" => Act::Fail(Failure::fatal("no such report")),
        _ => Act::Fail(Failure::retryable("connection reset")),
    });
    let work = || Work { max_attempts: Some(2), ..Work::with(source.clone()) };
    house.want(&keys).await;
    for (attempt, counted) in [(1, "0"), (2, "1"), (3, "1")] {
        house.worker(work()).await.0.run().await.unwrap();
        assert_eq!(exhausted(), counted, "after attempt {attempt}");
        // A policy that allows more lets a third attempt begin.
        let more = RetryPolicy { max_attempts: Some(9), ..RetryPolicy::partitions() };
        for key in &keys {
            let retry = ControlEvent::Retry { policy: &more, clear_terminal: false, stale: false, grant: None };
            house.ask(key, retry).await;
        }
    }
}

redrive_fixture::on_both_databases!(
    current_thread:
    a_rerun_that_shrinks_is_refused_whatever_the_status,
    a_partition_that_the_sink_refuses_is_rejected_by_itself,
    a_secret_that_comes_back_as_data_is_blacked_out,
    work_that_is_being_judged_is_given_back,
    hostile_keys_have_directories_of_their_own,
    an_accepted_run_is_current_and_has_its_raw_partition,
    every_failure_leaves_a_manifest_and_a_verdict,
    a_secret_reaches_neither_state_nor_manifest,
    a_verdict_given_twice_counts_once,
    a_released_run_is_refused_its_verdict,
    running_out_of_attempts_is_counted_once,
    a_sink_that_fails_burns_no_attempt,
    a_sink_that_fails_is_left_in_peace_until_it_is_well,
);
