//! Private addresses cannot be reached unless that is allowed, by whatever way they come.

use redrive_core::failure::ErrorClass;
use serde_json::json;

use crate::extract;
use crate::scripted::{Bed, Reply, Server, job, settings};

#[tokio::test]
async fn private_addresses_are_refused_as_numbers_and_as_names() {
    let server = Server::start(|_| Reply::ok("[]"));
    let on = |host: &str| server.url("/x?key=hidden").replace("127.0.0.1", host);
    for host in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1", "LOCALHOST"]
    {
        let failure = extract(&settings(json!({"kind": "http", "url": on(host)})).unwrap()).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final, "{host} {failure}");
        assert!(failure.message.contains("is the private address"), "{host} {failure}");
        assert!(failure.message.contains("set allow_private = true") && !failure.message.contains("hidden"));
    }
    assert!(server.requests().is_empty());
    let allowed = json!({"kind": "http", "url": on("localhost"), "allow_private": true});
    extract(&settings(allowed).unwrap()).await.succeeded();
}

#[tokio::test]
async fn a_customer_id_cannot_change_the_place() {
    let server = Server::start(|_| Reply::ok("[]"));
    let url = server.url("/c/{customer_id}/rows");
    let extractor = settings(json!({"kind": "http", "url": url, "allow_private": true})).unwrap();
    let bed = Bed::new().await;
    for (n, customer) in ["..", "."].into_iter().enumerate() {
        let job = job(customer, u32::try_from(n).unwrap());
        let failure = bed.extract(&*extractor, &job).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final);
        assert!(failure.message.contains("would lead to another place"), "{failure}");
    }
    for (n, customer, target) in [(7, "x/../y", "/c/x%2F..%2Fy/rows"), (8, "a?b#c%2e", "/c/a%3Fb%23c%252e/rows")] {
        bed.extract(&*extractor, &job(customer, n)).await.succeeded();
        assert_eq!(server.requests().last().unwrap().target, target);
    }
}

#[tokio::test]
async fn what_is_no_url_once_it_is_filled_in_is_refused_for_good() {
    for (url, why) in [
        ("https://{customer_id}.example.com/", "is no URL"),
        ("https://", "is no URL"),
        ("https://user:pa55@example.com/", "has a user or a password"),
    ] {
        let failure = extract(&settings(json!({"kind": "http", "url": url})).unwrap()).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final, "{url} {failure}");
        assert!(failure.message.contains(why) && !failure.message.contains("pa55"), "{failure}");
    }
}
