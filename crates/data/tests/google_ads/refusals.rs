//! Errors over the wire; the whole table of codes is tested beside the function that reads them.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_data::Blame;
use redrive_data::extract::Scope;
use serde_json::{Value, json};

use crate::google::{ads, counts, extract, failure, google, with_tokens};
use crate::scripted::{Reply, Server};

#[tokio::test]
async fn every_class_of_error_arrives() {
    use ErrorClass::{Final, RateLimited, Retryable};
    for (status, category, word, class) in [
        (429, "quotaError", "RESOURCE_EXHAUSTED", RateLimited),
        (429, "quotaError", "RESOURCE_TEMPORARILY_EXHAUSTED", RateLimited),
        (500, "internalError", "INTERNAL_ERROR", Retryable),
        (409, "databaseError", "CONCURRENT_MODIFICATION", Retryable),
        (400, "requestError", "RPC_DEADLINE_TOO_SHORT", Retryable),
        (401, "authenticationError", "NOT_ADS_USER", Final),
        (403, "authorizationError", "USER_PERMISSION_DENIED", Final),
        (400, "headerError", "INVALID_LOGIN_CUSTOMER_ID", Final),
        (403, "quotaError", "ACCESS_PROHIBITED", Final),
        (400, "requestError", "UNSUPPORTED_VERSION", Final),
        (400, "queryError", "UNRECOGNIZED_FIELD", Final),
        (400, "dateRangeError", "INVALID_DATE", Final),
        (400, "changeEventError", "START_DATE_TOO_OLD", Final),
        (400, "clickViewError", "DATE_TOO_OLD", Final),
        (400, "unheardOfError", "NEW", Retryable),
    ] {
        for in_array in [false, true] {
            let error = failure(category, word);
            let body = if in_array { format!("[{error}]") } else { error };
            let server = google(move |_| Reply::new(status, &body));
            let failure = extract(&ads(&server, json!({}))).await.failure().clone();
            assert_eq!(failure.class, class, "{category}.{word}");
            let told = format!("googleAds:searchStream answered {status}");
            assert!(failure.message.contains(&told) && failure.message.contains(word), "{failure}");
            assert_eq!(counts(&server), (1, 1), "{category}.{word}");
        }
    }
}

#[tokio::test]
async fn a_status_without_codes_may_pass() {
    for status in [302, 403, 404, 500, 502, 503, 504] {
        let server = google(move |_| Reply::new(status, "<p>sorry</p>").header("Retry-After", "9"));
        let failure = extract(&ads(&server, json!({}))).await.failure().clone();
        assert_eq!((failure.class, failure.retry_after), (ErrorClass::Retryable, None), "{status}");
        assert!(failure.message.ends_with("<p>sorry</p>"), "{failure}");
    }
    let server = google(|_| Reply::new(429, "").header("Retry-After", "9"));
    let failure = extract(&ads(&server, json!({}))).await.failure().clone();
    assert_eq!((failure.class, failure.retry_after), (ErrorClass::RateLimited, Some(Duration::from_secs(9))));
}

#[tokio::test]
async fn a_refusal_whose_body_cannot_be_read_is_still_classified() {
    let unreadable = |status| Reply::new(status, "?").header("Content-Encoding", "zstd").header("Retry-After", "9");
    let server = google(move |_| unreadable(429));
    let failure = extract(&ads(&server, json!({}))).await.failure().clone();
    assert_eq!((failure.class, failure.retry_after), (ErrorClass::RateLimited, Some(Duration::from_secs(9))));
    assert!(failure.message.contains("its body cannot be read: "), "{failure}");
    let server = google(move |_| unreadable(401));
    assert_eq!(extract(&ads(&server, json!({}))).await.failure().class, ErrorClass::Final);
    assert_eq!(counts(&server), (2, 2), "another token was tried");
    let server = with_tokens(move |_| unreadable(429), |_| Reply::ok("[]"));
    let failure = extract(&ads(&server, json!({}))).await.failure().clone();
    assert_eq!((failure.class, failure.retry_after), (ErrorClass::RateLimited, Some(Duration::from_secs(9))));
    assert!(failure.message.contains("its body cannot be read: "), "{failure}");
}

#[tokio::test]
async fn a_quota_says_whom_it_holds_back_and_how_long() {
    for (rate_scope, scope, told, seconds) in
        [("ACCOUNT", Scope::Customer, "40591s", 40_591), ("DEVELOPER", Scope::Source, "1000000000000s", 86_400)]
    {
        let mut body: Value = serde_json::from_str(&failure("quotaError", "RESOURCE_EXHAUSTED")).unwrap();
        body["error"]["details"][0]["errors"][0]["details"] =
            json!({"quotaErrorDetails": {"rateScope": rate_scope, "rateName": "x", "retryDelay": told}});
        let server = google(move |_| Reply::new(429, body.to_string()));
        let failure = extract(&ads(&server, json!({}))).await.failure().clone();
        assert_eq!((failure.class, failure.scope), (ErrorClass::RateLimited, scope));
        assert_eq!(failure.retry_after, Some(Duration::from_secs(seconds)));
    }
}

/// A proxy that does not know us keeps everything of the source from being asked: that is no partition's fault.
#[tokio::test]
async fn a_proxy_that_does_not_know_us_is_the_setups_fault() {
    let proxy = Server::start(|_| Reply::new(407, "who are you"));
    for (endpoint, tokens) in
        [("https://ads.example", "https://tokens.example/"), ("http://localhost", "http://localhost/")]
    {
        let more = json!({"proxy": proxy.url(""), "endpoint": endpoint, "token_endpoint": tokens});
        let failure = extract(&ads(&proxy, more)).await.failure().clone();
        assert_eq!((failure.blame, failure.scope), (Blame::Setup, Scope::Source), "{failure}");
        assert!(failure.message.contains("the proxy answered 407"), "{failure}");
    }
}
