//! Settings that cannot work are named when the configuration is read.

use serde_json::{Value, json};

use crate::scripted::settings;

fn wrong(more: Value) -> String {
    let mut all = json!({"kind": "http", "url": "https://a.example/"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings(all).unwrap_err()
}

#[test]
fn every_slip_is_named() {
    for (more, why) in [
        (json!({"url": "ftp://a/"}), "must begin with https://"),
        (json!({"url": "{source}://a/"}), "must begin with https://"),
        (json!({"url": "https://a/{day}"}), "url: {day} is no placeholder"),
        (json!({"body": "{day}"}), "body: {day} is no placeholder"),
        (json!({"method": "GET", "body": "x"}), "a GET has no body"),
        (json!({"method": "BREW"}), "unknown variant `BREW`"),
        (json!({"urll": "x"}), "unknown field `urll`"),
        (json!({"idle_timeout": "5"}), "\"5\" is not a duration"),
        (json!({"records": "a..b"}), "records: \"a..b\" is no path"),
        (json!({"records": "a", "format": "jsonl"}), "records is for format = \"json\""),
        (json!({"next_link": "next", "format": "jsonl"}), "next_link needs format = \"json\""),
        (json!({"next_link": "next"}), "next_link needs a document with names"),
        (json!({"next_link": "a.next", "records": "a"}), "cannot be inside each other"),
        (json!({"next_link": "a", "records": "a.b"}), "cannot be inside each other"),
        (json!({"next_link": "a", "records": "b", "link_header": true}), "exclude each other"),
        (json!({"cursor": "a", "records": "b"}), "cursor: needs cursor_param"),
        (json!({"cursor_param": "a"}), "cursor_param: needs cursor"),
        (json!({"headers": {"bad name": "x"}}), "headers.\"bad name\": cannot be the name of a header"),
        (json!({"headers": {"Host": "x"}}), "headers.Host: is set by redrive itself"),
        (json!({"headers": {"x": "{day}"}}), "headers.x: {day} is no placeholder"),
        (json!({"headers": {"x": {"env": "NOT_THERE"}}}), "headers.x: the environment has no NOT_THERE"),
        (json!({"headers": {"x": {"env": "A", "file": "b"}}}), "either env or file"),
        (json!({"headers": {"x": {"prefix": "A"}}}), "either env or file"),
        (json!({"headers": {"x": {"env": "A", "suffix": "b"}}}), "unknown field `suffix`"),
        (json!({"headers": {"x": 7}}), "a text, { env = \"NAME\" } or { file = \"PATH\" }"),
        (json!({"ca_file": "/no/such/file"}), "ca_file: /no/such/file: "),
    ] {
        let told = wrong(more);
        assert!(told.contains(why), "{told} has no {why}");
    }
}

#[test]
fn a_file_without_certificates_is_none_to_trust() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    std::fs::write(&file, "hello").unwrap();
    assert!(wrong(json!({"ca_file": file})).contains("there is no certificate in it"));
}
