//! One file a command.

pub mod bench;
pub mod completions;
pub mod daemon;
pub mod data;
pub mod demo;
pub mod doctor;
pub mod ingest;
pub mod init;
pub mod migrate;
mod opening;
pub mod runs;
pub mod state;
pub mod status;
pub mod worker;

use redrive_control::{ControlPlane, Insight, Sink};
use redrive_store::{Store, View};

use crate::cli::Global;
use crate::config::{Config, Environment};
use crate::error::Result;
pub use opening::open;

/// What every command is given.
#[derive(Debug)]
pub struct Context {
    pub global: Global,
    pub environment: Environment,
}

impl Context {
    pub fn config(&self) -> Result<Config> {
        Ok(Config::load(self.global.config.as_deref(), &self.environment)?)
    }

    /// The same, with this configuration file and no environment over it.
    pub fn with_config_alone(&self, file: &str) -> Self {
        let global = Global { config: Some(file.into()), ..self.global.clone() };
        Self { global, environment: Environment::default() }
    }

    /// What can be seen of the configured store, opened to be read: nothing is made or migrated.
    pub async fn insight(&self, config: &Config) -> Result<Insight> {
        let raw = Sink::new(config.raw.clone(), config.raw_options.s3.clone());
        let earliest = config.settings.safety.earliest_date;
        Ok(Insight::new(look(config).await?, raw, config.sources.clone(), earliest).with_queues(config.queues.clone()))
    }

    /// The control plane over the configured store and sink.
    pub async fn control(&self, config: &Config) -> Result<ControlPlane> {
        Ok(self.control_of(&open(config, self).await?, config))
    }

    /// The control plane over a store that is open already.
    pub fn control_of(&self, store: &Store, config: &Config) -> ControlPlane {
        let raw = Sink::new(config.raw.clone(), config.raw_options.s3.clone());
        let earliest = config.settings.safety.earliest_date;
        let plane = ControlPlane::new(store.control(), raw, config.sources.clone(), earliest);
        plane.with_queues(config.queues.clone())
    }
}

/// Opens the configured store to look at it and no more.
pub async fn look(config: &Config) -> redrive_store::Result<View> {
    Store::open_read_only(&config.store, config.settings.store.options()).await
}

/// Who is at the keyboard: the operating system's user at this host.
pub fn person() -> String {
    let user = whoami::username().unwrap_or_else(|_| "unknown".to_owned());
    let host = whoami::hostname().unwrap_or_else(|_| "unknown".to_owned());
    format!("{user}@{host}")
}
