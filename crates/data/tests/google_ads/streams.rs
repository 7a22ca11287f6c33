//! Streams: rows of every batch, and none of a stream that did not close.

use redrive_core::failure::ErrorClass;
use serde_json::json;

use crate::google::{CUSTOMER, ads, extract, failure, google};
use crate::scripted::{Bed, Reply, job};

#[tokio::test]
async fn the_rows_of_every_batch_are_records() {
    let server = google(|_| {
        Reply::ok("[{\n  \"results\": [\n    {\"campaign\": {\"id\": \"12")
            .then("3\"},\n \"metrics\": {\"clicks\": \"7\"}},{\"campaign\":{\"id\":\"4\"}}],\"fieldMask\":\"campaign.id\"}\n")
            .then(", {\"fieldMask\":\"campaign.id\",\"requestId\":\"in-the-body\"},{\"results\":[{\"n\":3}]}]")
            .header("request-id", "in-the-header")
    });
    let more = json!({"login_customer_id": "999-888-7777", "developer_token": {"env": "SECRET_developer"}});
    let extracted = extract(&ads(&server, more)).await;
    assert_eq!(extracted.notes["request_id"], json!("in-the-header"));
    let rows =
        [r#"{"campaign": {"id": "123"}, "metrics": {"clicks": "7"}}"#, r#"{"campaign":{"id":"4"}}"#, r#"{"n":3}"#];
    assert_eq!(extracted.succeeded(), rows);

    let [token, stream] = &server.requests()[..] else { panic!("two requests") };
    assert_eq!((token.method.as_str(), token.target.as_str()), ("POST", "/token"));
    assert_eq!(token.headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(
        token.body,
        "grant_type=refresh_token&client_id=value-of-client&client_secret=value-of-client%2Fsecret&refresh_token=value-of-refresh"
    );
    let target = "/v26/customers/1234567890/googleAds:searchStream";
    assert_eq!((stream.method.as_str(), stream.target.as_str()), ("POST", target));
    let body: serde_json::Value = serde_json::from_str(&stream.body).unwrap();
    assert_eq!(body, json!({"query": job(CUSTOMER, 1).query}));
    for (name, value) in [
        ("authorization", "Bearer access-1"),
        ("login-customer-id", "9998887777"),
        ("developer-token", "value-of-developer"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(stream.headers[name], value, "{name}");
    }
}

#[tokio::test]
async fn headers_that_are_not_configured_are_not_sent() {
    let server = google(|_| Reply::ok("[]"));
    assert!(extract(&ads(&server, json!({"version": "v24"}))).await.succeeded().is_empty());
    let stream = server.requests().pop().unwrap();
    assert!(stream.target.starts_with("/v24/"));
    assert!(!stream.headers.contains_key("login-customer-id") && !stream.headers.contains_key("developer-token"));
}

#[tokio::test]
async fn the_request_id_is_kept_wherever_it_stands_and_of_failures_too() {
    let server = google(|_| Reply::ok(r#"[{"results":[],"requestId":"in-the-body"}]"#));
    assert_eq!(extract(&ads(&server, json!({}))).await.notes["request_id"], json!("in-the-body"));
    let server = google(|_| Reply::new(400, failure("queryError", "X")).header("request-id", "r-1"));
    let extracted = extract(&ads(&server, json!({}))).await;
    assert_eq!(extracted.notes["request_id"], json!("r-1"));
    assert!(extracted.failure().message.ends_with("queryError.X: so it is (request-id r-1)"), "{extracted:?}");
}

#[tokio::test]
async fn a_stream_that_does_not_close_is_a_failure_that_may_pass() {
    let whole = r#"[{"results":[{"n":1},{"n":"two"}]}]"#;
    for end in [0, 1, 12, 21, 29, whole.len() - 1] {
        for cut in [false, true] {
            let server = google(move |_| if cut { Reply::ok(&whole[..end]).cut() } else { Reply::ok(&whole[..end]) });
            let extracted = extract(&ads(&server, json!({}))).await;
            assert_eq!(extracted.failure().class, ErrorClass::Retryable, "{}", &whole[..end]);
        }
    }
    for body in ["{}", "[1,]", "<html>", "[] []", r#"[{"results":{}}]"#] {
        let server = google(move |_| Reply::ok(body));
        assert_eq!(extract(&ads(&server, json!({}))).await.failure().class, ErrorClass::Retryable, "{body}");
    }
}

/// An array shows its own end, so it may come without a length.
#[tokio::test]
async fn a_stream_without_a_length_ends_where_its_array_does() {
    let server = google(|_| Reply::ok("[{\"results\":[{\"n\":1}]}]").unframed());
    assert_eq!(extract(&ads(&server, json!({}))).await.succeeded(), [r#"{"n":1}"#]);
    let cut = google(|_| Reply::ok("[{\"results\":[{\"n\":1}]}").unframed());
    assert_eq!(extract(&ads(&cut, json!({}))).await.failure().class, ErrorClass::Retryable);
}

#[tokio::test]
async fn a_stream_that_hangs_is_given_up() {
    let server = google(|_| Reply::ok(r#"[{"results":[{"n":1}]},"#).hang());
    let extracted = extract(&ads(&server, json!({"idle_timeout": "300ms"}))).await;
    let failure = extracted.failure();
    assert_eq!(failure.class, ErrorClass::Retryable);
    assert!(failure.message.contains("nothing came for 300ms"), "{failure}");
    assert_eq!(extracted.lines.len(), 1);

    let mute = google(|_| Reply::silence());
    let failure = extract(&ads(&mute, json!({"idle_timeout": "300ms"}))).await.failure().clone();
    assert!(failure.message.contains("nothing came for 300ms"), "{failure}");
}

#[tokio::test]
async fn an_error_after_some_batches_counts_as_the_error() {
    let error = failure("quotaError", "RESOURCE_EXHAUSTED");
    for (n, tail) in ["]", "", ",{\"results\":[]}]"].into_iter().enumerate() {
        let body = format!(r#"[{{"results":[{{"n":1}}]}},{error}{tail}"#);
        let server = google(move |_| Reply::ok(&body));
        let failure = extract(&ads(&server, json!({}))).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::RateLimited, "{n}");
        assert!(failure.message.contains("quotaError.RESOURCE_EXHAUSTED: so it is"), "{failure}");
    }
    let alone = failure("queryError", "BAD");
    let server = google(move |_| Reply::ok(&alone));
    assert_eq!(extract(&ads(&server, json!({}))).await.failure().class, ErrorClass::Final);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_for_good_and_not_asked() {
    let server = google(|_| Reply::ok("[]"));
    let extractor = ads(&server, json!({}));
    let bed = Bed::new().await;
    for (n, customer) in ["12345", "12345678901", "abc"].into_iter().enumerate() {
        let failure = bed.extract(&*extractor, &job(customer, u32::try_from(n).unwrap())).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final);
        assert!(failure.message.contains("is no Google Ads customer id"), "{failure}");
    }
    for (n, query) in [(7, None), (8, Some(" \n".to_owned()))] {
        let mut job = job(CUSTOMER, n);
        job.query = query;
        let failure = bed.extract(&*extractor, &job).await.failure().clone();
        assert_eq!(failure.class, ErrorClass::Final);
        assert!(failure.message.ends_with("set sources.ads.queries.daily.query"), "{failure}");
    }
    assert!(server.requests().is_empty());
}
