//! Redirects: refused unless allowed, and never trusted with secrets.

use redrive_core::failure::ErrorClass;
use serde_json::json;

use crate::scripted::{Reply, Server};
use crate::{extract, http};

fn to(location: String, status: u16) -> Server {
    Server::start(move |request| match request.target.as_str() {
        "/old" => Reply::new(status, "moved").header("Location", &location),
        _ => Reply::ok("[1]"),
    })
}

#[tokio::test]
async fn a_redirect_is_refused_unless_allowed() {
    for status in [301, 302, 303, 307, 308] {
        let server = to("/new?token=t".to_owned(), status);
        let failure = extract(&http(&server, "/old", json!({}))).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Retryable);
        assert!(failure.message.contains("/new; set redirects = true"), "{failure}");
        assert_eq!(server.requests().len(), 1, "{status}");

        let headers = json!({"x-key": {"env": "SECRET_key"}});
        let allowed = http(&server, "/old", json!({"redirects": true, "headers": headers}));
        assert_eq!(extract(&allowed).await.succeeded(), ["1"]);
        assert_eq!(server.requests()[2].headers["x-key"], "value-of-key", "at home it is sent again");
    }
}

#[tokio::test]
async fn secrets_do_not_follow_a_redirect_to_another_site() {
    let other = Server::start(|_| Reply::ok("[2]"));
    for status in [302, 307] {
        let server = to(other.url("/steal"), status);
        let headers = json!({"x-key": {"env": "SECRET_key", "prefix": "k "}, "Cookie": "a=b", "x-plain": "p"});
        let extractor = http(&server, "/old", json!({"redirects": true, "headers": headers}));
        assert_eq!(extract(&extractor).await.succeeded(), ["2"]);
        assert_eq!(server.requests()[0].headers["x-key"], "k value-of-key");
        let asked = other.requests().pop().unwrap();
        assert_eq!(asked.headers["x-plain"], "p");
        assert!(!asked.headers.contains_key("x-key") && !asked.headers.contains_key("cookie"), "{asked:?}");
        assert!(!format!("{asked:?}").contains("value-of"), "{asked:?}");
    }
}

#[tokio::test]
async fn a_body_goes_along_only_where_the_method_does() {
    for (status, method, body) in [(302, "GET", ""), (303, "GET", ""), (307, "POST", "{}"), (308, "POST", "{}")] {
        let server = to("/new".to_owned(), status);
        extract(&http(&server, "/old", json!({"redirects": true, "body": "{}"}))).await.succeeded();
        let asked = server.requests().pop().unwrap();
        assert_eq!((asked.method.as_str(), asked.body.as_str()), (method, body), "{status}");
    }
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let server = to("/old".to_owned(), 302);
    let failure = extract(&http(&server, "/old", json!({"redirects": true}))).await.failure().clone();
    assert!(failure.message.ends_with("more than 10 redirects"), "{failure}");
    assert_eq!(server.requests().len(), 11);
    for location in ["ftp://127.0.0.1/x", "file:///etc/passwd"] {
        let server = to(location.to_owned(), 302);
        let failure = extract(&http(&server, "/old", json!({"redirects": true}))).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final);
        assert!(failure.message.ends_with("is neither http nor https"), "{failure}");
    }
}

/// The address that was configured may be one of them; what its answers lead to may not.
#[tokio::test]
async fn no_answer_leads_to_where_the_machine_keeps_secrets_even_with_private_addresses_allowed() {
    for target in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/latest/",
        "http://100.100.100.200/latest/",
    ] {
        let server = to(target.to_owned(), 302);
        let settings = http(&server, "/old", json!({"redirects": true, "allow_private": true}));
        let failure = extract(&settings).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final, "{target}");
        assert!(failure.message.contains("no answer may lead there"), "{target}: {failure}");
    }
}
