//! The HTTP client: encryption by rustls, no redirects of its own accord, no proxy but one that the configuration names.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_store::trust;
use reqwest::dns::Resolve;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use url::{Host, Url};

use super::guard::{NoMetadata, PublicOnly};
use super::proxy::Proxy;
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
    /// Made as soon as all that it needs is there, and anew when the proxy's password has changed.
    made: Mutex<Option<Made>>,
    pub(super) proxy: Option<Proxy>,
    connect_timeout: Duration,
    ca_file: Option<PathBuf>,
    pub(super) idle_timeout: Duration,
    pub(super) allow_private: bool,
    pub(super) redirects: bool,
    pub(super) max_ratio: u64,
}

#[derive(Clone)]
pub(super) struct Made {
    pub(super) http: reqwest::Client,
    /// For addresses that an answer led to.
    pub(super) led: reqwest::Client,
    password: Option<String>,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made(…)")
    }
}

impl Client {
    /// A file of certificates that is not there may come later; one that holds none is a mistake.
    pub(crate) fn new(options: ClientOptions<'_>, proxy: Option<Proxy>) -> Result<Self, SettingError> {
        let ClientOptions { connect_timeout, idle_timeout, allow_private, redirects, max_ratio, .. } = options;
        let (made, ca_file) = (Mutex::default(), options.ca_file.map(Path::to_owned));
        let client = Self { made, proxy, connect_timeout, ca_file, idle_timeout, allow_private, redirects, max_ratio };
        match client.make(None) {
            Ok(made) => *client.lock() = Some(made),
            Err(why) if options.ca_file.is_some_and(Path::exists) => return Err(SettingError::at("ca_file", why)),
            Err(why) if options.ca_file.is_none() => return Err(SettingError::at("kind", why)),
            Err(_) => {}
        }
        Ok(client)
    }

    /// Why no request can be sent from here.
    pub(crate) fn missing(&self) -> Vec<String> {
        let proxy = self.proxy.as_ref().and_then(Proxy::missing);
        let is_made = self.lock().is_some();
        let unmade = if is_made { None } else { self.make(None).err().map(|why| self.named(&why)) };
        proxy.into_iter().chain(unmade).collect()
    }

    /// The names that are looked up here on the way to these addresses: the proxy's, where there is one.
    pub(crate) fn hosts<'a>(&'a self, urls: impl IntoIterator<Item = &'a Url>) -> Vec<String> {
        let name = |url: &Url| match url.host() {
            Some(Host::Domain(name)) => Some(name.to_owned()),
            Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => None,
        };
        match &self.proxy {
            Some(proxy) => name(proxy.url()).into_iter().collect(),
            None => urls.into_iter().filter_map(name).collect(),
        }
    }

    /// What none of its failures may show.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.proxy.as_ref().map(Proxy::secrets).unwrap_or_default()
    }

    /// The clients themselves. What keeps them from being made is the setup's fault.
    pub(super) async fn made(&self) -> Result<Made, Failure> {
        let password = match &self.proxy {
            Some(proxy) => proxy.password().await?,
            None => None,
        };
        let mut made = self.lock();
        if let Some(made) = made.as_ref().filter(|made| made.password == password) {
            return Ok(made.clone());
        }
        let new = self.make(password).map_err(|why| Failure::retryable(self.named(&why)).of_setup())?;
        Ok(made.insert(new).clone())
    }

    fn make(&self, password: Option<String>) -> Result<Made, String> {
        let mut tls = trust::web_client(self.ca_file.as_deref())?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let http = |resolver: Option<Resolver>| self.http(tls.clone(), resolver, password.as_deref());
        let (http, led) = match (&self.proxy, self.allow_private) {
            (Some(_), _) => {
                // Names are looked up by the proxy; the only one that is looked up here is the proxy's own.
                let proxied = http(None)?;
                (proxied.clone(), proxied)
            }
            (None, true) => (http(None)?, http(Some(Arc::new(NoMetadata)))?),
            (None, false) => {
                let public = http(Some(Arc::new(PublicOnly)))?;
                (public.clone(), public)
            }
        };
        Ok(Made { http, led, password })
    }

    fn http(
        &self,
        tls: rustls::ClientConfig,
        resolver: Option<Resolver>,
        password: Option<&str>,
    ) -> Result<reqwest::Client, String> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]))
            .connect_timeout(self.connect_timeout)
            .redirect(Policy::none())
            .referer(false)
            // Of the environment: it would look names up itself, past the guard against private addresses.
            .no_proxy();
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.with(password)?);
        }
        if let Some(resolver) = resolver {
            builder = builder.dns_resolver(resolver);
        }
        builder.build().map_err(|error| format!("the HTTP client cannot be made: {error}"))
    }

    /// With the key that is most likely at fault.
    fn named(&self, why: &str) -> String {
        if self.ca_file.is_some() { format!("ca_file {why}") } else { why.to_owned() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Made>> {
        // It is set whole, also before a panic.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Resolver = Arc<dyn Resolve>;
