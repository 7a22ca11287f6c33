//! What every request is answered with: the planes by the configuration of now, and the server's own settings.

use std::sync::{Arc, PoisonError, RwLock};

use redrive_control::{ControlPlane, Insight};
use redrive_store::Store;
use tokio::sync::watch;

use crate::settings::Settings;
use crate::web::Listener;

/// What a reload of the configuration replaces.
#[derive(Debug)]
pub struct Rules {
    pub plane: ControlPlane,
    /// The configuration's fingerprint.
    pub config: String,
}

/// The server, shared by all requests.
#[derive(Debug, Clone)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    settings: Settings,
    /// Whether only this machine can reach the server.
    is_local: bool,
    rules: RwLock<Arc<Rules>>,
    draining: watch::Sender<bool>,
}

impl App {
    pub fn new(store: Store, settings: Settings, rules: Rules, listener: &Listener) -> Self {
        let is_local = listener.is_local();
        let rules = RwLock::new(Arc::new(rules));
        Self(Arc::new(Inner { store, settings, is_local, rules, draining: watch::channel(false).0 }))
    }

    /// Follows another configuration from the next request on.
    pub fn replace(&self, rules: Rules) {
        *self.0.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn insight(&self) -> Insight {
        self.rules().plane.insight().clone()
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub fn is_local(&self) -> bool {
        self.0.is_local
    }

    /// Where a path of the server is found.
    pub fn url(&self, path: &str) -> String {
        self.0.settings.base_path.to(path)
    }

    /// Tells everything that waits that the server is about to end.
    pub fn drain(&self) {
        self.0.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
        *self.0.draining.borrow()
    }

    /// Returns when the server is about to end. Long polls and streams wait for this beside what they wait for.
    pub async fn drained(&self) {
        // The sender is in `self`, so waiting cannot fail.
        let _ = self.0.draining.subscribe().wait_for(|draining| *draining).await;
    }
}
