//! Requests as they are sent, and refusals as they are understood.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_data::extract::Scope;
use serde_json::json;

use crate::scripted::{Reply, Server};
use crate::{extract, http};

#[tokio::test]
async fn placeholders_are_filled_in_where_they_stand() {
    let server = Server::start(|_| Reply::ok("[]"));
    let more = json!({
        "body": r#"{"q":"{query}","day":"{logical_date}"}"#,
        "headers": {"X-Customer": "id {customer_id}", "X-Key": {"env": "SECRET_key"}, "Authorization": {"env": "SECRET_token", "prefix": "Bearer "}},
    });
    extract(&http(&server, "/c/{customer_id}?from={logical_date}&to={next_date}", more)).await.succeeded();
    let asked = &server.requests()[0];
    assert_eq!(asked.method, "POST");
    assert_eq!(asked.target, "/c/a%2Fb?from=2026-01-31&to=2026-02-01");
    assert_eq!(
        asked.body,
        r#"{"q":"SELECT campaign.id FROM campaign WHERE campaign.name = \"a\"","day":"2026-01-31"}"#
    );
    for (name, value) in [
        ("x-customer", "id a/b"),
        ("x-key", "value-of-key"),
        ("authorization", "Bearer value-of-token"),
        ("content-type", "application/json"),
        ("user-agent", concat!("redrive/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(asked.headers[name], value, "{name}");
    }
}

#[tokio::test]
async fn the_method_is_get_unless_said_otherwise() {
    let server = Server::start(|_| Reply::ok("[]"));
    for (more, method) in
        [(json!({}), "GET"), (json!({"method": "PUT", "body": "1"}), "PUT"), (json!({"method": "POST"}), "POST")]
    {
        extract(&http(&server, "/", more)).await.succeeded();
        assert_eq!(server.requests().last().unwrap().method, method);
    }
}

#[tokio::test]
async fn a_refusal_is_classified_and_quoted() {
    use ErrorClass::{Final, RateLimited, Retryable};
    for (status, class) in [
        (400, Final),
        (401, Final),
        (403, Final),
        (404, Final),
        (408, Retryable),
        (425, Retryable),
        (429, RateLimited),
        (500, Retryable),
        (502, Retryable),
        (503, Retryable),
        (504, Retryable),
        (202, Retryable),
        (206, Retryable),
        (304, Retryable),
    ] {
        let body = if status == 304 { "" } else { "{\"error\":\n\t\"no such\u{7} thing\"}" };
        let server = Server::start(move |_| Reply::new(status, body));
        let failure = extract(&http(&server, "/x?key=hidden", json!({}))).await.failure().clone();
        assert_eq!((failure.class, failure.retry_after), (class, None), "{status}");
        let told = format!("GET {} answered {status}", server.url("/x"));
        assert!(failure.message.starts_with(&told), "{failure}");
        assert!(status == 304 || failure.message.ends_with(r#": {"error": "no such thing"}"#), "{failure}");
    }
}

#[tokio::test]
async fn a_source_that_says_when_is_heard() {
    let date = ("Date", "Sat, 31 Jan 2026 10:00:00 GMT");
    for (status, told, seconds) in [
        (429, "30", 30),
        (503, "7", 7),
        (429, "Sat, 31 Jan 2026 11:00:00 GMT", 3600),
        // A time that has passed is waited for as the shortest wait that a hint stands for.
        (503, "Sat, 31 Jan 2026 09:00:00 GMT", 1),
        (429, "1000000000000", 86_400),
        (429, "Sat, 31 Jan 2099 10:00:00 GMT", 86_400),
    ] {
        let server = Server::start(move |_| Reply::new(status, "").header("Retry-After", told).header(date.0, date.1));
        let failure = extract(&http(&server, "/x", json!({}))).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::RateLimited);
        assert_eq!((failure.retry_after, failure.scope), (Some(Duration::from_secs(seconds)), Scope::Customer));
        let of_source = http(&server, "/x", json!({"rate_limit_scope": "source"}));
        assert_eq!(extract(&of_source).await.failure().scope, Scope::Source);
    }
}

#[tokio::test]
async fn a_refusal_whose_body_cannot_be_read_is_still_classified() {
    use ErrorClass::{Final, RateLimited, Retryable};
    for (status, class) in [(429, RateLimited), (503, RateLimited), (401, Final), (404, Final), (500, Retryable)] {
        let server = Server::start(move |_| {
            Reply::new(status, "\u{b}\u{2}").header("Content-Encoding", "br").header("Retry-After", "30")
        });
        let failure = extract(&http(&server, "/x", json!({}))).await.failure().clone();
        assert_eq!((failure.class, failure.retry_after), (class, Some(Duration::from_secs(30))), "{status}");
        assert!(failure.message.contains(&format!("answered {status}")), "{failure}");
        assert!(
            failure.message.contains("its body cannot be read: ") && failure.message.contains("\"br\""),
            "{failure}"
        );
    }
    let gone = Server::start(|_| Reply::new(204, "").header("Content-Encoding", "br"));
    extract(&http(&gone, "/x", json!({}))).await.succeeded();
}

#[tokio::test]
async fn an_error_page_is_read_no_further_than_it_is_shown() {
    let endless = Server::start(|_| Reply::new(500, "x".repeat(5000)).hang());
    let failure = extract(&http(&endless, "/x", json!({}))).await.failure().clone();
    assert!(failure.message.len() < 600 && failure.message.ends_with("xx…"), "{failure}");
}

#[tokio::test]
async fn a_server_that_is_not_there_may_come_back() {
    let server = Server::start(|_| Reply::ok("[]"));
    let extractor = http(&server, "/x?key=hidden", json!({}));
    let name = format!("GET {} failed: ", server.url("/x"));
    drop(server);
    let failure = extract(&extractor).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Retryable);
    assert!(failure.message.starts_with(&name) && failure.message.contains("refused"), "{failure}");
    assert!(!failure.message.contains("hidden"), "{failure}");
}

#[tokio::test]
async fn a_server_without_encryption_cannot_be_asked_for_it() {
    let server = Server::start(|_| Reply::ok("[]"));
    let url = server.url("/x").replace("http:", "https:");
    let failure = extract(&http(&server, "", json!({"url": url}))).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Retryable, "{failure}");
}
