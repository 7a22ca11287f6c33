//! `[sources.<name>.extract]` with `kind = "google-ads"`.

use std::time::Duration;

use serde::Deserialize;
use url::{Host, Url};

use crate::settings::{SecretRef, SettingError, duration};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The OAuth client and the refresh token of a user with access, each `{ env = "NAME" }` or `{ file = "PATH" }`.
    pub client_id: SecretRef,
    pub client_secret: SecretRef,
    pub refresh_token: SecretRef,
    /// Sent only when it is set.
    #[serde(default)]
    pub developer_token: Option<SecretRef>,
    /// The manager account through which customers are reached, with or without dashes.
    #[serde(default)]
    pub login_customer_id: Option<String>,
    /// The API's version.
    #[serde(default = "version")]
    pub version: String,
    #[serde(default = "endpoint")]
    pub endpoint: String,
    #[serde(default = "token_endpoint")]
    pub token_endpoint: String,
    /// How long an attempt may take.
    #[serde(default, deserialize_with = "duration::option")]
    pub timeout: Option<Duration>,
    /// How long nothing may come: before an answer begins, and between two pieces of it.
    #[serde(default = "idle_timeout", deserialize_with = "duration::de")]
    pub idle_timeout: Duration,
    #[serde(default = "connect_timeout", deserialize_with = "duration::de")]
    pub connect_timeout: Duration,
    /// A proxy to go through, like `"http://user@proxy.example:3128"`. Those of the environment are not used.
    #[serde(default)]
    pub proxy: Option<String>,
    /// The password of the proxy's user, `{ env = "NAME" }` or any other secret.
    #[serde(default)]
    pub proxy_password: Option<SecretRef>,
}

impl Settings {
    /// Every secret that is named.
    pub(in crate::extract) fn secrets(&mut self) -> impl Iterator<Item = &mut SecretRef> {
        [&mut self.client_id, &mut self.client_secret, &mut self.refresh_token]
            .into_iter()
            .chain(&mut self.developer_token)
            .chain(&mut self.proxy_password)
    }

    /// Where a version's methods are.
    pub(super) fn base(&self) -> Result<Url, SettingError> {
        let digits = self.version.strip_prefix('v').unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(SettingError::at("version", format!("{:?} must be like \"v26\"", self.version)));
        }
        let endpoint = address("endpoint", &self.endpoint)?;
        let text = format!("{}/{}/", endpoint.as_str().trim_end_matches('/'), self.version);
        Url::parse(&text).map_err(|why| SettingError::at("endpoint", format!("{:?} is no URL: {why}", self.endpoint)))
    }

    pub(super) fn token_address(&self) -> Result<Url, SettingError> {
        address("token_endpoint", &self.token_endpoint)
    }
}

/// A place that secrets are sent to: encrypted, unless it is on this machine.
fn address(key: &str, text: &str) -> Result<Url, SettingError> {
    let url = Url::parse(text).map_err(|why| SettingError::at(key, format!("{text:?} is no URL: {why}")))?;
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err(SettingError::at(key, format!("{text:?} is not encrypted; it must begin with https://"))),
    }
}

fn version() -> String {
    "v26".to_owned()
}

fn endpoint() -> String {
    "https://googleads.googleapis.com".to_owned()
}

fn token_endpoint() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

/// Large reports are worked on for a while before their first row comes.
fn idle_timeout() -> Duration {
    Duration::from_secs(120)
}

fn connect_timeout() -> Duration {
    Duration::from_secs(10)
}

/// The digits of a customer id, which people write as `123-456-7890`.
pub(super) fn customer_digits(text: &str) -> Result<String, String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(digits)
    } else {
        Err(format!("{text:?} is no Google Ads customer id; it has ten digits, like \"123-456-7890\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_digits_with_or_without_dashes_are_an_id() {
        assert_eq!(customer_digits("123-456-7890").unwrap(), "1234567890");
        assert_eq!(customer_digits("1234567890").unwrap(), "1234567890");
        for no_id in ["", "-", "123456789", "12345678901", "12345678x0", "123 456 7890", "１234567890", "../1234567"] {
            assert!(customer_digits(no_id).is_err(), "{no_id}");
        }
    }
}
