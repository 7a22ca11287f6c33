//! The HTTP client: encryption by rustls, no redirects of its own accord, no proxy from the environment.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive_store::trust;
use reqwest::dns::Resolve;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;

use super::guard::{NoMetadata, PublicOnly};
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
    /// How many bytes may come out of each compressed byte of an answer.
    pub(crate) max_ratio: u64,
}

/// What an answer may decompress to unless its source says otherwise: so many times what was sent.
pub(crate) const MAX_RATIO: u64 = 200;

#[derive(Debug)]
pub(crate) struct Client {
    pub(super) http: reqwest::Client,
    /// For addresses that an answer led to.
    pub(super) led: reqwest::Client,
    pub(super) idle_timeout: Duration,
    pub(super) allow_private: bool,
    pub(super) redirects: bool,
    pub(super) max_ratio: u64,
}

impl Client {
    pub(crate) fn new(options: ClientOptions<'_>) -> Result<Self, SettingError> {
        let ClientOptions { idle_timeout, allow_private, redirects, max_ratio, .. } = options;
        let tls = tls(options.ca_file)?;
        let http = |resolver: Option<Resolver>| http(options, tls.clone(), resolver);
        let (configured, led) = match allow_private {
            true => (http(None)?, http(Some(Arc::new(NoMetadata)))?),
            false => {
                let public = http(Some(Arc::new(PublicOnly)))?;
                (public.clone(), public)
            }
        };
        Ok(Self { http: configured, led, idle_timeout, allow_private, redirects, max_ratio })
    }
}

type Resolver = Arc<dyn Resolve>;

fn http(
    options: ClientOptions<'_>,
    tls: rustls::ClientConfig,
    resolver: Option<Resolver>,
) -> Result<reqwest::Client, SettingError> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
        .default_headers(HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]))
        .connect_timeout(options.connect_timeout)
        .redirect(Policy::none())
        .referer(false)
        // A proxy would look names up itself, past the guard against private addresses.
        .no_proxy();
    let builder = match resolver {
        Some(resolver) => builder.dns_resolver(resolver),
        None => builder,
    };
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
