//! Airbyte sources made of shell.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_data::extract::Failure;
use serde_json::{Value, json};

use super::script::source;
use crate::lab::{Lab, NOW};

async fn failure(script: &str) -> Failure {
    let lab = Lab::new().await;
    let left = lab.extract(&source(&lab, script)).await;
    left.failure().clone()
}

#[tokio::test]
async fn the_data_of_the_stream_is_kept_as_it_stands() {
    let lab = Lab::new().await;
    let script = r#"trace STARTED; echo "not a message"; record '{"id":1, "price":1.50}'
        echo '{"type":"RECORD","record":{"stream":"hourly","data":{},"emitted_at":1}}'
        record '{"id":1}'; trace COMPLETE"#;
    let left = lab.extract(&source(&lab, script)).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), [r#"{"id":1, "price":1.50}"#, r#"{"id":1}"#]);
    assert_eq!(left.notes["records_seen"], 2);
}

#[tokio::test]
async fn the_source_is_given_a_catalog_with_one_stream() {
    let lab = Lab::new().await;
    let left = lab.extract(&source(&lab, r#"record "$(cat "$5")"; trace COMPLETE"#)).await;
    left.result.as_ref().unwrap();
    let catalog: Value = serde_json::from_slice(&left.lines[0]).unwrap();
    let stream = json!({ "name": "daily", "json_schema": {} });
    let only = json!({ "stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "overwrite" });
    assert_eq!(catalog, json!({ "streams": [only] }));
}

#[tokio::test]
async fn exit_code_0_is_not_enough() {
    for (script, why) in [
        ("record '{}'; trace STARTED", "never said that stream daily is COMPLETE"),
        ("record '{}'; trace INCOMPLETE", "says that stream daily is INCOMPLETE"),
        ("record '{}'", "set require_status = false"),
        (
            r#"record '{}'; echo '{"type":"STATE","state":{"type":"STREAM","stream":{"stream_descriptor":{"name":"daily"}},"sourceStats":{"recordCount":2.0}}}'; trace COMPLETE"#,
            "the source counted 2 records, and 1 arrived",
        ),
    ] {
        let failure = failure(script).await;
        assert!(failure.message.contains(why), "{failure}");
    }
}

#[tokio::test]
async fn an_old_source_may_be_allowed_to_give_no_status() {
    let lab = Lab::new().await;
    let settings = format!("{}require_status = false", source(&lab, "record '{}'"));
    lab.extract(&settings).await.result.unwrap();
}

#[tokio::test]
async fn complete_is_not_enough_either() {
    let failure = failure(r#"record '{}'; trace COMPLETE; echo why >&2; exit 75"#).await;
    assert_eq!(failure.class, ErrorClass::Retryable);
    assert!(failure.message.ends_with("exit code 75: why"), "{failure}");
}

#[tokio::test]
async fn a_source_complains_in_its_log() {
    let failure =
        failure(r#"printf "%s\n" '{"type":"LOG","log":{"level":"FATAL","message":"no login\ntrace"}}'; exit 1"#).await;
    assert!(failure.message.ends_with("exit code 1: no login"), "{failure}");
}

#[tokio::test]
async fn a_source_that_hit_its_limit_says_when_to_come_again() {
    let reset = NOW.saturating_add(Duration::from_secs(3600)).micros() / 1000;
    let reasons = format!(r#","reasons":[{{"type":"RATE_LIMITED","rate_limited":{{"quota_reset":{reset}.0}}}}]"#);
    let failure = failure(&format!("trace STARTED; trace RUNNING '{reasons}'; echo slow >&2; exit 1")).await;
    assert_eq!((failure.class, failure.retry_after), (ErrorClass::RateLimited, Some(Duration::from_secs(3600))));
}

#[tokio::test]
async fn a_stream_that_does_not_exist_is_final_and_those_that_do_are_named() {
    let mut lab = Lab::new().await;
    lab.job.query = Some("weekly".to_owned());
    let left = lab.extract(&source(&lab, "exit 0")).await;
    let told = "the source has no stream \"weekly\"; it has daily, hourly; name one as the query";
    assert_eq!(*left.failure(), Failure::fatal(told));
}

#[tokio::test]
async fn a_source_that_cannot_say_what_it_has_fails_with_its_own_words() {
    let says =
        r#"{"type":"TRACE","trace":{"type":"ERROR","error":{"message":"no login","failure_type":"config_error"}}}"#;
    let settings = format!("kind = 'airbyte'\ncommand = ['sh', '-c', '''echo '{says}'; exit 1''']");
    assert_eq!(*Lab::new().await.extract(&settings).await.failure(), Failure::fatal("no login"));
    let silent = Lab::new().await.extract("kind = 'airbyte'\ncommand = ['true']").await;
    assert_eq!(*silent.failure(), Failure::retryable("the source answered discover without a CATALOG"));
}
