//! The files that connectors are given: what is in them, who may read them, and when they go.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::script::{source, tap};
use crate::lab::{Lab, SECRET, build, soon};

const CONFIG: &str = "config = { token = { env = 'API_TOKEN' }, start = '{logical_date}T00:00:00', day = '2026-01-31', \
    n = 7, ratio = 1.5, on = true, list = ['{customer_id}', { env = 'API_TOKEN' }], deep = { end = '{next_date}' } }\n";

fn expected() -> Value {
    json!({
        "token": SECRET, "start": "2026-01-31T00:00:00", "day": "2026-01-31", "n": 7, "ratio": 1.5, "on": true,
        "list": ["111-222", SECRET], "deep": { "end": "2026-02-01" },
    })
}

/// What a script does to tell the content, the place and the rights of the file in `$1`.
const TELL: &str = r#"tell() {
  echo "{\"config\":$(cat "$1"),\"path\":\"$1\",\"rights\":\"$(stat -c %a "$1") $(stat -c %a "$(dirname "$1")")\"}"
}
"#;

fn check(told: &[u8]) {
    let told: Value = serde_json::from_slice(told).unwrap();
    assert_eq!(told["config"], expected());
    assert_eq!(told["rights"], "600 700");
    assert!(!Path::new(told["path"].as_str().unwrap()).exists());
}

#[tokio::test]
async fn a_tap_finds_its_configuration_in_a_file_of_its_own_that_goes_with_it() {
    let lab = Lab::new().await;
    let tap = tap(&lab, &format!("{TELL}schema; record \"$(tell \"$2\")\""));
    let left = lab.extract(&format!("{tap}{CONFIG}")).await;
    left.result.as_ref().unwrap();
    check(&left.lines[0]);
}

#[tokio::test]
async fn a_source_finds_its_configuration_in_a_file_of_its_own_that_goes_with_it() {
    let lab = Lab::new().await;
    let source = source(&lab, &format!("{TELL}record \"$(tell \"$3\")\"; trace COMPLETE"));
    let left = lab.extract(&format!("{source}{CONFIG}")).await;
    left.result.as_ref().unwrap();
    check(&left.lines[0]);
}

#[tokio::test]
async fn the_files_go_when_the_extraction_is_dropped() {
    let lab = Lab::new().await;
    let told = lab.path().join("told");
    assert!(std::process::Command::new("mkfifo").arg(&told).status().unwrap().success());
    let extractor = build(&tap(&lab, &format!("schema; echo \"$2\" >{}; sleep 1000", told.display()))).unwrap();
    let mut records = lab.records();
    let heard = tokio::task::spawn_blocking(move || fs::read_to_string(told).unwrap());
    let path = tokio::select! {
        ended = extractor.extract(&lab.job, &mut records) => panic!("it ended: {ended:?}"),
        path = soon("the path", heard) => path.unwrap(),
    };
    assert!(path.ends_with("/config.json\n"), "{path}");
    assert!(!Path::new(path.trim()).parent().unwrap().exists());
}

#[tokio::test]
async fn a_file_of_ones_own_is_used_as_it_is_from_any_directory() {
    let lab = Lab::new().await;
    let file = lab.path().join("mine.json");
    fs::write(&file, "{\"mine\": true}").unwrap();
    let tap = tap(&lab, "schema; record \"$(cat \"$2\")\"");
    let left = lab.extract(&format!("{tap}config_file = '{}'\ndirectory = '/'", file.display())).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), ["{\"mine\": true}"]);
}

#[tokio::test]
async fn a_secret_of_the_configuration_is_shown_to_nobody() {
    let lab = Lab::new().await;
    let says = "cat \"$2\" >&2; exit 1";
    let extractor = build(&format!("{}{CONFIG}", tap(&lab, says))).unwrap();
    let failure = lab.run(&*extractor).await.failure().clone();
    assert!(failure.message.contains("\"token\":\"***\"") && !failure.message.contains(SECRET), "{failure}");
    assert!(!format!("{extractor:?}").contains(SECRET));
    assert_eq!(extractor.secrets(&lab.job), [SECRET, SECRET]);

    let lab = Lab::new().await;
    let says = "echo \"{\\\"type\\\":\\\"TRACE\\\",\\\"trace\\\":{\\\"type\\\":\\\"ERROR\\\",\\\"error\\\":{\\\"message\\\":\\\"bad $(sed s/.*token...// \"$3\" | tr -d \\\"})\\\"}}}\"";
    let extractor = build(&format!("{}config = {{ token = {{ env = 'API_TOKEN' }} }}", source(&lab, says))).unwrap();
    let failure = lab.run(&*extractor).await.failure().clone();
    assert_eq!(failure.message, "bad ***");
    assert!(!format!("{extractor:?}").contains(SECRET));
}
