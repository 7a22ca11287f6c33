//! `[sources.<name>.extract]`: which extractor, and what it needs to know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redrive_store::clock::SystemClock;
use serde::Deserialize;

use super::{Extractor, google_ads, http, sample};

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Settings {
    GoogleAds(Box<google_ads::Settings>),
    Http(Box<http::Settings>),
    Sample(sample::Settings),
}

/// What a configuration may refer to outside itself.
pub struct Surroundings<'a> {
    /// The environment as it was when the program started.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Surroundings")
    }
}

/// How long an attempt may take unless its source says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

impl Settings {
    /// The extractor, or what is wrong with its settings.
    pub fn build(&self, surroundings: &Surroundings<'_>) -> Result<Arc<dyn Extractor>, String> {
        let clock = Arc::new(SystemClock);
        Ok(match self {
            Self::GoogleAds(settings) => Arc::new(google_ads::GoogleAds::new(settings, surroundings, clock)?),
            Self::Http(settings) => Arc::new(http::Http::new(settings, surroundings, clock)?),
            Self::Sample(settings) => Arc::new(sample::Sample::new(settings)?),
        })
    }

    pub fn timeout(&self) -> Duration {
        let given = match self {
            Self::GoogleAds(settings) => settings.timeout,
            Self::Http(settings) => settings.timeout,
            Self::Sample(settings) => settings.timeout,
        };
        given.unwrap_or(TIMEOUT)
    }
}
