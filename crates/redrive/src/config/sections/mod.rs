//! The sections of `redrive.toml`, with their defaults: the small ones here, the others in a file each.

mod ingest;
mod notify;
mod process;
mod server;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_core::key::{LogicalDate, Source};
use redrive_data::settings::{SettingError, duration, paths};
use redrive_store::{Listen, Options, StoreUrl};
use serde::Deserialize;

use super::notify::check as check_receivers;

pub use ingest::IngestSection;
pub use notify::{NotifyKind, NotifySection};
pub use process::{DiscoverSection, ProcessSection};
pub use server::{ForwardAuthSection, ServerSection};
pub use source::{CalendarSection, QuerySection, RetrySection, SourceSection};

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
                let why =
                    "a SQLite file cannot wake other processes; write postgres://user@host/database, or leave it out";
                Err(SettingError::at("listen_url", why))
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
    /// Authorities that S3's certificate may be of, besides those that the system trusts.
    pub ca_file: Option<PathBuf>,
}

impl Default for Raw {
    fn default() -> Self {
        Self { url: "file:raw".to_owned(), ca_file: None }
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
        paths::start(&mut self.raw.ca_file, folder);
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
        check_receivers(&self.notify)
    }
}
