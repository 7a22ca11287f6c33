//! A server over a store of either database.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redrive_control::status::Remedy;
use redrive_control::{ControlPlane, Sink, Sources};
use redrive_core::retry::RetryPolicy;
use redrive_core::role::Role;
use redrive_core::safety::Rails;
use redrive_data::ingest::Limits;
use redrive_data::outside::OutsideWorkers;
use redrive_data::process::{Section, Sections};
use redrive_fixture::{OnDatabase, TestDatabase, TestStore};
use redrive_server::{App, BasePath, Listener, Rules, Secret, Settings, routes};
use redrive_store::NewToken;
use redrive_store::raw::{RawOptions, RawUrl, S3Options};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Call, Reply};
use crate::promised;

/// A server that ends with its test.
pub struct Served {
    pub store: TestStore,
    pub app: App,
    pub address: SocketAddr,
    pub base: String,
    /// What every answer is compared with.
    description: OnceLock<Value>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl OnDatabase for Served {
    async fn on(database: TestDatabase) -> Self {
        Self::with(database, |_| {}).await
    }
}

/// A section whose jobs are left to outside workers.
pub fn outside(name: &str, categories: &[&str], max_in_flight: Option<u32>) -> Section {
    Section {
        name: name.to_owned(),
        categories: categories.iter().map(|&category| category.to_owned()).collect(),
        handler: None,
        timeout: Duration::from_secs(1800),
        max_in_flight,
        policy: RetryPolicy::process(),
        discover: None,
    }
}

pub fn settings() -> Settings {
    Settings {
        public_url: None,
        base_path: BasePath::default(),
        allowed_hosts: vec![],
        read_only: false,
        instance: None,
        max_upload: 4096,
        forward_auth: None,
    }
}

/// What the program that serves would have people type.
pub fn in_words(remedy: &Remedy) -> String {
    format!("type {remedy:?}")
}

impl Served {
    /// A server that only this machine can reach, with other settings.
    pub async fn with(database: TestDatabase, change: impl FnOnce(&mut Settings)) -> Self {
        Self::start(database, true, change).await
    }

    /// A server that behaves as one that others can reach.
    pub async fn abroad(database: TestDatabase, change: impl FnOnce(&mut Settings)) -> Self {
        Self::start(database, false, change).await
    }

    async fn start(database: TestDatabase, is_local: bool, change: impl FnOnce(&mut Settings)) -> Self {
        let store = TestStore::on(database).await;
        let mut settings = settings();
        change(&mut settings);
        let base = settings.base_path.to_string();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let raw = format!("file:{}", store.database.path().join("raw").display());
        let url = raw.parse::<RawUrl>().unwrap();
        let raw = Sink::new(url.clone(), S3Options::default());
        let earliest = "2015-01-01".parse().unwrap();
        let plane = ControlPlane::new(store.store.control(), raw, Sources::default(), earliest);
        let sections = Arc::new(Sections::new([outside("replays", &["any%", "100%"], None)]).unwrap());
        let outside = OutsideWorkers::new(store.store.data(), sections, Duration::from_secs(120));
        let rails = Rails { confirm_above: 20, hard_limit: 10_000 };
        let rules = Rules {
            plane,
            config: "abc".to_owned(),
            raw: url,
            raw_options: RawOptions::default(),
            limits: Limits::default(),
            outside,
            rails,
        };
        let app = App::new(store.store.clone(), settings, rules, is_local, in_words);
        let address = listener.address();
        let (stop, stopped) = oneshot::channel();
        let (router, draining, draining_app) = (routes::router(&app), app.clone(), app.clone());
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
                draining.drain();
            };
            let (app, serving) = (draining_app, listener.serve(router, stopped, Duration::from_secs(2)));
            tokio::select! {
                () = serving => {}
                () = redrive_server::work(&app) => {}
            }
        });
        Self { store, app, address, base, description: OnceLock::new(), stop: Some(stop), serving: Some(serving) }
    }

    pub async fn send(&self, call: Call) -> Reply {
        let call = Call { path: format!("{}{}", self.base, call.path), ..call };
        let reply = call.send(self.address).await;
        promised::check(self.description.get_or_init(|| redrive_server::describe(&self.app)), &call, &reply);
        reply
    }

    /// A token of a role, which expires in an hour.
    pub async fn token(&self, role: Role) -> String {
        self.token_named(&format!("a {role}"), role).await
    }

    pub async fn token_named(&self, name: &str, role: Role) -> String {
        let secret = Secret::token(role).unwrap();
        let new = NewToken {
            name: name.to_owned(),
            role,
            last_four: secret.last_four().to_owned(),
            categories: None,
            expires_at: self.store.now().saturating_add(Duration::from_secs(3600)),
            hash: secret.hash(),
        };
        let operation = self.store.operation("token create");
        self.app.access().create_token(&operation, new).await.unwrap();
        secret.reveal().to_owned()
    }

    /// Stops it as a signal would, and waits for its end.
    pub async fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.serving.take().unwrap().await.unwrap();
    }
}
