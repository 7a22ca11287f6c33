//! No secret gets into an error, a note or a debug text.

use serde_json::json;

use crate::google::{CUSTOMER, ads, extract, google, with_tokens};
use crate::scripted::{Bed, Reply, job};

const SECRETS: [&str; 5] =
    ["access-1", "value-of-client", "value-of-client/secret", "value-of-developer", "value-of-refresh"];

#[tokio::test]
async fn what_the_source_repeats_is_blacked_out() {
    let server = google(|request| {
        let said =
            format!("{} {} {}", request.headers["authorization"], request.headers["developer-token"], SECRETS[2]);
        Reply::new(400, json!({"error": {"message": said}}).to_string()).header("request-id", "id-access-1")
    });
    let extractor = ads(&server, json!({"developer_token": {"env": "SECRET_developer"}}));
    let extracted = extract(&extractor).await;
    assert!(extracted.failure().message.contains("Bearer *** *** ***"), "{extracted:?}");
    let secrets = extractor.secrets(&job(CUSTOMER, 1));
    assert!(SECRETS.iter().all(|secret| secrets.iter().any(|one| one == secret)), "{secrets:?}");
    let texts = format!("{extracted:?} {extractor:?}");
    assert!(SECRETS.iter().all(|secret| !texts.contains(secret)), "{texts}");
}

#[tokio::test]
async fn the_token_endpoint_cannot_show_them_either() {
    let server = with_tokens(|request| Reply::new(400, &request.body), |_| Reply::ok("[]"));
    let extractor = ads(&server, json!({}));
    let extracted = Bed::new().await.extract(&*extractor, &job("1234567890", 1)).await;
    let texts = format!("{extracted:?} {extractor:?}");
    assert!(texts.contains("answered 400"), "{texts}");
    assert!(SECRETS.iter().all(|secret| !texts.contains(secret)), "{texts}");
    assert!(!texts.contains("client%2Fsecret"), "not in the dress of a form: {texts}");
}

#[tokio::test]
async fn a_requests_name_in_the_body_cannot_show_them_either() {
    let server = google(|_| Reply::ok(json!([{"results": [], "requestId": "id-access-1"}]).to_string()));
    let extracted = extract(&ads(&server, json!({}))).await;
    assert_eq!(extracted.notes["request_id"], "id-***");
}
