//! A proxy that the configuration names. The environment's are never used.
//!
//! A proxy looks names up itself, so the guard against private addresses sees only what the proxy is told: an address that
//! stands in a URL is refused, a name that leads to one is not.

use url::Url;

use crate::failure::Failure;
use crate::settings::{Nothing, Secret, SecretRef, SettingError, Surroundings};

#[derive(Debug)]
pub(crate) struct Proxy {
    /// Without its user.
    url: Url,
    user: String,
    password: Option<Secret<Nothing>>,
}

impl Proxy {
    /// The proxy of the keys `proxy` and `proxy_password`.
    pub(crate) fn new(
        url: Option<&str>,
        password: Option<&SecretRef>,
        around: &Surroundings,
    ) -> Result<Option<Self>, SettingError> {
        let wrong = |why: &str| SettingError::at("proxy", why);
        let Some(text) = url else {
            let why = "needs proxy, which is not set; set that, or leave this out";
            return password.map_or(Ok(None), |_| Err(SettingError::at("proxy_password", why)));
        };
        let mut url = Url::parse(text).map_err(|_| wrong("is no URL; write it like \"http://proxy.example:3128\""))?;
        if url.password().is_some() {
            return Err(wrong("has a password in it; name that by proxy_password = { env = \"NAME\" }"));
        }
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !matches!(url.path(), "" | "/") {
            return Err(wrong("must be http:// or https:// with a host and a port, and no more"));
        }
        let user = percent_encoding::percent_decode_str(url.username()).decode_utf8_lossy().into_owned();
        if user.is_empty() && password.is_some() {
            return Err(wrong("has no user for its password; write it like \"http://user@proxy.example:3128\""));
        }
        let _ = url.set_username("");
        let password = password.map(|password| password.resolve(around)).transpose();
        let password = password.map_err(|why| SettingError::at("proxy_password", why))?;
        Ok(Some(Self { url, user, password }))
    }

    pub(super) async fn password(&self) -> Result<Option<String>, Failure> {
        match &self.password {
            Some(password) => password.read(&Nothing).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        self.password.as_ref().map(|password| password.known(&Nothing)).unwrap_or_default()
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn missing(&self) -> Option<String> {
        self.password.as_ref().and_then(Secret::missing)
    }

    /// As the client's library takes it.
    pub(super) fn with(&self, password: Option<&str>) -> Result<reqwest::Proxy, String> {
        let proxy =
            reqwest::Proxy::all(self.url.clone()).map_err(|error| format!("the proxy cannot be used: {error}"))?;
        Ok(match self.user.as_str() {
            "" => proxy,
            user => proxy.basic_auth(user, password.unwrap_or_default()),
        })
    }
}
