//! Settings that cannot work are named when the configuration is read.

use redrive_data::{Blame, Scope};
use serde_json::{Value, json};

use crate::scripted::{Reply, Server, settings};
use crate::{extract, http};

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
        (json!({"headers": {"x": {"env": "{day}"}}}), "headers.x: {day} is no placeholder"),
        (json!({"headers": {"x": {"command": []}}}), "headers.x: command names no program"),
        (json!({"headers": {"x": {"env": "A", "ttl": "1m"}}}), "ttl and timeout are for secrets that a command prints"),
        (json!({"headers": {"x": {"env": "A", "file": "b"}}}), "one of env, file and command"),
        (json!({"headers": {"x": {"prefix": "A"}}}), "one of env, file and command"),
        (json!({"headers": {"x": {"env": "A", "suffix": "b"}}}), "unknown field `suffix`"),
        (
            json!({"headers": {"x": 7}}),
            "a text, { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"PROGRAM\"] }",
        ),
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

#[tokio::test]
async fn what_is_not_there_is_the_setups_fault_until_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (token, ca) = (dir.path().join("token"), dir.path().join("ca.pem"));
    let server = Server::start(|request| Reply::ok(format!(r#"[{{"key":"{}"}}]"#, request.headers["x-key"])));
    let more = json!({"headers": {"x-key": {"file": token}, "x-other": {"env": "NOT_THERE"}}, "ca_file": ca});
    let extractor = http(&server, "/x", more);
    let missing = extractor.missing();
    assert_eq!(missing.len(), 3, "{missing:?}");
    for (missing, part) in missing.iter().zip(["token", "the environment has no NOT_THERE", "ca.pem"]) {
        assert!(missing.contains(part), "{missing}");
    }
    let failure = extract(&extractor).await.failure().clone();
    assert_eq!((failure.blame, failure.scope), (Blame::Setup, Scope::Source), "{failure}");

    let extractor = http(&server, "/x", json!({"headers": {"x-key": {"file": token}}}));
    assert_eq!(extract(&extractor).await.failure().blame, Blame::Setup);
    std::fs::write(&token, "now-it-is").unwrap();
    assert_eq!(extract(&extractor).await.succeeded(), [r#"{"key":"now-it-is"}"#]);
    assert!(extractor.missing().is_empty());
}

#[test]
fn a_private_address_is_told_before_it_is_asked() {
    for (url, is_told) in [
        ("http://10.0.0.1/{customer_id}", true),
        ("https://localhost/x", true),
        ("http://[::1]:80/x", true),
        ("https://api.example.com/x", false),
        ("https://{customer_id}.example.com/x", false),
        ("http://10.0.0.{customer_id}/x", false),
    ] {
        let missing = settings(json!({"kind": "http", "url": url})).unwrap().missing();
        assert_eq!(missing.iter().any(|why| why.contains("allow_private")), is_told, "{url}: {missing:?}");
    }
}
