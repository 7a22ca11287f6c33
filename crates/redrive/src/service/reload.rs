//! SIGHUP: the configuration is read again. A good one is taken up; a bad one is logged, and the old one stays.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::commands::Context;
use crate::config::Config;
use crate::error::{Error, Result};

/// Waits for the signal to read the configuration again.
#[derive(Debug)]
pub struct Reload {
    hangup: Signal,
}

impl Reload {
    /// From now on the signal no longer ends the process.
    pub fn listen() -> Result<Self> {
        let hangup = signal(SignalKind::hangup()).map_err(Error::io("cannot listen for signals"))?;
        Ok(Self { hangup })
    }

    /// Returns when a reload is asked for.
    pub async fn asked(&mut self) {
        if self.hangup.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Reads the configuration that is to follow another.
pub fn next(context: &Context, old: &Config) -> Result<Config> {
    let new = context.config()?;
    let moved = |what: &str| {
        let todo = "stop this process and start it again to move it";
        Err(Error::Refused(format!("{what} has changed, which a reload cannot follow; {todo}")))
    };
    if new.store != old.store {
        return moved("store.url");
    }
    if new.raw != old.raw {
        return moved("raw.url");
    }
    Ok(new)
}

/// Says what came of a reload.
pub fn log(taken_up: Result<String>) {
    match taken_up {
        Ok(config) => tracing::info!(config, "the configuration was read again and is followed from now on"),
        Err(error) => tracing::error!(%error, "the configuration cannot be used; the one before it stays"),
    }
}
