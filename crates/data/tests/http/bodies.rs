//! What an answer's body may look like, and what must not pass for a whole one.

use std::io::Write as _;

use redrive_core::failure::ErrorClass;
use serde_json::json;

use crate::scripted::{Reply, Server};
use crate::{extract, http};

#[tokio::test]
async fn records_are_kept_as_they_stand_in_the_document() {
    let server = Server::start(|_| {
        Reply::ok("{\"meta\": {\"items\": [9]}, \"data\": {\"items\": [\n {\"a\": 1.50,\r\n  \"b\": \"x\\ny")
            .then("\"},[1],\n\"\u{e9}\" , null")
            .then("]}}\n")
    });
    let lines = extract(&http(&server, "/x", json!({"records": "data.items"}))).await.succeeded();
    assert_eq!(lines, [r#"{"a": 1.50,  "b": "x\ny"}"#, "[1]", "\"\u{e9}\"", "null"]);
}

#[tokio::test]
async fn the_document_itself_may_be_the_array() {
    let server = Server::start(|_| Reply::ok("[{\"n\":1},{\"n\":2}]"));
    assert_eq!(extract(&http(&server, "/x", json!({}))).await.succeeded(), [r#"{"n":1}"#, r#"{"n":2}"#]);
    let empty = Server::start(|_| Reply::ok(r#"{"items":null}"#));
    assert!(extract(&http(&empty, "/x", json!({"records": "items"}))).await.succeeded().is_empty());
    let nothing = Server::start(|_| Reply::new(204, ""));
    assert!(extract(&http(&nothing, "/x", json!({}))).await.succeeded().is_empty());
}

#[tokio::test]
async fn an_answer_of_another_shape_is_a_failure() {
    for (body, records, why) in [
        ("{}", "", "the document is no array"),
        ("{}", "data", "the answer has no array at data"),
        (r#"{"data":{}}"#, "data", "data is no array"),
        (r#"{"data":[1],"data":[2]}"#, "data", "data comes twice"),
        (r#"{"a":{"b":[1]},"x":0,"a":{"b":[2]}}"#, "a.b", "a.b comes twice"),
        ("<html>", "", "a value was expected at byte 0"),
        ("", "", "it breaks off after 0 bytes"),
        ("[1] [2]", "", "there is more after its end at byte 4"),
        ("[1,]", "", "a value was expected at byte 3"),
    ] {
        let server = Server::start(move |_| Reply::ok(body));
        let extracted = extract(&http(&server, "/x", json!({"records": records}))).await;
        let failure = extracted.failure();
        assert!(failure.message.contains(why), "{body} {failure}");
        assert_eq!(failure.class, ErrorClass::Retryable);
    }
}

#[tokio::test]
async fn a_body_that_is_cut_is_a_failure_that_may_pass() {
    for body in ["[{\"n\":1},{\"n\":2}", "[{\"n\":1},{\"n\":\"tw", "[{\"n\":1}]"] {
        let server = Server::start(move |_| Reply::ok(body).cut());
        let failure = extract(&http(&server, "/x", json!({}))).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Retryable, "{body}");
        assert!(failure.message.contains("/x failed: "), "{failure}");
        let whole_transfer = Server::start(move |_| Reply::ok(body.trim_end_matches(']')));
        let failure = extract(&http(&whole_transfer, "/x", json!({}))).await.failure().clone();
        assert!(failure.message.contains("it breaks off after"), "{failure}");
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    for (n, reply) in [|| Reply::silence(), || Reply::ok("[{\"n\":1},").hang()].into_iter().enumerate() {
        let server = Server::start(move |_| reply());
        let extractor = http(&server, "/x", json!({"idle_timeout": "300ms"}));
        let failure = extract(&extractor).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Retryable, "{n}");
        assert!(failure.message.contains("/x: nothing came for 300ms"), "{failure}");
    }
}

#[tokio::test]
async fn lines_are_records_however_they_are_cut() {
    let server = Server::start(|_| Reply::ok("{\"n\":1}\n{\"n\"").then(":2").then("}\r\n\n{\"n\":3}\n{\"n\":4}"));
    let lines = extract(&http(&server, "/x", json!({"format": "jsonl"}))).await.succeeded();
    assert_eq!(lines, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#, r#"{"n":4}"#]);

    let cut = Server::start(|_| Reply::ok("{\"n\":1}\n{\"n\":"));
    let failure = extract(&http(&cut, "/x", json!({"format": "jsonl"}))).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Retryable);
    assert!(failure.message.ends_with("the answer breaks off within record 2"), "{failure}");
}

#[tokio::test]
async fn a_compressed_body_is_read() {
    let server = Server::start(|request| {
        assert_eq!(request.headers["accept-encoding"], "gzip");
        Reply::ok(gzip(b"[{\"n\":1}]")).header("content-encoding", "gzip")
    });
    assert_eq!(extract(&http(&server, "/x", json!({}))).await.succeeded(), [r#"{"n":1}"#]);

    let damaged = Server::start(|_| Reply::ok(&gzip(b"[{\"n\":1}]")[..20]).header("content-encoding", "gzip"));
    let failure = extract(&http(&damaged, "/x", json!({}))).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Retryable, "{failure}");
}

#[tokio::test]
async fn every_member_of_a_compressed_body_is_read() {
    let server = Server::start(|_| {
        let members = [gzip(b"{\"n\":1}\n"), gzip(b"{\"n\":2}\n")].concat();
        Reply::ok(members).header("content-encoding", "gzip")
    });
    let lines = extract(&http(&server, "/x", json!({"format": "jsonl"}))).await;
    assert_eq!(lines.succeeded(), [r#"{"n":1}"#, r#"{"n":2}"#]);

    let other = Server::start(|_| Reply::ok("[]").header("content-encoding", "br"));
    let failure = extract(&http(&other, "/x", json!({}))).await.failure().clone();
    assert!(failure.message.contains("is encoded as \"br\""), "{failure}");
}

/// A cut at the end of a line would pass for the end, so lines need an end that can be told.
#[tokio::test]
async fn lines_without_a_length_are_taken_only_when_allowed() {
    let server = Server::start(|_| Reply::ok("{\"n\":1}\n").unframed());
    let failure = extract(&http(&server, "/x", json!({"format": "jsonl"}))).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Retryable);
    assert!(failure.message.contains("neither a length nor chunks"), "{failure}");
    let allowed = extract(&http(&server, "/x", json!({"format": "jsonl", "unframed": true}))).await;
    assert_eq!(allowed.succeeded(), [r#"{"n":1}"#]);
    let document = Server::start(|_| Reply::ok("[{\"n\":1}]").unframed());
    assert_eq!(
        extract(&http(&document, "/x", json!({}))).await.succeeded(),
        [r#"{"n":1}"#],
        "a document shows its end"
    );
}

/// What ends with the connection may end too early, between two members as well as between two lines.
#[tokio::test]
async fn neither_gzip_nor_a_coding_of_the_transfer_says_where_lines_end() {
    let members: fn() -> Reply = || Reply::ok(gzip(b"{\"n\":1}\n")).header("content-encoding", "gzip").unframed();
    let coded: fn() -> Reply = || Reply::ok("{\"n\":1}\n").header("transfer-encoding", "identity").unframed();
    for reply in [members, coded] {
        let server = Server::start(move |_| reply());
        let failure = extract(&http(&server, "/x", json!({"format": "jsonl"}))).await.failure().clone();
        assert!(failure.message.contains("neither a length nor chunks"), "{failure}");
        let allowed = extract(&http(&server, "/x", json!({"format": "jsonl", "unframed": true}))).await;
        assert_eq!(allowed.succeeded(), [r#"{"n":1}"#]);
    }
}

#[tokio::test]
async fn lines_with_a_length_are_taken() {
    let server = Server::start(|_| Reply::ok("{\"n\":1}\n").header("content-length", "8").unframed());
    assert_eq!(extract(&http(&server, "/x", json!({"format": "jsonl"}))).await.succeeded(), [r#"{"n":1}"#]);
}

#[tokio::test]
async fn fifty_megabytes_pass_through() {
    let server = Server::start(|_| {
        let part = format!("{{\"pad\":\"{}\"}},", "x".repeat(10_000)).repeat(100);
        (0..50).fold(Reply::ok("[").header("x", "y"), |reply, _| reply.then(&part)).then("0]")
    });
    assert_eq!(extract(&http(&server, "/x", json!({}))).await.succeeded().len(), 5001);
}

#[tokio::test]
async fn a_record_that_is_too_long_is_refused_for_good() {
    for (format, open) in [("json", "[\""), ("jsonl", "\"")] {
        let server = Server::start(move |_| {
            let part = "x".repeat(1 << 20);
            (0..18).fold(Reply::ok(open), |reply, _| reply.then(&part)).then("\"]")
        });
        let failure = extract(&http(&server, "/x", json!({"format": format}))).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final);
        assert!(failure.message.starts_with("record 1 is longer than 4 MiB"), "{failure}");
    }
}

/// Stored, not compressed, in the wrapping that gzip has.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    let length = u16::try_from(bytes.len()).unwrap();
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
    packed.write_all(&length.to_le_bytes()).unwrap();
    packed.write_all(&(!length).to_le_bytes()).unwrap();
    packed.write_all(bytes).unwrap();
    packed.write_all(&(!crc).to_le_bytes()).unwrap();
    packed.write_all(&u32::from(length).to_le_bytes()).unwrap();
    packed
}
