//! One file a command.

pub mod completions;
pub mod daemon;
pub mod data;
pub mod demo;
pub mod doctor;
pub mod init;
pub mod migrate;
pub mod state;
pub mod worker;

use redrive_control::ControlPlane;
use redrive_store::raw::RawView;
use redrive_store::{Open, Options, Store, StoreUrl, View};

use crate::cli::Global;
use crate::config::{Config, Environment};

/// What every command is given.
#[derive(Debug)]
pub struct Context {
    pub global: Global,
    pub environment: Environment,
}

impl Context {
    pub fn config(&self) -> anyhow::Result<Config> {
        Config::load(self.global.config.as_deref(), &self.environment)
    }

    /// The same, with this configuration file and no environment over it.
    pub fn with_config_alone(&self, file: &str) -> Self {
        let global = Global { config: Some(file.into()), ..self.global.clone() };
        Self { global, environment: Environment::default() }
    }

    /// The control plane over the configured store and sink, acting as `actor`.
    pub async fn control(&self, config: &Config, actor: String) -> anyhow::Result<ControlPlane> {
        let store = open(config).await?;
        let raw = RawView::open(&config.raw, &config.raw_options.s3).await?;
        let earliest = config.settings.safety.earliest_date;
        Ok(ControlPlane::new(store.control(), raw, config.sources.clone(), actor, earliest))
    }
}

/// Opens the configured store. A SQLite file belongs to this program and is kept up to date by it; a server's schema is
/// changed only by `redrive migrate`.
pub async fn open(config: &Config) -> redrive_store::Result<Store> {
    let how = match config.store {
        StoreUrl::Sqlite(_) => Open::Migrate,
        StoreUrl::Postgres(_) => Open::Current,
    };
    Store::open(&config.store, how, Options::default()).await
}

/// Opens the configured store to look at it and no more.
pub async fn look(config: &Config) -> redrive_store::Result<View> {
    Store::look(&config.store, Options::default()).await
}

/// Who is at the keyboard: the operating system's user at this host.
pub fn person() -> String {
    let user = whoami::username().unwrap_or_else(|_| "unknown".to_owned());
    let host = whoami::hostname().unwrap_or_else(|_| "unknown".to_owned());
    format!("{user}@{host}")
}
