//! A store on each database, with a clock the test holds.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::time::Timestamp;
use redrive_fixture::{Database, Postgres};
use redrive_store::clock::{Clock, ManualClock};
use redrive_store::{Open, Operation, Options, Store, StoreUrl};

/// 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A store, and what must live as long as it.
pub struct Subject {
    pub store: Store,
    pub clock: ManualClock,
    pub url: StoreUrl,
    _home: Home,
}

enum Home {
    Sqlite(#[expect(dead_code, reason = "the directory lives as long as the store")] tempfile::TempDir),
    Postgres(#[expect(dead_code, reason = "the database lives as long as the store")] Database),
}

impl Subject {
    pub async fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = StoreUrl::Sqlite(directory.path().join("redrive.db"));
        Self::open(url, Home::Sqlite(directory)).await
    }

    pub async fn postgres() -> Self {
        let database = Postgres::shared().fresh_database();
        let url = StoreUrl::parse(&database.url).unwrap();
        Self::open(url, Home::Postgres(database)).await
    }

    async fn open(url: StoreUrl, home: Home) -> Self {
        let clock = ManualClock::at(START);
        let store = Store::open(&url, Open::Migrate, options(&clock)).await.unwrap();
        Self { store, clock, url, _home: home }
    }

    /// Another handle whose connections to PostgreSQL have a name.
    pub async fn again_as(&self, name: &str) -> Store {
        let url = match &self.url {
            StoreUrl::Sqlite(_) => self.url.clone(),
            StoreUrl::Postgres(url) => {
                let mark = if url.contains('?') { '&' } else { '?' };
                StoreUrl::parse(&format!("{url}{mark}application_name={name}")).unwrap()
            }
        };
        Store::open(&url, Open::Current, options(&self.clock)).await.unwrap()
    }

    /// Another handle on the same database, as another process would have.
    pub async fn again(&self) -> Store {
        Store::open(&self.url, Open::Current, options(&self.clock)).await.unwrap()
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn operation(&self, command: &str) -> Operation {
        Operation {
            op_id: self.store.control().new_operation_id(),
            at: self.now(),
            actor: "tester@here".to_owned(),
            command: command.to_owned(),
            filters: "{}".to_owned(),
            flags: "{}".to_owned(),
            reason: None,
        }
    }

    pub fn wanted(&self, key: PartitionKey, lane: Lane) -> Partition {
        Partition::new(key, lane, self.now())
    }
}

fn options(clock: &ManualClock) -> Options {
    Options { clock: Arc::new(clock.clone()), follow_server_clock: false, connections: 8, ..Options::default() }
}

pub fn key(source: &str, customer: &str, query: &str, date: &str) -> PartitionKey {
    PartitionKey::new(source, customer, query, date).unwrap()
}

pub const LEASE: Duration = Duration::from_secs(120);

/// Writes one test for each database.
#[macro_export]
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::support::Subject::sqlite().await).await; })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::support::Subject::postgres().await).await; })+
        }
    };
}
