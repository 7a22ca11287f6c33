//! `[sources.<name>.extract]` with `kind = "http"`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::settings::{SecretRef, ValueRef, duration};
use crate::web::MAX_RATIO;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the first page is. Placeholders in it are percent-encoded.
    pub url: String,
    /// GET unless there is a body, then POST.
    #[serde(default)]
    pub method: Option<Method>,
    /// Each a text with placeholders, or a secret: `{ env = "TOKEN", prefix = "Bearer " }`, `{ file = "PATH" }`. Secrets
    /// are sent to the URL's own origin and nowhere else.
    #[serde(default)]
    pub headers: BTreeMap<String, ValueRef>,
    /// What is sent with every page's request. Placeholders in it are written as inside a JSON string.
    #[serde(default)]
    pub body: Option<String>,
    /// What an answer is: one JSON document, or a JSON object on every line.
    #[serde(default)]
    pub format: Format,
    /// With lines: take the end of the connection for the end of an answer that has neither a length nor chunks.
    #[serde(default)]
    pub unframed: bool,
    /// Where in a document the array of records is, as names with dots between them. Without it the document is the array.
    /// Null in its place means that there are none.
    #[serde(default)]
    pub records: String,
    /// Where in a document the next page's URL is; when it is missing, null or empty, the page was the last.
    #[serde(default)]
    pub next_link: Option<String>,
    /// Where in a document the next page's cursor is; it is sent as the query parameter `cursor_param`.
    #[serde(default)]
    pub cursor: Option<String>,
    #[serde(default)]
    pub cursor_param: Option<String>,
    /// The next page's URL is in a `Link` header with `rel="next"`.
    #[serde(default)]
    pub link_header: bool,
    /// Hosts besides the URL's own that a link to the next page may lead to. They get no secrets.
    #[serde(default)]
    pub next_hosts: Vec<String>,
    /// More pages than this are an error.
    #[serde(default = "max_pages")]
    pub max_pages: u64,
    /// How many times as much as was sent an answer may decompress to. The first 8 MiB of it are free.
    #[serde(default = "max_ratio")]
    pub max_ratio: u64,
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
    /// Whether redirects are followed.
    #[serde(default)]
    pub redirects: bool,
    /// Whether addresses of private networks and of this machine may be reached.
    #[serde(default)]
    pub allow_private: bool,
    /// Whom "too many requests" holds back: the customer it was said to, or the whole source.
    #[serde(default)]
    pub rate_limit_scope: RateLimitScope,
    /// Certificates (PEM) to trust besides those that everybody does.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Post,
    Put,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Json,
    Jsonl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitScope {
    #[default]
    Customer,
    Source,
}

fn max_pages() -> u64 {
    10_000
}

fn max_ratio() -> u64 {
    MAX_RATIO
}

fn idle_timeout() -> Duration {
    Duration::from_secs(60)
}

fn connect_timeout() -> Duration {
    Duration::from_secs(10)
}
