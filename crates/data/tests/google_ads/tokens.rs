//! The access token: shared, fetched once, renewed once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redrive_core::failure::ErrorClass;
use redrive_core::time::Timestamp;
use redrive_data::extract::google_ads::{GoogleAds, Settings};
use redrive_data::extract::{Extractor, ExtractorContext};
use redrive_data::settings::{Surroundings, Variables};
use redrive_store::clock::ManualClock;
use serde_json::json;

use crate::google::{CUSTOMER, ads, config, counts, extract, failure, google, with_tokens};
use crate::scripted::{Bed, Extracted, Reply, Request, Server, job};

async fn extract_many(extractor: &dyn Extractor, jobs: u32) -> Vec<Extracted> {
    let bed = Bed::new().await;
    let run = async |n| bed.extract(extractor, &job(CUSTOMER, n)).await;
    join_all((0..jobs).map(run)).await
}

fn bearer(request: &Request) -> &str {
    &request.headers["authorization"]
}

#[tokio::test]
async fn jobs_at_the_same_time_share_one_token() {
    let server = google(|_| Reply::ok("[]"));
    let extractor = ads(&server, json!({}));
    for extracted in extract_many(&*extractor, 8).await {
        extracted.succeeded();
    }
    assert_eq!(counts(&server), (1, 8));
    extract(&extractor).await.succeeded();
    assert_eq!(counts(&server), (1, 9));
}

#[tokio::test]
async fn a_token_that_was_refused_is_renewed_once_for_all() {
    for (status, body) in [
        (401, failure("authenticationError", "OAUTH_TOKEN_EXPIRED")),
        (401, failure("authenticationError", "OAUTH_TOKEN_INVALID")),
        (401, String::new()),
        (200, format!("[{}]", failure("authenticationError", "OAUTH_TOKEN_EXPIRED"))),
    ] {
        let server = google(move |request| match bearer(request) {
            "Bearer access-1" => Reply::new(status, &body),
            "Bearer access-2" => Reply::ok("[]"),
            other => panic!("{other}"),
        });
        let extractor = ads(&server, json!({}));
        for extracted in extract_many(&*extractor, 5).await {
            extracted.succeeded();
        }
        assert_eq!(counts(&server), (2, 10));
    }
}

#[tokio::test]
async fn a_new_token_that_is_refused_as_well_is_final() {
    for body in [failure("authenticationError", "OAUTH_TOKEN_INVALID"), String::new()] {
        let server = google(move |_| Reply::new(401, &body));
        let failure = extract(&ads(&server, json!({}))).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final, "{failure}");
        assert_eq!(counts(&server), (2, 2));
    }
}

#[tokio::test]
async fn a_token_that_ends_after_rows_came_leaves_the_attempt_to_be_repeated() {
    let stale = failure("authenticationError", "OAUTH_TOKEN_EXPIRED");
    let body = format!(r#"[{{"results":[{{"n":1}}]}},{stale}]"#);
    let server = google(move |request| match bearer(request) {
        "Bearer access-1" => Reply::ok(&body),
        _ => Reply::ok(r#"[{"results":[{"n":1},{"n":2}]}]"#),
    });
    let extractor = ads(&server, json!({}));
    let extracted = extract(&extractor).await;
    assert_eq!((extracted.failure().class, extracted.lines.len()), (ErrorClass::Retryable, 1));
    assert_eq!(extract(&extractor).await.succeeded().len(), 2);
    assert_eq!(counts(&server), (2, 2));
}

#[tokio::test]
async fn a_token_is_used_until_shortly_before_its_end() {
    let server = google(|_| Reply::ok("[]"));
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let mut settings = config(&server, json!({}));
    settings.as_object_mut().unwrap().remove("kind");
    let settings: Settings = serde_json::from_value(settings).unwrap();
    let around = Surroundings::with(Variables::new(|_| Some("hush".to_owned())));
    let context = ExtractorContext { around, clock: Arc::new(clock.clone()) };
    let extractor = GoogleAds::new(&settings, &context).unwrap();
    let extractor: Arc<dyn Extractor> = Arc::new(extractor);
    for (later, tokens) in [(0, 1), (3538, 1), (1, 2), (3538, 2), (3600, 3)] {
        clock.advance(Duration::from_secs(later));
        extract(&extractor).await.succeeded();
        assert_eq!(counts(&server).0, tokens, "{later} s later");
    }
}

fn refusing(status: u16, body: &'static str) -> Server {
    let token = move |_: &Request| Reply::new(status, body).header("Retry-After", "5");
    with_tokens(token, |_| panic!("nothing may be asked without a token"))
}

#[tokio::test]
async fn a_token_that_cannot_be_had_is_a_failure() {
    use ErrorClass::{Final, RateLimited, Retryable};
    for (status, body, class, told) in [
        (
            400,
            r#"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#,
            Final,
            "invalid_grant: Token has been",
        ),
        (401, r#"{"error":"invalid_client"}"#, Final, "invalid_client"),
        (403, "no", Final, "answered 403 Forbidden: no"),
        (429, "", RateLimited, "answered 429"),
        (503, "", RateLimited, "answered 503"),
        (500, "oops", Retryable, "oops"),
        (200, "{}", Retryable, "no access token"),
        (200, "<html>", Retryable, "no access token"),
    ] {
        let server = refusing(status, body);
        let extracted = extract(&ads(&server, json!({}))).await;
        let failure = extracted.failure();
        assert_eq!(failure.class, class, "{status} {body}");
        assert!(failure.message.contains(told), "{failure}");
        assert!(failure.message.starts_with(&format!("POST {}", server.url("/token"))), "{failure}");
    }
}

#[tokio::test]
async fn jobs_that_waited_for_a_token_in_vain_do_not_ask_again() {
    let server = refusing(500, "");
    let extractor = ads(&server, json!({}));
    for extracted in extract_many(&*extractor, 6).await {
        assert_eq!(extracted.failure().class, ErrorClass::Retryable);
    }
    assert_eq!(counts(&server), (1, 0));
    extract(&extractor).await.failure();
    assert_eq!(counts(&server), (2, 0), "later ones do");
}

#[tokio::test]
async fn a_token_endpoint_that_hangs_is_given_up() {
    let server = with_tokens(|_| Reply::ok("{").hang(), |_| panic!("nothing may be asked without a token"));
    let failure = extract(&ads(&server, json!({"idle_timeout": "300ms"}))).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Retryable, "{failure}");
}

#[tokio::test]
async fn customers_with_credentials_of_their_own_have_tokens_of_their_own() {
    let server = google(|_| Reply::ok("[]"));
    let extractor = ads(&server, json!({"refresh_token": {"env": "SECRET_{customer_id}"}}));
    for customer in ["111-111-1111", "222-222-2222", "111-111-1111"] {
        Bed::new().await.extract(&*extractor, &job(customer, 1)).await.succeeded();
    }
    let sent: Vec<String> = server
        .requests()
        .into_iter()
        .filter(|request| request.target == "/token")
        .map(|request| request.body)
        .collect();
    assert_eq!(sent.len(), 2, "each is fetched once: {sent:?}");
    assert!(sent[0].ends_with("value-of-111_111_1111") && sent[1].ends_with("value-of-222_222_2222"), "{sent:?}");
    let known = extractor.secrets(&job("222-222-2222", 1));
    assert!(known.contains(&"access-2".to_owned()) && !known.contains(&"access-1".to_owned()), "{known:?}");
}
