//! What every request is answered with: the planes by the configuration of now, and the server's own settings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redrive_control::status::RemedyWords;
use redrive_control::{ControlPlane, Insight};
use redrive_core::id::TokenId;
use redrive_core::safety::Rails;
use redrive_core::time::Timestamp;
use redrive_data::ingest::{Limits, Uploads};
use redrive_data::outside::OutsideWorkers;
use redrive_store::raw::{RawOptions, RawSink, RawUrl, Sha256};
use redrive_store::{Access, Store};
use tokio::sync::{OnceCell, watch};
use tracing::Instrument as _;

use crate::auth::{Attempts, FirstLink};
use crate::error::Result;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::web::Recent;

/// What a reload of the configuration replaces.
#[derive(Debug)]
pub struct Rules {
    pub plane: ControlPlane,
    /// The configuration's fingerprint.
    pub config: String,
    pub raw: RawUrl,
    pub raw_options: RawOptions,
    /// What archives are read with.
    pub limits: Limits,
    /// What workers in other languages call.
    pub outside: OutsideWorkers,
    /// From how many on a change must be confirmed.
    pub rails: Rails,
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
    words: RemedyWords,
    rules: RwLock<Arc<Rules>>,
    draining: watch::Sender<bool>,
    overviews: Recent,
    metrics: Metrics,
    events: Events,
    /// Where uploads go; a reload cannot move it.
    sink: OnceCell<RawSink>,
    attempts: Attempts,
    first_link: FirstLink,
    /// The uses that were kept lately.
    kept: Mutex<HashMap<Used, Timestamp>>,
}

/// What was used to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Used {
    Token(TokenId),
    Session(Sha256),
}

/// How many uses are remembered; forgetting one costs a write.
const REMEMBERED: usize = 4096;

impl App {
    /// `is_local` says that only this machine can reach the server; `words` says what a person types to meet a need.
    pub fn new(store: Store, settings: Settings, rules: Rules, is_local: bool, words: RemedyWords) -> Self {
        let rules = RwLock::new(Arc::new(rules));
        Self(Arc::new(Inner {
            store,
            settings,
            is_local,
            words,
            rules,
            metrics: Metrics::default(),
            events: Events::default(),
            draining: watch::channel(false).0,
            overviews: Recent::default(),
            sink: OnceCell::new(),
            attempts: Attempts::default(),
            first_link: FirstLink::default(),
            kept: Mutex::default(),
        }))
    }

    /// Follows another configuration from the next request on.
    pub fn replace(&self, rules: Rules) {
        *self.0.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What uploads go through. The sink is opened when the first one comes, and again where that failed.
    pub async fn uploads(&self) -> Result<Uploads> {
        let (rules, data) = (self.rules(), self.0.store.data());
        let open = async || redrive_data::sink::open(&rules.raw, &rules.raw_options, &data).await;
        let sink = self.0.sink.get_or_try_init(open).await?;
        Ok(Uploads::new(data.clone(), sink.blobs(), self.0.settings.max_upload))
    }

    pub fn insight(&self) -> Insight {
        self.rules().plane.insight().clone()
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Who may call the server.
    pub fn access(&self) -> Access {
        self.0.store.access()
    }

    /// The overviews of a moment ago.
    pub fn overviews(&self) -> &Recent {
        &self.0.overviews
    }

    pub fn attempts(&self) -> &Attempts {
        &self.0.attempts
    }

    pub fn first_link(&self) -> &FirstLink {
        &self.0.first_link
    }

    /// Whether browsers reach the server by https.
    pub fn is_https(&self) -> bool {
        self.0.settings.public_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }

    /// Keeps when a token was used. Nobody waits for it: a request that only reads never waits for a write.
    pub fn keep_use_of_token(&self, id: TokenId, at: Timestamp) {
        let access = self.access();
        self.keep(Used::Token(id), at, async move { access.token_used(id, at).await });
    }

    pub fn keep_use_of_session(&self, hash: Sha256, at: Timestamp) {
        let access = self.access();
        self.keep(Used::Session(hash), at, async move { access.session_seen(hash, at).await });
    }

    fn keep(&self, used: Used, at: Timestamp, write: impl Future<Output = redrive_store::Result<()>> + Send + 'static) {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.get(&used).is_some_and(|earlier| *earlier >= at) {
            return;
        }
        if kept.len() >= REMEMBERED {
            kept.clear();
        }
        kept.insert(used, at);
        let keeping = async move {
            if let Err(error) = write.await {
                tracing::debug!(%error, "a use could not be kept");
            }
        };
        tokio::spawn(keeping.in_current_span());
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub fn is_local(&self) -> bool {
        self.0.is_local
    }

    pub fn words(&self) -> RemedyWords {
        self.0.words
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub fn events(&self) -> &Events {
        &self.0.events
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
