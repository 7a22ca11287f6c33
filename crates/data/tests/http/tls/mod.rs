//! Encryption: who is trusted, and that it is not left again.

use std::path::PathBuf;
use std::sync::Arc;

use redrive_core::failure::ErrorClass;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::scripted::{Reply, Request, Server};
use crate::{extract, http};

/// Made for these tests and of no use elsewhere: an authority, and a certificate of it for this machine.
pub fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/http/tls").join(name)
}

pub fn encrypted(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Server, String) {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let wrap = move |stream| StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
    let server = Server::start_over(wrap, handler);
    let url = server.url("/x").replace("http:", "https:");
    (server, url)
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_when_it_is_named() {
    let (server, url) = encrypted(|_| Reply::ok("[1]"));
    let failure = extract(&http(&server, "", json!({"url": url}))).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Retryable);
    assert!(failure.message.contains("certificate"), "{failure}");
    assert!(server.requests().is_empty());
    let trusting = json!({"url": url, "ca_file": file("ca.pem")});
    assert_eq!(extract(&http(&server, "", trusting)).await.succeeded(), ["1"]);
}

#[tokio::test]
async fn neither_a_redirect_nor_a_link_leads_out_of_encryption() {
    let plain = Server::start(|_| Reply::ok("[2]"));
    let target = plain.url("/x");
    let (server, url) = encrypted(move |_| Reply::new(302, "").header("Location", &target));
    let settings = json!({"url": url, "ca_file": file("ca.pem"), "redirects": true});
    let failure = extract(&http(&server, "", settings)).await.failure().clone();
    assert_eq!(failure.class, ErrorClass::Final);
    assert!(failure.message.contains("leads from https to http://127.0.0.1"), "{failure}");

    let target = plain.url("/x");
    let (server, url) = encrypted(move |_| Reply::ok("[1]").header("Link", &format!("<{target}>; rel=next")));
    let settings = json!({"url": url, "ca_file": file("ca.pem"), "link_header": true, "next_hosts": ["127.0.0.1"]});
    let failure = extract(&http(&server, "", settings)).await.failure().clone();
    assert!(failure.message.contains("which is not encrypted"), "{failure}");
    assert!(plain.requests().is_empty());
}
