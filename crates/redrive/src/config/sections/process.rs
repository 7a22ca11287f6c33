//! `[process.NAME]`: jobs, and who does them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_data::process;
use redrive_data::settings::{ValueRef, duration, paths};
use serde::{Deserialize, Deserializer};

use super::source::RetrySection;

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
    pub(super) fn start_from(&mut self, folder: &Path) {
        let discovers = self.discover.as_ref().is_some_and(|discover| discover.command.is_some());
        if self.command.is_some() || discovers {
            self.directory = paths::directory(self.directory.take(), folder);
        }
        paths::start(&mut self.ca_file, folder);
        self.env.values_mut().chain(self.headers.values_mut()).for_each(|value| value.start_from(folder));
    }
}

/// A span, or `0` for "never pruned".
pub(super) fn keep<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim() == "0" {
        return Ok(None);
    }
    let span = duration::parse(&text).map_err(serde::de::Error::custom)?;
    Ok((!span.is_zero()).then_some(span))
}
