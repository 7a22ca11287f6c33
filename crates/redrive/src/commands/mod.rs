//! One file a command.

pub mod bench;
pub mod completions;
pub mod daemon;
pub mod data;
pub mod demo;
pub mod doctor;
mod drained;
pub mod ingest;
pub mod init;
pub mod man;
pub mod migrate;
pub mod notify;
mod opening;
pub mod runs;
pub mod serve;
pub mod sink;
pub mod state;
pub mod status;
pub mod token;
pub mod worker;

use std::sync::Arc;

use redrive_control::{ControlPlane, Insight, Sink};
use redrive_data::notify::Sender;
use redrive_metrics::Metrics;
use redrive_store::clock::SystemClock;
use redrive_store::{Options, Store, View};

use crate::cli::Global;
use crate::config::{Config, Environment};
use crate::error::Result;
use crate::remedy;
use crate::stop::StopSignals;
pub use opening::{Missing, open};

/// What every command is given.
#[derive(Debug)]
pub struct Context {
    pub global: Global,
    pub environment: Environment,
    pub stop: StopSignals,
    /// What this process counts, whichever of its stores it is about.
    pub metrics: Metrics,
}

impl Context {
    pub fn config(&self) -> Result<Config> {
        Ok(Config::load(self.global.config.as_deref(), &self.environment)?)
    }

    /// The same, with this configuration file and no environment over it.
    pub fn with_config_alone(&self, file: &str) -> Self {
        let global = Global { config: Some(file.into()), ..self.global.clone() };
        let (stop, metrics) = (self.stop.clone(), self.metrics.clone());
        Self { global, environment: Environment::default(), stop, metrics }
    }

    /// What can be seen of the configured store, opened to be read: nothing is made or migrated.
    pub async fn insight(&self, config: &Config) -> Result<Insight> {
        let raw = Sink::new(config.raw.clone(), config.raw_options.s3.clone());
        let earliest = config.settings.safety.earliest_date;
        let insight = Insight::new(look(config, self).await?, raw, config.sources.clone(), earliest);
        Ok(insight.with_queues(config.queues.clone()).with_uploads(config.ingestion.rules()))
    }

    /// How the configured store is opened.
    pub fn store_options(&self, config: &Config) -> Options {
        let (hurry, metrics) = (self.stop.hurry(), self.metrics.clone());
        Options { hurry, metrics, ..config.settings.store.options() }
    }

    /// The control plane over the configured store and sink.
    pub async fn control(&self, config: &Config, missing: Missing) -> Result<ControlPlane> {
        Ok(self.control_of(&open(config, missing, self).await?, config))
    }

    /// What sends notifications by this configuration.
    pub fn sender(&self, store: &Store, config: &Config) -> Result<Sender> {
        let receivers = config.receivers(&self.environment)?;
        let sender = Sender::new(store.outbox(), Arc::new(SystemClock), receivers, remedy::of_notice);
        let server = &config.settings.server;
        Ok(sender.of_instance(server.instance.as_deref(), server.public_url.as_deref()))
    }

    /// The control plane over a store that is open already.
    pub fn control_of(&self, store: &Store, config: &Config) -> ControlPlane {
        let raw = Sink::new(config.raw.clone(), config.raw_options.s3.clone());
        let earliest = config.settings.safety.earliest_date;
        let plane = ControlPlane::new(store.control(), raw, config.sources.clone(), earliest);
        plane.with_queues(config.queues.clone()).with_uploads(config.ingestion.rules())
    }
}

/// Opens the configured store to look at it and no more.
pub async fn look(config: &Config, context: &Context) -> redrive_store::Result<View> {
    Store::open_read_only(&config.store, context.store_options(config)).await
}

impl Context {
    /// Whom the audit trail names: `REDRIVE_ACTOR`, otherwise the user at this host, before `sudo` where that was used.
    pub fn actor(&self) -> String {
        let named = |name| self.environment.get(name).filter(|value| !value.is_empty());
        match (named("REDRIVE_ACTOR"), named("SUDO_USER")) {
            (Some(actor), _) => actor.to_owned(),
            (None, Some(user)) => at_host(user),
            (None, None) => person(),
        }
    }
}

/// The operating system's user at this host.
pub fn person() -> String {
    at_host(&whoami::username().unwrap_or_else(|_| "unknown".to_owned()))
}

fn at_host(user: &str) -> String {
    let host = whoami::hostname().unwrap_or_else(|_| "unknown".to_owned());
    format!("{user}@{host}")
}
