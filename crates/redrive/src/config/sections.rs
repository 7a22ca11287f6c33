//! The sections of `redrive.toml`, with their defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_core::breaker::BreakerPolicy;
use redrive_core::key::{CustomerId, LogicalDate, QueryName, Source};
use redrive_core::notice::NoticeKind;
use redrive_core::role::Role;
use redrive_data::settings::{SecretRef, SettingError, ValueRef, duration, paths};
use redrive_data::{extract, process, validate};
use redrive_store::{Listen, Options, StoreUrl};
use serde::{Deserialize, Deserializer};

use super::notify;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub store: Store,
    pub raw: Raw,
    pub worker: Worker,
    pub daemon: Daemon,
    pub safety: Safety,
    pub server: ServerSection,
    pub sources: BTreeMap<Source, SourceSection>,
    pub process: BTreeMap<String, ProcessSection>,
    pub ingest: IngestSection,
    pub notify: Vec<NotifySection>,
    pub telemetry: TelemetrySection,
}

/// `[telemetry]`: where traces go.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySection {
    /// A collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; nothing sends no traces.
    pub otlp_endpoint: Option<String>,
}

impl TelemetrySection {
    fn check(&self) -> Result<(), SettingError> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(()) };
        match endpoint.parse::<url::Url>() {
            Ok(url) if ["http", "https"].contains(&url.scheme()) && url.has_host() => Ok(()),
            Ok(_) | Err(_) => {
                let why = format!("{endpoint:?} is no address of a collector; write it like http://127.0.0.1:4318");
                Err(SettingError::at("otlp_endpoint", why).within("telemetry"))
            }
        }
    }
}

/// `[server]`: where `redrive serve` listens, and by which names it is called.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSection {
    pub listen: String,
    /// Where people reach it, when that is not where it listens.
    pub public_url: Option<String>,
    /// The path that all of its paths begin with.
    pub base_path: String,
    /// Names of this server beside those that always lead to it.
    pub allowed_hosts: Vec<String>,
    /// Refuses every request that would change something.
    pub read_only: bool,
    /// What people call this installation.
    pub instance: Option<String>,
    /// The most bytes of an upload by HTTP, where that is less than `max_upload` of `[ingest]`.
    pub max_upload: Option<u64>,
    pub forward_auth: Option<ForwardAuthSection>,
}

/// `[server.forward_auth]`: a proxy that says who calls.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardAuthSection {
    /// Addresses and networks whose connections are believed.
    pub trusted_proxies: Vec<String>,
    pub user_header: String,
    pub groups_header: Option<String>,
    /// The roles of groups; `*` is everybody.
    pub roles: BTreeMap<String, Role>,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7117".to_owned(),
            public_url: None,
            base_path: "/".to_owned(),
            allowed_hosts: vec![],
            read_only: false,
            instance: None,
            max_upload: None,
            forward_auth: None,
        }
    }
}

/// `[ingest]`: how large uploads and what is in them may be. What is left out keeps its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestSection {
    /// The most bytes of an upload as it comes.
    pub max_upload: Option<u64>,
    /// The most bytes of all that an archive holds, unpacked.
    pub max_bytes: Option<u64>,
    pub max_file_bytes: Option<u64>,
    pub max_files: Option<u64>,
    /// How many times as large as itself an archive may become.
    pub max_ratio: Option<u64>,
    /// How many archives may lie inside one another.
    pub max_depth: Option<u32>,
    /// The most bytes of a path in an archive.
    pub max_path: Option<u32>,
    /// How many rows of stanzas and settings one transaction adds.
    pub batch_rows: Option<u32>,
    /// How long finished runs are kept; `"0"` and nothing mean for ever.
    #[serde(deserialize_with = "keep")]
    pub keep: Option<Duration>,
    pub retry: RetrySection,
}

/// `[[notify]]`: who is told what happens, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifySection {
    pub name: String,
    pub kind: NotifyKind,
    /// Where a webhook or a message is posted.
    pub url: Option<ValueRef>,
    /// What webhooks are signed with.
    pub secret: Option<SecretRef>,
    /// A program that gets the notification on stdin.
    #[serde(default)]
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    #[serde(default = "notify::timeout", deserialize_with = "duration::de")]
    pub timeout: Duration,
    /// Only these; nothing means all.
    #[serde(default)]
    pub events: Vec<NoticeKind>,
    /// Only what is of these sources; nothing means all.
    #[serde(default)]
    pub sources: Vec<Source>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotifyKind {
    Webhook,
    Slack,
    Command,
}

impl NotifySection {
    fn start_from(&mut self, folder: &Path) {
        if !self.command.is_empty() {
            self.directory = paths::directory(self.directory.take(), folder);
        }
        paths::start(&mut self.ca_file, folder);
        if let Some(secret) = &mut self.secret {
            secret.start_from(folder);
        }
        if let Some(url) = &mut self.url {
            url.start_from(folder);
        }
    }
}

/// `[process.NAME]`: the categories that are handled alike. With neither `command` nor `url`, outside workers claim them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSection {
    pub categories: Vec<String>,
    pub command: Option<Vec<String>>,
    pub url: Option<String>,
    /// Answers that are made up, for trying things out.
    pub sample: Option<process::SampleSettings>,
    /// How long an attempt may take.
    #[serde(default, deserialize_with = "duration::option")]
    pub timeout: Option<Duration>,
    pub max_in_flight: Option<u32>,
    /// How long finished runs are kept; `"0"` and nothing mean for ever.
    #[serde(default, deserialize_with = "keep")]
    pub keep: Option<Duration>,
    pub discover: Option<DiscoverSection>,
    #[serde(default)]
    pub retry: RetrySection,
    /// For programs.
    pub directory: Option<PathBuf>,
    #[serde(default)]
    pub env: BTreeMap<String, ValueRef>,
    /// For URLs.
    #[serde(default)]
    pub headers: BTreeMap<String, ValueRef>,
    #[serde(default, deserialize_with = "duration::option")]
    pub idle_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration::option")]
    pub connect_timeout: Option<Duration>,
    pub redirects: Option<bool>,
    pub allow_private: Option<bool>,
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverSection {
    pub command: Option<Vec<String>>,
    pub url: Option<String>,
    #[serde(default = "minute", deserialize_with = "duration::de")]
    pub interval: Duration,
    /// How long one listing may take.
    #[serde(default = "ten_minutes", deserialize_with = "duration::de")]
    pub timeout: Duration,
}

fn ten_minutes() -> Duration {
    Duration::from_secs(600)
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

impl ProcessSection {
    /// Has relative paths begin in this folder, and programs run there unless the section names another.
    fn start_from(&mut self, folder: &Path) {
        let discovers = self.discover.as_ref().is_some_and(|discover| discover.command.is_some());
        if self.command.is_some() || discovers {
            self.directory = paths::directory(self.directory.take(), folder);
        }
        paths::start(&mut self.ca_file, folder);
        self.env.values_mut().chain(self.headers.values_mut()).for_each(|value| value.start_from(folder));
    }
}

/// A span, or `0` for "never pruned".
fn keep<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim() == "0" {
        return Ok(None);
    }
    let span = duration::parse(&text).map_err(serde::de::Error::custom)?;
    Ok((!span.is_zero()).then_some(span))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSection {
    pub customers: Vec<CustomerId>,
    pub calendar: Option<CalendarSection>,
    pub queries: BTreeMap<QueryName, QuerySection>,
    pub retry: RetrySection,
    pub terminal_after: Option<u32>,
    pub extract: Option<extract::Settings>,
    pub validate: validate::Settings,
    pub max_in_flight: Option<u32>,
    /// The most bytes that an attempt may bring.
    pub max_bytes: Option<u64>,
    /// How long a rate limit that does not say holds back its siblings.
    #[serde(deserialize_with = "duration::option")]
    pub cooldown: Option<Duration>,
    pub breaker: BreakerSection,
}

/// What is left out keeps its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSection {
    /// So many failures alike, one after another, hold the source or the customer; 0 turns it off.
    pub after: Option<u32>,
    /// How long the wait is before one attempt goes ahead.
    #[serde(deserialize_with = "duration::option")]
    pub probe: Option<Duration>,
}

impl BreakerSection {
    pub fn policy(&self) -> BreakerPolicy {
        let default = BreakerPolicy::default();
        BreakerPolicy { after: self.after.unwrap_or(default.after), probe: self.probe.unwrap_or(default.probe) }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuerySection {
    pub query: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSection {
    pub start: LogicalDate,
    #[serde(default = "utc")]
    pub timezone: String,
    #[serde(default = "midnight")]
    pub ready_at: jiff::civil::Time,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn midnight() -> jiff::civil::Time {
    jiff::civil::Time::midnight()
}

/// What is left out keeps its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySection {
    #[serde(deserialize_with = "duration::option")]
    pub base: Option<Duration>,
    pub multiplier: Option<f64>,
    #[serde(deserialize_with = "duration::option")]
    pub cap: Option<Duration>,
    #[serde(deserialize_with = "duration::option")]
    pub jitter: Option<Duration>,
    #[serde(deserialize_with = "duration::list")]
    pub delays: Option<Vec<Duration>>,
    pub max_attempts: Option<u32>,
    #[serde(deserialize_with = "duration::option")]
    pub max_age: Option<Duration>,
    /// How long the waits that rate limits ask for may be together, before one counts.
    #[serde(deserialize_with = "duration::option")]
    pub rate_limit_budget: Option<Duration>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    pub url: String,
    /// Whether to listen on PostgreSQL for work that other processes make.
    pub listen: bool,
    /// Where to listen, when `url` leads to a pooler.
    pub listen_url: Option<String>,
    /// Whether to prepare statements on PostgreSQL.
    pub prepared: bool,
}

impl Default for Store {
    fn default() -> Self {
        Self { url: "sqlite:redrive.db".to_owned(), listen: true, listen_url: None, prepared: true }
    }
}

impl Store {
    pub fn options(&self) -> Options {
        let listen = match (&self.listen_url, self.listen) {
            (Some(url), _) => Listen::At(url.clone()),
            (None, true) => Listen::Same,
            (None, false) => Listen::Never,
        };
        Options { listen, prepared: self.prepared, ..Options::default() }
    }

    fn check(&self) -> Result<(), SettingError> {
        let Some(url) = &self.listen_url else { return Ok(()) };
        if !self.listen {
            let why = "listen is false, so nothing is listened to; leave one of them out";
            return Err(SettingError::at("listen_url", why));
        }
        match StoreUrl::parse(url) {
            Ok(StoreUrl::Postgres(_)) => Ok(()),
            Ok(StoreUrl::Sqlite(_)) => {
                Err(SettingError::at("listen_url", "a file announces nothing; write postgres://user@host/database"))
            }
            Err(redrive_store::Error::Url { why, .. }) => Err(SettingError::at("listen_url", why)),
            Err(error) => Err(SettingError::at("listen_url", error.to_string())),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Raw {
    pub url: String,
}

impl Default for Raw {
    fn default() -> Self {
        Self { url: "file:raw".to_owned() }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Worker {
    pub concurrency: u32,
    #[serde(deserialize_with = "duration::de")]
    pub lease: Duration,
    #[serde(deserialize_with = "duration::de")]
    pub heartbeat: Duration,
    /// How often to look for work when none is announced.
    #[serde(deserialize_with = "duration::de")]
    pub poll: Duration,
    /// How long work under way may go on after a stop was asked for.
    #[serde(deserialize_with = "duration::de")]
    pub grace: Duration,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            concurrency: 16,
            lease: Duration::from_secs(120),
            heartbeat: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Daemon {
    #[serde(deserialize_with = "duration::de")]
    pub interval: Duration,
}

impl Default for Daemon {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60) }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Safety {
    pub confirm_above: u32,
    pub hard_limit: u32,
    pub earliest_date: LogicalDate,
}

impl Default for Safety {
    fn default() -> Self {
        let earliest_date = "2015-01-01".parse().unwrap_or_else(|_| unreachable!("2015-01-01 is a date"));
        Self { confirm_above: 20, hard_limit: 10_000, earliest_date }
    }
}

impl Settings {
    /// Has relative paths of sources and sections begin in the folder of the configuration file.
    pub fn start_from(&mut self, folder: &Path) {
        for source in self.sources.values_mut() {
            source.validate.start_from(folder);
            if let Some(extract) = &mut source.extract {
                extract.start_from(folder);
            }
        }
        self.process.values_mut().for_each(|section| section.start_from(folder));
        self.notify.iter_mut().for_each(|section| section.start_from(folder));
    }

    /// What no single key's type can tell.
    pub fn check(&self) -> Result<(), SettingError> {
        self.store.check().map_err(|mistake| mistake.within("store"))?;
        self.telemetry.check()?;
        let worker = |key: &str, why: &str| Err(SettingError::at(key, why).within("worker"));
        if self.worker.concurrency == 0 {
            return worker("concurrency", "0 is too little; a worker needs at least 1");
        }
        if self.worker.heartbeat > self.worker.lease / 2 {
            let why = "heartbeat is more than half of lease; one late heartbeat would lose it";
            return Err(SettingError::at("heartbeat", why).also(&["lease"]).within("worker"));
        }
        if self.worker.heartbeat.is_zero() {
            return worker("heartbeat", "0 is too little; a worker would do nothing else");
        }
        if self.worker.poll.is_zero() {
            return worker("poll", "0 is too little; an idle worker would never rest");
        }
        if self.daemon.interval.is_zero() {
            return Err(SettingError::at("interval", "0 is too little; the daemon would never rest").within("daemon"));
        }
        notify::check(&self.notify)
    }
}
