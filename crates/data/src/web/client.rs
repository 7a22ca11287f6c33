//! The HTTP client: encryption by rustls, no redirects of its own accord, no proxy from the environment.

use std::path::Path;
use std::time::Duration;

use redrive_store::trust;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;

use super::guard::PublicOnly;
use crate::settings::SettingError;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientOptions<'a> {
    pub(crate) connect_timeout: Duration,
    /// How long nothing may come: before an answer begins, and between two pieces of it.
    pub(crate) idle_timeout: Duration,
    /// Authorities to trust besides the system's.
    pub(crate) ca_file: Option<&'a Path>,
    pub(crate) allow_private: bool,
    /// Whether [`Client::fetch`] follows redirects.
    pub(crate) redirects: bool,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(super) http: reqwest::Client,
    pub(super) idle_timeout: Duration,
    pub(super) allow_private: bool,
    pub(super) redirects: bool,
}

impl Client {
    pub(crate) fn new(options: ClientOptions<'_>) -> Result<Self, SettingError> {
        let ClientOptions { idle_timeout, allow_private, redirects, .. } = options;
        Ok(Self { http: http(options)?, idle_timeout, allow_private, redirects })
    }
}

fn http(options: ClientOptions<'_>) -> Result<reqwest::Client, SettingError> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(options.ca_file)?)
        .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
        .default_headers(HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]))
        .connect_timeout(options.connect_timeout)
        .redirect(Policy::none())
        .referer(false)
        // A proxy would look names up itself, past the guard against private addresses.
        .no_proxy();
    let builder = if options.allow_private { builder } else { builder.dns_resolver(PublicOnly) };
    builder.build().map_err(|error| unusable(format!("the HTTP client cannot be made: {error}")))
}

fn tls(ca_file: Option<&Path>) -> Result<rustls::ClientConfig, SettingError> {
    let mut config = trust::web_client(ca_file).map_err(|why| SettingError::at("ca_file", why))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// No setting is wrong, but what was asked for cannot be had here.
fn unusable(why: String) -> SettingError {
    SettingError::at("kind", why)
}
