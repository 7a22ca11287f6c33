//! S3 over TLS: which servers are believed.

use redrive_fixture::{Authority, Certificate, S3};
use redrive_store::raw::{RawOptions, RawSink, RawUrl, S3Options};

use crate::lab::{attempt, key, lines, write};

/// A server whose authority the system does not know. The files go with the authority.
fn server() -> (S3, Certificate, Authority) {
    let authority = Authority::new();
    let certificate = authority.issue("IP:127.0.0.1");
    (S3::start_encrypted(&certificate), certificate, authority)
}

fn options(server: &S3, ca_file: Option<&str>) -> (RawUrl, RawOptions) {
    let bucket = server.fresh_bucket();
    let vars = [
        ("AWS_ENDPOINT_URL", bucket.endpoint.as_str()),
        ("AWS_REGION", &bucket.region),
        ("AWS_ACCESS_KEY_ID", &bucket.access_key),
        ("AWS_SECRET_ACCESS_KEY", &bucket.secret_key),
        ("AWS_CA_BUNDLE", ca_file.unwrap_or_default()),
    ];
    let url = format!("s3://{}/lake", bucket.name).parse().unwrap();
    (url, RawOptions { s3: S3Options::from_vars(vars), ..RawOptions::default() })
}

#[tokio::test]
async fn an_authority_that_is_named_is_trusted() {
    let (server, certificate, _authority) = server();
    let (url, options) = options(&server, Some(certificate.authority.to_str().unwrap()));
    let sink = RawSink::open(&url, &options).await.unwrap();
    let manifest = write(&sink, attempt(&key("a"), 1), &["{}"]).await.unwrap();
    assert_eq!(lines(&sink.view(), &manifest).await, ["{}"]);
}

#[tokio::test]
async fn an_authority_that_nobody_named_is_refused() {
    let (server, _, _authority) = server();
    let (url, options) = options(&server, None);
    let why = RawSink::open(&url, &options).await.unwrap_err().to_string();
    assert!(why.contains("certificate"), "{why}");
}

#[tokio::test]
async fn a_file_without_authorities_is_named() {
    let (server, certificate, _authority) = server();
    let (url, options) = options(&server, Some(certificate.key.to_str().unwrap()));
    let why = RawSink::open(&url, &options).await.unwrap_err().to_string();
    assert!(why.contains("ca_file") && why.contains("there is no certificate in it"), "{why}");
}
