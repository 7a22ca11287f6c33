//! `[sources.<name>.extract]`: which extractor, and what it needs to know.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redrive_store::clock::Clock;
use serde::Deserialize;

use super::{Extractor, Program, airbyte, command, connector, google_ads, http, sample, singer};
use crate::program::Launch;
use crate::settings::{SettingError, Surroundings, ValueRef, paths};

/// Externally tagged here; in the file `kind` stands beside the other keys. The reader of the file rewrites it, because
/// serde's own `tag` would lose the lines of errors.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settings {
    Command(command::Settings),
    Http(Box<http::Settings>),
    GoogleAds(Box<google_ads::Settings>),
    Singer(singer::Settings),
    Airbyte(airbyte::Settings),
    Sample(sample::Settings),
}

/// What extractors need beside their settings.
pub struct ExtractorContext {
    pub around: Surroundings,
    /// For sources that name a moment, not a span, to come again.
    pub clock: Arc<dyn Clock>,
}

impl ExtractorContext {
    pub(super) fn program(
        &self,
        command: &[String],
        directory: Option<&Path>,
        env: &BTreeMap<String, ValueRef>,
    ) -> Result<Program, SettingError> {
        Program::new(&Launch { command, directory, env }, &self.around)
    }
}

impl fmt::Debug for ExtractorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExtractorContext")
    }
}

/// How long an attempt may take unless its source says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

impl Settings {
    /// The tables whose keys users choose, with an example of such a key. Names in them keep their capitals.
    pub const NAMED_BY_USERS: [(&'static str, &'static str); 2] = [("env", "NAME"), ("headers", "Name")];

    /// The extractor, or what is wrong with its settings.
    pub fn build(&self, context: &ExtractorContext) -> Result<Arc<dyn Extractor>, SettingError> {
        Ok(match self {
            Self::Command(settings) => Arc::new(command::Command::new(settings, context)?),
            Self::Http(settings) => Arc::new(http::Http::new(settings, context)?),
            Self::GoogleAds(settings) => Arc::new(google_ads::GoogleAds::new(settings, context)?),
            Self::Singer(settings) => Arc::new(singer::Singer::new(settings, context)?),
            Self::Airbyte(settings) => Arc::new(airbyte::Airbyte::new(settings, context)?),
            Self::Sample(settings) => Arc::new(sample::Sample::new(settings)?),
        })
    }

    /// Has relative paths begin in this folder, and programs run there unless they are given another.
    pub fn start_from(&mut self, folder: &Path) {
        match self {
            Self::Command(settings) => start_program(&mut settings.directory, &mut settings.env, folder),
            Self::Http(settings) => {
                paths::start(&mut settings.ca_file, folder);
                settings.proxy_password.iter_mut().for_each(|secret| secret.start_from(folder));
                settings.headers.values_mut().for_each(|value| value.start_from(folder));
            }
            Self::GoogleAds(settings) => settings.secrets().for_each(|secret| secret.start_from(folder)),
            Self::Singer(settings) => {
                start_program(&mut settings.directory, &mut settings.env, folder);
                connector::start_from(&mut settings.config, folder);
                paths::start(&mut settings.config_file, folder);
                paths::start(&mut settings.catalog_file, folder);
            }
            Self::Airbyte(settings) => {
                start_program(&mut settings.directory, &mut settings.env, folder);
                connector::start_from(&mut settings.config, folder);
                paths::start(&mut settings.config_file, folder);
                paths::start(&mut settings.catalog_file, folder);
            }
            Self::Sample(_) => {}
        }
    }

    pub fn timeout(&self) -> Duration {
        let timeout = match self {
            Self::Command(settings) => settings.timeout,
            Self::Http(settings) => settings.timeout,
            Self::GoogleAds(settings) => settings.timeout,
            Self::Singer(settings) => settings.timeout,
            Self::Airbyte(settings) => settings.timeout,
            Self::Sample(settings) => settings.timeout,
        };
        timeout.unwrap_or(TIMEOUT)
    }
}

fn start_program(directory: &mut Option<PathBuf>, env: &mut BTreeMap<String, ValueRef>, folder: &Path) {
    *directory = paths::directory(directory.take(), folder);
    env.values_mut().for_each(|value| value.start_from(folder));
}
