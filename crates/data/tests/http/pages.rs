//! From page to page, and not in circles.

use redrive_core::failure::ErrorClass;
use serde_json::json;

use crate::scripted::{Reply, Request, Server};
use crate::{extract, http};

/// Three pages, told apart by the query parameter `page`.
fn number(request: &Request) -> u32 {
    request.target.split_once("page=").map_or(1, |(_, page)| page.parse().unwrap())
}

#[tokio::test]
async fn links_in_the_document_are_followed() {
    let server = Server::start(|request| {
        let here = format!("http://{}", request.headers["host"]);
        let next = match number(request) {
            1 => json!("/x?page=2"),
            2 => json!(format!("{here}/x?page=3#top")),
            _ => json!(null),
        };
        Reply::ok(json!({"items": [number(request)], "links": {"next": next}}).to_string())
    });
    let more = json!({"records": "items", "next_link": "links.next", "headers": {"x-key": {"env": "SECRET_key"}}});
    let extracted = extract(&http(&server, "/x?day={logical_date}", more)).await;
    assert_eq!(extracted.notes["pages"], json!(3));
    assert_eq!(extracted.succeeded(), ["1", "2", "3"]);
    let targets: Vec<String> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/x?day=2026-01-31", "/x?page=2", "/x?page=3"]);
    assert!(server.requests().iter().all(|request| request.headers["x-key"] == "value-of-key"));
}

#[tokio::test]
async fn cursors_are_sent_as_parameters() {
    let server = Server::start(|request| {
        let body = match request.target.as_str() {
            "/x?c=0&q=%20" => r#"{"items":[1],"cursor":"a/b ="}"#,
            "/x?q=%20&c=a%2Fb+%3D" => r#"{"cursor":7,"items":[2]}"#,
            "/x?q=%20&c=7" => r#"{"items":[3],"cursor":""}"#,
            other => panic!("{other}"),
        };
        Reply::ok(body)
    });
    let more = json!({"records": "items", "cursor": "cursor", "cursor_param": "c"});
    assert_eq!(extract(&http(&server, "/x?c=0&q=%20", more)).await.succeeded(), ["1", "2", "3"]);
}

#[tokio::test]
async fn link_headers_are_followed() {
    let server = Server::start(|request| match number(request) {
        1 => Reply::ok("{\"n\":1}\n").header("Link", "</x?page=9>; rel=last, </x?page=2>; rel=\"next\""),
        _ => Reply::ok("{\"n\":2}\n").header("Link", "</x>; rel=\"first\""),
    });
    let more = json!({"format": "jsonl", "link_header": true});
    assert_eq!(extract(&http(&server, "/x", more)).await.succeeded(), [r#"{"n":1}"#, r#"{"n":2}"#]);
}

#[tokio::test]
async fn a_page_that_was_there_before_ends_it() {
    let server = Server::start(|request| {
        let next = if number(request) == 1 { 2 } else { 1 };
        Reply::ok(json!({"items": [1], "next": format!("/x?page={next}")}).to_string())
    });
    let failure = extract(&http(&server, "/x?page=1", json!({"records": "items", "next_link": "next"}))).await;
    let failure = failure.failure();
    assert!(failure.message.starts_with("page 3 at http://") && failure.message.ends_with("a loop"), "{failure}");
    assert_eq!(server.requests().len(), 2);

    let stuck = Server::start(|_| Reply::ok(r#"{"items":[],"cursor":"same"}"#));
    let more = json!({"records": "items", "cursor": "cursor", "cursor_param": "c"});
    let failure = extract(&http(&stuck, "/x", more)).await.failure().clone();
    assert!(failure.message.ends_with("a loop"), "{failure}");
    assert_eq!(stuck.requests().len(), 2);
}

#[tokio::test]
async fn there_are_no_more_pages_than_allowed() {
    let server = Server::start(|request| {
        Reply::ok(json!({"items": [1], "next": format!("/x?page={}", number(request) + 1)}).to_string())
    });
    let more = json!({"records": "items", "next_link": "next", "max_pages": 5});
    let failure = extract(&http(&server, "/x", more)).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Final);
    assert!(failure.message.contains("more than 5 pages") && failure.message.ends_with("raise max_pages"), "{failure}");
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn a_failure_on_a_later_page_is_the_failure_of_all() {
    let server = Server::start(|request| match number(request) {
        1 => Reply::ok(r#"{"items":[1],"next":"/x?page=2"}"#),
        _ => Reply::new(500, "oh"),
    });
    let extracted = extract(&http(&server, "/x", json!({"records": "items", "next_link": "next"}))).await;
    assert_eq!((extracted.lines.len(), extracted.failure().class), (1, ErrorClass::Retryable));
}

#[tokio::test]
async fn a_link_that_is_none_is_said() {
    for (next, why) in [("true", "next is no text"), ("{}", "next is no text"), (r#""http://[""#, "is no URL")] {
        let server = Server::start(move |_| Reply::ok(format!(r#"{{"items":[],"next":{next}}}"#)));
        let more = json!({"records": "items", "next_link": "next"});
        let failure = extract(&http(&server, "/x", more)).await.failure().clone();
        assert!(failure.message.contains(why), "{next} {failure}");
    }
}

#[tokio::test]
async fn a_link_to_another_site_is_followed_only_where_allowed_and_without_secrets() {
    let other = Server::start(|_| Reply::ok(r#"{"items":[2]}"#));
    let next = other.url("/y?token=t");
    let server = Server::start(move |_| Reply::ok(json!({"items": [1], "next": next}).to_string()));
    let more = |hosts: serde_json::Value| {
        let headers = json!({"x-key": {"env": "SECRET_key"}, "authorization": "Basic x", "x-plain": "p"});
        json!({"records": "items", "next_link": "next", "next_hosts": hosts, "headers": headers})
    };
    let failure = extract(&http(&server, "/x", more(json!([])))).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Final);
    assert!(failure.message.contains("/y, another site; put \"127.0.0.1\" into next_hosts"), "{failure}");
    assert!(other.requests().is_empty());

    assert_eq!(extract(&http(&server, "/x", more(json!(["127.0.0.1"])))).await.succeeded(), ["1", "2"]);
    let asked = &other.requests()[0].headers;
    assert_eq!(asked["x-plain"], "p");
    assert!(!asked.contains_key("x-key") && !asked.contains_key("authorization"), "{asked:?}");
}
