//! Storage that fails: retries after 60, 180 and 600 s, then FAILED; one that comes back in between is made good.

use std::path::PathBuf;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{State, label};
use redrive_data::worker::{AttemptEnd, AttemptResult};

use crate::everywhere;
use crate::lab::Lab;

/// Takes the stored bytes out of reach, or gives them back.
fn set_out_of_reach(lab: &Lab, run_id: RunId, out: bool) {
    match &lab.proxy {
        Some(proxy) => proxy.set_broken(out),
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
    let clock = lab.clock.hold();
    let run_id = lab.upload("props.conf", b"[a]\nb = 1\n").await.run.run_id;
    set_out_of_reach(&lab, run_id, true);
    for (retries, seconds) in [(1, 60), (2, 180), (3, 600)] {
        fail_once(&lab).await;
        let run = lab.run(run_id).await;
        let (delay, now) = (Duration::from_secs(seconds), lab.store.now());
        assert_eq!((label(&run), run.state, run.retry_count), ("STORED", State::Waiting, retries));
        assert_eq!(run.next_retry_at, Some(now.saturating_add(delay)));
        assert!(run.error_message.is_some_and(|message| message.contains("archive")));
        clock.advance(delay - Duration::from_micros(1));
        assert!(lab.claim().await.is_none(), "not before its time");
        clock.advance(Duration::from_micros(1));
    }
    fail_once(&lab).await;
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
    a_worker_that_falls_silent_counts_as_a_failed_try,
);
