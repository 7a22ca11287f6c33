//! A JSON Schema for records.

use std::path::PathBuf;

use redrive_data::validate::{Rules, Settings};
use tempfile::TempDir;

use crate::lab::{Lab, verdict};

fn file(schema: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.schema.json");
    std::fs::write(&path, schema).unwrap();
    (dir, path)
}

fn build(schema: &str) -> Result<Rules, String> {
    let (_dir, path) = file(schema);
    Settings { schema: Some(path), ..Settings::default() }.build().map_err(|mistake| mistake.to_string())
}

async fn told(schema: &str, lines: &[&str]) -> Result<u64, String> {
    verdict(Lab::with(lines).await.verdict(&build(schema).unwrap()).await)
}

const CLICKS: &str = r#"{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "m": {"properties": {"clicks": {"type": "integer", "minimum": 0}}}}
}"#;

#[tokio::test]
async fn records_that_do_not_fit_are_told_with_their_place() {
    assert_eq!(told(CLICKS, &[r#"{"id":"1","m":{"clicks":0}}"#, r#"{"id":"2"}"#]).await, Ok(2));
    let lines = [r#"{"id":"1","m":{"clicks":-1}}"#, r#"{"id":"2"}"#, r#"{"id":3}"#, "{}", r#"{"id":4}"#];
    assert_eq!(
        told(CLICKS, &lines).await.unwrap_err(),
        "schema: 4 records do not fit, first record 1 at /m/clicks: -1 is less than the minimum of 0, \
         record 3 at /id: 3 is not of type \"string\", record 4: \"id\" is a required property"
    );
}

#[tokio::test]
async fn the_draft_is_the_one_that_the_schema_names() {
    // Until draft 4 `exclusiveMinimum` was true or false; later it is a number, and `true` is a mistake.
    let old = r#"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"minimum":0,"exclusiveMinimum":true}}}"#;
    assert_eq!(told(old, &[r#"{"n":1}"#]).await, Ok(1));
    assert!(told(old, &[r#"{"n":0}"#]).await.is_err());
    assert!(
        build(&old.replace("http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"))
            .is_err()
    );
}

#[tokio::test]
async fn what_cannot_be_held_cannot_be_checked() {
    let deep = format!("{{\"id\":\"1\",\"x\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    let huge = r#"{"id":"1","x":1e999}"#;
    let lone = r#"{"id":"\ud800"}"#;
    for line in [deep.as_str(), huge, lone] {
        let told = told(CLICKS, &[line]).await.unwrap_err();
        assert!(told.starts_with("schema: 1 record does not fit, first record 1: it cannot be checked ("), "{told}");
    }
    let fits = format!("{{\"id\":\"1\",\"x\":{}1{}}}", "[".repeat(120), "]".repeat(120));
    assert_eq!(told(CLICKS, &[&fits]).await, Ok(1));
}

#[tokio::test]
async fn a_schema_that_refers_to_itself_is_followed_as_far_as_the_record_goes() {
    let tree = r##"{"type":"object","properties":{"child":{"$ref":"#"}}}"##;
    let deep = "{\"child\":".repeat(100) + "{}" + &"}".repeat(100);
    assert_eq!(told(tree, &[&deep]).await, Ok(1));
    let wrong = deep.replace("{}", "7");
    assert!(told(tree, &[&wrong]).await.unwrap_err().contains("/child/child"));
}

#[test]
fn a_schema_that_cannot_be_used_is_a_mistake_in_the_settings() {
    for (schema, part) in [
        ("{", "it is not JSON"),
        (r#"{"type":"objekt"}"#, "it is no JSON Schema that can be used"),
        (r#"{"$ref":"http://127.0.0.1:9/other.json"}"#, "it is no JSON Schema that can be used"),
        (r#"{"$ref":"file:///etc/hostname"}"#, "it is no JSON Schema that can be used"),
    ] {
        let wrong = build(schema).unwrap_err();
        assert!(wrong.starts_with("schema: ") && wrong.contains("record.schema.json"), "{wrong}");
        assert!(wrong.contains(part) && !wrong.contains('\n'), "{wrong}");
    }
}

#[tokio::test]
async fn a_schema_that_is_not_there_is_read_as_soon_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("late.schema.json");
    let rules = Settings { schema: Some(path.clone()), ..Settings::default() }.build().unwrap();
    assert!(rules.missing()[0].contains("late.schema.json"), "{:?}", rules.missing());
    std::fs::write(&path, r#"{"required":["id"]}"#).unwrap();
    assert!(rules.missing().is_empty());
    let told = verdict(Lab::with(&["{}"]).await.verdict(&rules).await).unwrap_err();
    assert!(told.starts_with("schema: 1 record does not fit"), "{told}");
}

#[tokio::test]
async fn a_schema_that_is_nothing_but_itself_ends() {
    for circle in [
        r##"{"$ref":"#"}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
        r##"{"not":{"$ref":"#"}}"##,
    ] {
        let (_dir, path) = file(circle);
        if let Ok(rules) = (Settings { schema: Some(path), ..Settings::default() }).build() {
            let _either = Lab::with(&["{}"]).await.verdict(&rules).await;
        }
    }
}
