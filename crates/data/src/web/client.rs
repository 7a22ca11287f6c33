//! The HTTP client: encryption by rustls, no redirects of its own accord, no proxy from the environment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redrive_store::trust;
use reqwest::dns::Resolve;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;

use super::guard::{NoMetadata, PublicOnly};
use crate::failure::Failure;
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
    /// Made at once where all that it needs is there, and otherwise as soon as it is.
    made: OnceLock<Made>,
    connect_timeout: Duration,
    ca_file: Option<PathBuf>,
    pub(super) idle_timeout: Duration,
    pub(super) allow_private: bool,
    pub(super) redirects: bool,
    pub(super) max_ratio: u64,
}

#[derive(Debug)]
pub(super) struct Made {
    pub(super) http: reqwest::Client,
    /// For addresses that an answer led to.
    pub(super) led: reqwest::Client,
}

impl Client {
    /// A file of certificates that is not there may come later; one that holds none is a mistake.
    pub(crate) fn new(options: ClientOptions<'_>) -> Result<Self, SettingError> {
        let ClientOptions { connect_timeout, idle_timeout, allow_private, redirects, max_ratio, .. } = options;
        let (made, ca_file) = (OnceLock::new(), options.ca_file.map(Path::to_owned));
        let client = Self { made, connect_timeout, ca_file, idle_timeout, allow_private, redirects, max_ratio };
        match client.make() {
            Ok(made) => drop(client.made.set(made)),
            Err(why) if options.ca_file.is_some_and(Path::exists) => return Err(SettingError::at("ca_file", why)),
            Err(why) if options.ca_file.is_none() => return Err(SettingError::at("kind", why)),
            Err(_) => {}
        }
        Ok(client)
    }

    /// Why no request can be sent from here.
    pub(crate) fn missing(&self) -> Option<String> {
        self.made().err().map(|failure| failure.message)
    }

    /// The clients themselves. What keeps them from being made is the setup's fault.
    pub(super) fn made(&self) -> Result<&Made, Failure> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = self.make().map_err(|why| Failure::retryable(format!("ca_file {why}")).of_setup())?;
        Ok(self.made.get_or_init(|| made))
    }

    fn make(&self) -> Result<Made, String> {
        let mut tls = trust::web_client(self.ca_file.as_deref())?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let http = |resolver: Option<Resolver>| self.http(tls.clone(), resolver);
        let (http, led) = match self.allow_private {
            true => (http(None)?, http(Some(Arc::new(NoMetadata)))?),
            false => {
                let public = http(Some(Arc::new(PublicOnly)))?;
                (public.clone(), public)
            }
        };
        Ok(Made { http, led })
    }

    fn http(&self, tls: rustls::ClientConfig, resolver: Option<Resolver>) -> Result<reqwest::Client, String> {
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]))
            .connect_timeout(self.connect_timeout)
            .redirect(Policy::none())
            .referer(false)
            // A proxy would look names up itself, past the guard against private addresses.
            .no_proxy();
        let builder = match resolver {
            Some(resolver) => builder.dns_resolver(resolver),
            None => builder,
        };
        builder.build().map_err(|error| format!("the HTTP client cannot be made: {error}"))
    }
}

type Resolver = Arc<dyn Resolve>;
