//! Stored bytes that cannot be had while the sink is well: retries after 60, 180 and 600 s, then FAILED; one that comes back in between is made good.

use std::path::PathBuf;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{State, label};
use redrive_data::worker::{AttemptEnd, AttemptResult};

use crate::everywhere;
use crate::lab::{Lab, Sink, conf};
use crate::proxy::Way;

/// Takes the stored bytes out of reach, or gives them back.
fn set_out_of_reach(lab: &Lab, run_id: RunId, out: bool) {
    match &lab.proxy {
        Some(proxy) => proxy.fail(if out { Way::ForbidsUploads } else { Way::Well }),
        None => {
            let object: PathBuf = lab.database.path().join(format!("raw/_uploads/run_id={run_id}/archive"));
            let aside = lab.database.path().join("aside");
            let (from, to) = if out { (&object, &aside) } else { (&aside, &object) };
            std::fs::rename(from, to).unwrap();
        }
    }
}

async fn fail_once(lab: &Lab) {
    let claimed = lab.claim().await.unwrap();
    let result = lab.attempt(claimed).await;
    assert!(
        matches!(result, AttemptResult::Ended(AttemptEnd::Rejected { class: ErrorClass::Retryable })),
        "{result:?}"
    );
}

async fn storage_that_fails_is_tried_again_after_60_180_and_600_seconds(lab: Lab) {
    let run_id = lab.upload("props.conf", b"[a]\nb = 1\n").await.run.run_id;
    set_out_of_reach(&lab, run_id, true);
    four_tries_fail(&lab, run_id).await;
}

/// Each try of a run fails: it waits for 60, 180 and 600 s, and is FAILED after the last.
async fn four_tries_fail(lab: &Lab, run_id: RunId) {
    let clock = lab.clock.hold();
    for (retries, seconds) in [(1, 60), (2, 180), (3, 600)] {
        fail_once(lab).await;
        let run = lab.run(run_id).await;
        let (delay, now) = (Duration::from_secs(seconds), lab.store.now());
        assert_eq!((label(&run), run.state, run.retry_count), ("STORED", State::Waiting, retries));
        assert_eq!(run.next_retry_at, Some(now.saturating_add(delay)));
        assert!(run.error_message.is_some_and(|message| message.contains("archive")));
        clock.advance(delay - Duration::from_micros(1));
        assert!(lab.claim().await.is_none(), "not before its time");
        clock.advance(Duration::from_micros(1));
    }
    fail_once(lab).await;
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.state, run.next_retry_at), ("FAILED", State::Dead, None));
    assert_eq!((run.retry_count, run.attempt), (3, 4));
    let trace = run.error_traceback.unwrap();
    assert!(trace.starts_with("storage_error: ") && trace.contains("the stored archive"), "{trace}");
    let metrics = lab.metrics(run_id).await;
    assert_eq!((&metrics["error_type"], &metrics["retry_count"]), (&"storage_error".into(), &3.into()));
    assert!(metrics["duration_seconds"].is_f64());
    let failures = lab.store.view().run_failures(run_id).await.unwrap();
    let delays: Vec<_> = failures.iter().map(|failure| failure.record.delay.map(|delay| delay.as_secs())).collect();
    assert_eq!(delays, [Some(60), Some(180), Some(600), None]);
}

async fn storage_that_comes_back_is_made_good_by_the_retry(lab: Lab) {
    let run_id = lab.upload("props.conf", b"[a]\nb = 1\n").await.run.run_id;
    set_out_of_reach(&lab, run_id, true);
    fail_once(&lab).await;
    set_out_of_reach(&lab, run_id, false);
    lab.clock.hold().advance(Duration::from_secs(60));
    let claimed = lab.claim().await.unwrap();
    let result = lab.attempt(claimed).await;
    assert!(matches!(result, AttemptResult::Ended(AttemptEnd::Accepted { records: 1 })), "{result:?}");
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.error_message, run.error_class), ("COMPLETE", None, None));
    assert_eq!(lab.metrics(run_id).await["retry_count"], 1);
}

/// An object that is not what was stored is the storage's fault, not the archive's: it may be restored.
async fn a_damaged_object_is_tried_again(lab: Lab) {
    let bytes = crate::lab::tar(&[("a/default/props.conf", b"[a]\nb = 1\n")]);
    for damaged in [bytes[..900].to_vec(), {
        let mut other = bytes.clone();
        other[520] ^= 1;
        other
    }] {
        let uploaded = lab.upload("apps.tar", &bytes).await;
        let run_id = uploaded.run.run_id;
        lab.replace(&uploaded.upload.stored.object, &damaged).await;
        fail_once(&lab).await;
        let run = lab.run(run_id).await;
        assert_eq!((run.state, run.retry_count), (State::Waiting, 1));
        assert!(run.error_message.unwrap().contains("is not what was uploaded"));
        assert_eq!(lab.metrics(run_id).await["error_type"], "storage_error");
        lab.replace(&uploaded.upload.stored.object, &bytes).await;
        lab.clock.hold().advance(Duration::from_secs(60));
        let claimed = lab.claim().await.unwrap();
        let result = lab.attempt(claimed).await;
        assert!(matches!(result, AttemptResult::Ended(AttemptEnd::Accepted { records: 1 })), "{result:?}");
    }
}

/// A database that refuses what is written is tried again like storage that fails.
async fn a_database_that_refuses_is_tried_again(lab: Lab) {
    let run_id = lab.upload("props.conf", &conf(10)).await.run.run_id;
    lab.database.execute("ALTER TABLE settings RENAME TO away");
    fail_once(&lab).await;
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.state, run.retry_count), ("STORED", State::Waiting, 1));
    assert_eq!(lab.metrics(run_id).await["error_type"], "database_error");
    assert!(run.error_traceback.unwrap().starts_with("database_error: "));
    assert_eq!(lab.database.number("SELECT count(*) FROM stanzas"), 0, "a stanza without its settings is not there");
    lab.database.execute("ALTER TABLE away RENAME TO settings");
    lab.clock.hold().advance(Duration::from_secs(60));
    let claimed = lab.claim().await.unwrap();
    let result = lab.attempt(claimed).await;
    assert!(matches!(result, AttemptResult::Ended(AttemptEnd::Accepted { records: 10 })), "{result:?}");
}

/// A worker that fell silent: its run is tried again by the policy of uploads.
async fn a_worker_that_falls_silent_counts_as_a_failed_try(lab: Lab) {
    let clock = lab.clock.hold();
    let run_id = lab.upload("props.conf", b"[a]\nb = 1\n").await.run.run_id;
    lab.claim().await.unwrap();
    clock.advance(Duration::from_secs(61));
    let counts = lab.drain().await;
    assert_eq!(counts.abandoned, 1);
    let run = lab.run(run_id).await;
    assert_eq!((run.state, run.retry_count), (State::Waiting, 1));
    assert_eq!(run.next_retry_at, Some(lab.store.now().saturating_add(Duration::from_secs(60))));
    clock.advance(Duration::from_secs(60));
    assert_eq!(lab.drain().await.accepted, 1);
    assert_eq!(label(&lab.run(run_id).await), "COMPLETE");
}

everywhere!(
    storage_that_fails_is_tried_again_after_60_180_and_600_seconds,
    storage_that_comes_back_is_made_good_by_the_retry,
    a_damaged_object_is_tried_again,
    a_database_that_refuses_is_tried_again,
    a_worker_that_falls_silent_counts_as_a_failed_try,
);

/// The client itself asks again for half a minute each time. What is short comes whole, so that the sink is well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; ./chaos runs it"]
async fn long_a_server_that_breaks_off_in_the_middle() {
    let lab = Lab::new(redrive_fixture::TestDatabase::sqlite(), Sink::S3).await;
    let run_id = lab.upload("props.conf", &conf(2_000)).await.run.run_id;
    let proxy = lab.proxy.as_ref().unwrap();
    proxy.fail(Way::BreaksOff);
    four_tries_fail(&lab, run_id).await;
    proxy.fail(Way::Well);
    lab.upload("props.conf", &conf(2_000)).await;
    assert_eq!(lab.drain().await.accepted, 1, "it is well again");
}
