//! Attempts that did not come to an end, or to a good one.

use redrive_core::failure::ErrorClass;
use redrive_core::partition::Judgement;
use redrive_core::time::Timestamp;
use redrive_data::Error;
use redrive_data::validate::Rules;
use redrive_store::raw::{self, RunOutcome};

use crate::lab::{Lab, rules, submission, verdict};

#[tokio::test]
async fn an_attempt_without_a_manifest_is_rejected() {
    let lab = Lab::new().await;
    assert_eq!(verdict(lab.verdict(&Rules::default()).await).unwrap_err(), "the attempt left no manifest");
    let lab = Lab::with(&["{}"]).await;
    std::fs::remove_file(lab.file("_manifest.json")).unwrap();
    assert_eq!(verdict(lab.verdict(&Rules::default()).await).unwrap_err(), "the attempt left no manifest");
}

#[tokio::test]
async fn a_failed_attempt_keeps_its_class_its_message_and_its_hint() {
    let hint = Timestamp::from_micros(99);
    for (word, class) in [
        ("final", ErrorClass::Final),
        ("retryable", ErrorClass::Retryable),
        ("rate_limited", ErrorClass::RateLimited),
        ("from the future", ErrorClass::Retryable),
    ] {
        let lab = Lab::new().await;
        let outcome = RunOutcome::Failed { error_class: word.to_owned(), message: "no luck".to_owned() };
        lab.write(&[b"half a rec"], outcome).await;
        let mut submission = submission();
        submission.not_before = Some(hint);
        let judgement = lab.verdict_of(&rules(r#"{"min_records":100}"#), &submission).await;
        let message = "no luck".to_owned();
        assert_eq!(judgement, Judgement::Rejected { class, message, not_before: Some(hint) }, "{word}");
    }
}

#[tokio::test]
async fn a_source_cannot_stop_its_own_retries_by_its_message() {
    let lab = Lab::new().await;
    let outcome = RunOutcome::Failed { error_class: "final".to_owned(), message: "[terminal] x".to_owned() };
    lab.write(&[], outcome).await;
    let Judgement::Rejected { message, .. } = lab.verdict(&Rules::default()).await else { panic!("accepted") };
    assert_eq!(message, "(terminal) x");
}

/// The hint is for attempts that the source refused; one that the rules refused may be tried by the policy alone.
#[tokio::test]
async fn a_hint_says_nothing_about_an_attempt_that_came_to_its_end() {
    let mut submission = submission();
    submission.not_before = Some(Timestamp::from_micros(99));
    let lab = Lab::with(&["{}"]).await;
    assert!(verdict(lab.verdict_of(&rules(r#"{"min_records":2}"#), &submission).await).is_err());
    assert_eq!(verdict(lab.verdict_of(&Rules::default(), &submission).await), Ok(1));
}

#[tokio::test]
async fn a_manifest_of_another_claim_is_rejected() {
    let lab = Lab::with(&["{}"]).await;
    let mut other = submission();
    other.fence = "019a0000-0000-7000-9000-000000000002".parse().unwrap();
    let message = verdict(lab.verdict_of(&Rules::default(), &other).await).unwrap_err();
    assert_eq!(
        message,
        "the manifest is from task 019a0000-0000-7000-9000-000000000001, \
         and this attempt is task 019a0000-0000-7000-9000-000000000002"
    );
}

#[tokio::test]
async fn a_manifest_of_another_run_format_or_no_manifest_at_all_is_rejected() {
    let lab = Lab::new().await;
    let manifest = lab.write(&[b"{}"], RunOutcome::Complete).await;
    let mut other = manifest.clone();
    other.run_id = "019a0000-0000-7000-8000-000000000002".parse().unwrap();
    lab.forge(&other);
    let message = verdict(lab.verdict(&Rules::default()).await).unwrap_err();
    assert!(message.contains("is not a manifest of this run"), "{message}");

    let mut later = manifest.clone();
    later.format = 2;
    lab.forge(&later);
    let message = verdict(lab.verdict(&Rules::default()).await).unwrap_err();
    assert!(message.contains("has format 2"), "{message}");

    std::fs::write(lab.file("_manifest.json"), b"{").unwrap();
    assert!(verdict(lab.verdict(&Rules::default()).await).is_err());

    lab.forge(&manifest);
    assert_eq!(verdict(lab.verdict(&Rules::default()).await), Ok(1));
}

#[cfg(unix)]
#[tokio::test]
async fn a_sink_that_cannot_be_read_is_an_error_and_no_judgement() {
    for name in ["part-00000.jsonl.zst", "_manifest.json"] {
        let lab = Lab::with(&["{}"]).await;
        let path = lab.file(name);
        std::fs::remove_file(&path).unwrap();
        // A link to itself can be read by nobody, not even by root.
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let error = lab.judge(&Rules::default(), &submission()).await.unwrap_err();
        assert!(matches!(error, Error::Raw(raw::Error::Storage { .. })), "{error}");
    }
}
