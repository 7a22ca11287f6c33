//! Connectors as they are on PyPI, run for real. Skipped, with a word on stderr, where they are not installed.

use std::fs;

use redrive_core::failure::ErrorClass;
use redrive_fixture::Connector;
use serde_json::Value;

use crate::lab::Lab;

/// Settings for tap-jsonl and a file of lines.
fn tap_jsonl(lab: &Lab, lines: &str) -> Option<String> {
    let tap = Connector::TapJsonl.find()?;
    let file = lab.path().join("lines.jsonl");
    fs::write(&file, lines).unwrap();
    let config =
        format!("config = {{ path = '{}', stream_name = '{{query_name}}', primary_keys = ['id'] }}\n", file.display());
    Some(format!("kind = 'singer'\ncommand = ['{}']\n{config}", tap.display()))
}

fn ids(lines: &[Vec<u8>]) -> Vec<u64> {
    let id = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).unwrap()["id"].as_u64().unwrap();
    lines.iter().map(id).collect()
}

#[tokio::test]
async fn tap_jsonl_brings_its_records_as_they_come() {
    let lab = Lab::new().await;
    let lines = "{\"id\":1,\"name\":\"ä\"}\n{\"id\":2}\n{\"id\":1,\"name\":\"ä\"}\n";
    let Some(settings) = tap_jsonl(&lab, lines) else { return };
    let left = lab.extract(&settings).await;
    left.result.as_ref().unwrap();
    assert_eq!(ids(&left.lines), [1, 2, 1]);
    assert_eq!(left.notes["records_seen"], 3);
}

#[tokio::test]
async fn tap_jsonl_that_is_asked_for_another_stream_is_told_what_there_is() {
    let mut lab = Lab::new().await;
    lab.job.query = Some("weekly".to_owned());
    let Some(settings) = tap_jsonl(&lab, "{\"id\":1}\n") else { return };
    let left = lab.extract(&settings).await;
    assert!(left.failure().message.contains("it has daily;"), "{:?}", left.result);
}

/// The tap drops a line that it cannot read, says so on stderr only, and exits with 0; what it counts is what it sent,
/// so there is nothing to compare. By itself that is a success with a record less. Two things help: a text on stderr
/// that is known beforehand, as here, and the validator's rules, which compare with other runs.
#[tokio::test]
async fn tap_jsonl_drops_a_corrupt_line_and_only_a_pattern_on_stderr_tells() {
    let lab = Lab::new().await;
    let Some(settings) = tap_jsonl(&lab, "{\"id\":1}\n{\"id\":2,\n{\"id\":3}\n") else { return };
    let left = lab.extract(&settings).await;
    left.result.as_ref().unwrap();
    assert_eq!(ids(&left.lines), [1, 3], "if it fails by itself now, this test has become needless");

    let lab = Lab::new().await;
    let strict = "stderr = [{ pattern = 'Skipping invalid JSON', class = 'final', even_on_success = true }]";
    let Some(settings) = tap_jsonl(&lab, "{\"id\":1}\n{\"id\":2,\n{\"id\":3}\n") else { return };
    let left = lab.extract(&format!("{settings}{strict}")).await;
    assert_eq!(left.failure().class, ErrorClass::Final);
    assert!(left.failure().message.contains("lines.jsonl:2"), "{:?}", left.result);
}

#[tokio::test]
async fn tap_jsonl_that_cannot_start_fails_with_its_last_words() {
    let lab = Lab::new().await;
    let Some(tap) = Connector::TapJsonl.find() else { return };
    let settings = format!("kind = 'singer'\ncommand = ['{}']\nconfig_file = '/dev/null'", tap.display());
    let left = lab.extract(&settings).await;
    assert!(left.failure().message.contains("ended with exit code 1: "), "{:?}", left.result);
    assert!(left.failure().message.contains("JSONDecodeError"), "{:?}", left.result);
}

fn source_faker(config: &str) -> Option<String> {
    let source = Connector::SourceFaker.find()?;
    Some(format!("kind = 'airbyte'\ncommand = ['{}']\nconfig = {config}\n", source.display()))
}

#[tokio::test]
async fn source_faker_brings_every_record_that_it_counts() {
    let mut lab = Lab::new().await;
    lab.job.query = Some("users".to_owned());
    let Some(settings) = source_faker("{ count = 1234, seed = 1, parallelism = 1 }") else { return };
    let left = lab.extract(&settings).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.lines.len(), 1234);
    assert_eq!(ids(&left.lines[..3]), [1, 2, 3]);
    assert_eq!(left.notes["records_seen"], 1234);
}

#[tokio::test]
async fn source_faker_with_a_wrong_configuration_is_final() {
    let mut lab = Lab::new().await;
    lab.job.query = Some("users".to_owned());
    let Some(settings) = source_faker("{ count = 'many' }") else { return };
    let left = lab.extract(&settings).await;
    assert_eq!(left.failure().class, ErrorClass::Final);
    assert!(left.failure().message.starts_with("Config validation error: 'many'"), "{:?}", left.result);
}

/// It was seen to exit with 0 after it had been asked for a stream that it does not have.
#[tokio::test]
async fn source_faker_without_the_stream_exits_with_0_and_still_fails() {
    let mut lab = Lab::new().await;
    lab.job.query = Some("weekly".to_owned());
    let Some(settings) = source_faker("{ count = 1 }") else { return };
    let left = lab.extract(&settings).await;
    assert!(left.failure().message.contains("it has products, users, purchases"), "{:?}", left.result);
    let catalog = lab.path().join("catalog.json");
    fs::write(&catalog, r#"{"streams":[{"name":"weekly","json_schema":{},"supported_sync_modes":["full_refresh"]}]}"#)
        .unwrap();
    let mut again = Lab::new().await;
    again.job.query = lab.job.query.clone();
    let left = again.extract(&format!("{settings}catalog_file = '{}'", catalog.display())).await;
    assert!(left.failure().message.contains("says that stream weekly is INCOMPLETE"), "{:?}", left.result);
}
