//! Singer taps made of shell.

use redrive_core::failure::ErrorClass;
use redrive_data::extract::Failure;
use serde_json::Value;

use super::script::tap;
use crate::lab::{Lab, SECRET, build};

async fn failure(script: &str, settings: &str) -> Failure {
    let lab = Lab::new().await;
    let left = lab.extract(&format!("{}{settings}", tap(&lab, script))).await;
    left.failure().clone()
}

#[tokio::test]
async fn the_records_of_one_stream_are_kept_as_they_come() {
    let lab = Lab::new().await;
    let script = r#"schema; schema hourly
        record '{"id":1, "price":1.50}'; record '{"id":2}'; record '{"id":1, "price":1.50}'
        echo '{"type":"RECORD","stream":"hourly","record":{"id":9}}'
        echo '{"type":"STATE","value":{}}'"#;
    let left = lab.extract(&tap(&lab, script)).await;
    left.result.as_ref().unwrap();
    let repeated = r#"{"id":1, "price":1.50}"#;
    assert_eq!(left.texts(), [repeated, r#"{"id":2}"#, repeated]);
    assert_eq!(left.notes["records_seen"], 3);
}

#[tokio::test]
async fn the_tap_is_given_a_catalog_with_one_stream_selected() {
    let lab = Lab::new().await;
    let left = lab.extract(&tap(&lab, r#"schema; record "$(cat "$4")""#)).await;
    left.result.as_ref().unwrap();
    let catalog: Value = serde_json::from_slice(&left.lines[0]).unwrap();
    for (stream, selected) in [(0, true), (1, false)] {
        assert_eq!(catalog["streams"][stream]["selected"], selected);
        assert_eq!(catalog["streams"][stream]["metadata"][0]["metadata"]["selected"], selected);
    }
}

#[tokio::test]
async fn the_query_names_the_stream() {
    let mut lab = Lab::new().await;
    lab.job.query = Some(" hourly\n".to_owned());
    let script = r#"schema hourly; record '{"id":1}'; echo '{"type":"RECORD","stream":"hourly","record":{"id":2}}'"#;
    let left = lab.extract(&tap(&lab, script)).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), [r#"{"id":2}"#]);
}

#[tokio::test]
async fn a_catalog_of_ones_own_is_used_as_it_is() {
    let lab = Lab::new().await;
    let catalog = lab.path().join("catalog.json");
    std::fs::write(&catalog, r#"{"streams": [{"tap_stream_id": "daily", "mine": true}]}"#).unwrap();
    let settings = format!("{}catalog_file = '{}'", tap(&lab, r#"schema; record "$(cat "$4")""#), catalog.display());
    let left = lab.extract(&settings).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), [r#"{"streams": [{"tap_stream_id": "daily", "mine": true}]}"#]);
}

#[tokio::test]
async fn a_stream_that_does_not_exist_is_final_and_those_that_do_are_named() {
    let mut lab = Lab::new().await;
    lab.job.query = Some("weekly".to_owned());
    let left = lab.extract(&tap(&lab, "exit 1")).await;
    let told = "the tap has no stream \"weekly\"; it has daily, hourly; name one as the query";
    assert_eq!(*left.failure(), Failure::fatal(told));
}

#[tokio::test]
async fn a_success_without_the_schema_of_the_stream_is_none() {
    let failure = failure("schema other; schema hourly", "").await;
    let told = "the tap sent no SCHEMA for stream \"daily\"; it sent these streams: hourly, other";
    assert_eq!(failure, Failure::fatal(told));
}

#[tokio::test]
async fn a_line_that_is_no_message_ends_it() {
    let failure = failure("schema; echo Traceback; sleep 1000", "").await;
    assert_eq!(failure, Failure::retryable("line 2 of the tap's output is no Singer message: \"Traceback\""));
}

#[tokio::test]
async fn exit_codes_and_texts_on_stderr_can_be_given_classes() {
    let settings = "exit_codes = { '3' = 'rate_limited', '4' = 'final' }
        stderr = [{ pattern = 'HTTP 429', class = 'rate_limited' }, { pattern = 'HTTP', class = 'final' }]";
    for (script, class, told) in [
        ("echo why >&2; exit 3", ErrorClass::RateLimited, "exit code 3: why"),
        ("exit 4", ErrorClass::Final, "exit code 4: it said nothing on stderr"),
        ("exit 1", ErrorClass::Retryable, "exit code 1: it said nothing on stderr"),
        ("exit 78", ErrorClass::Final, "exit code 78: it said nothing on stderr"),
        (
            "echo HTTP 429 >&2; echo HTTP 500 >&2; echo bye >&2; exit 4",
            ErrorClass::RateLimited,
            "exit code 4: HTTP 429",
        ),
        ("echo an HTTP 400 >&2; echo bye >&2; exit 3", ErrorClass::Final, "exit code 3: an HTTP 400"),
        ("echo HTTP 429 >&2; kill -9 $$", ErrorClass::RateLimited, "signal 9 (SIGKILL): HTTP 429"),
    ] {
        let failure = failure(script, settings).await;
        assert_eq!(failure.class, class, "{script}");
        assert!(failure.message.ends_with(told), "{failure}");
    }
}

#[tokio::test]
async fn a_text_on_stderr_fails_a_success_only_where_it_is_told_to() {
    let script = r#"schema; record '{"id":1}'; echo "skipping line 2" >&2"#;
    let lab = Lab::new().await;
    let tap = tap(&lab, script);
    lab.extract(&format!("{tap}stderr = [{{ pattern = 'skipping', class = 'final' }}]")).await.result.unwrap();
    let strict = "stderr = [{ pattern = 'skipping', class = 'final', even_on_success = true }]";
    let failure = failure(script, strict).await;
    assert_eq!(failure.class, ErrorClass::Final);
    assert!(failure.message.ends_with("exit code 0: skipping line 2"), "{failure}");
}

#[tokio::test]
async fn a_tap_that_cannot_say_what_it_has_fails_with_its_own_words() {
    let lab = Lab::new().await;
    let settings = "kind = 'singer'\ncommand = ['sh', '-c', 'echo no login >&2; exit 77']";
    assert_eq!(*lab.extract(settings).await.failure(), Failure::fatal("sh ended with exit code 77: no login"));
    let settings = "kind = 'singer'\ncommand = ['echo', 'hello']";
    let failure = lab_failure(settings).await;
    assert!(failure.message.starts_with("what the tap says on --discover is no catalog"), "{failure}");
    assert_eq!(failure.class, ErrorClass::Retryable);
}

async fn lab_failure(settings: &str) -> Failure {
    Lab::new().await.extract(settings).await.failure().clone()
}

#[test]
fn settings_that_cannot_work_are_refused_when_they_are_read() {
    let wrong = |settings: &str| build(&format!("kind = 'singer'\ncommand = ['x']\n{settings}")).unwrap_err();
    assert!(wrong("exit_codes = { '0' = 'final' }").contains("exit_codes.0: is no exit code of a failure"));
    assert!(wrong("exit_codes = { 'x' = 'final' }").contains("exit_codes.x: is no exit code of a failure"));
    assert!(wrong("exit_codes = { '3' = 'fatal' }").contains("error class \"fatal\" is unknown"));
    assert!(wrong("stderr = [{ pattern = '', class = 'final' }]").starts_with("stderr[0].pattern: is empty"));
    assert!(wrong("config_file = 'x'\nconfig = {}").contains("config and config_file are both there"));
    let deep = wrong("config = { a = [{ b = { env = '{day}' } }] }");
    assert!(deep.starts_with("config.a[0].b: {day} is no placeholder"), "{deep}");
    assert!(wrong("config = { a = { b = '{nope}' } }").starts_with("config.a.b: {nope} is no placeholder"));
    assert!(!wrong("config = { token = { env = 'API_TOKEN' }, b = '{nope}' }").contains(SECRET));
}
