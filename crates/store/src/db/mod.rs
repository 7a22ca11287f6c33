//! The database: one type over SQLite and PostgreSQL.
//!
//! What the store does is written once, as functions over [`Tx`]. A transaction has a name, sees one snapshot, and is
//! run again by this module, nowhere else, when the database asks for it.

mod batch;
pub(crate) mod columns;
mod postgres;
mod row;
mod shared;
mod sql;
mod sqlite;
mod sqlite_clock;
mod sqlite_file;
mod sqlite_lock;
mod sqlite_statements;
mod sqlite_watch;
mod tx;
mod value;
mod wakeups;
mod work;

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use redrive_metrics::{Metrics, Op};
use tokio::sync::watch;

use crate::clock::{Clock, ServerClock};
use crate::error::Result;
use crate::hurry::Hurry;
use crate::idempotency;
use crate::url::StoreUrl;

use postgres::Planner;
use work::{Given, Work};

pub(crate) use batch::{Batch, Effect};
pub use postgres::Listen;
pub(crate) use postgres::{Address as PostgresAddress, INDEX_PLANS_OF_SESSION};
pub(crate) use row::{Cursor, Row};
pub(crate) use sql::{Dialect, Kind, Lookup, Sql, render, render_lookup};
pub(crate) use tx::Tx;
pub(crate) use value::{Column, Param};
pub use wakeups::Wakeups;

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    pub clock: Arc<dyn Clock>,
    /// Follow PostgreSQL's clock, or the one that all processes with a SQLite file share; off when a test holds the clock.
    pub follow_database_clock: bool,
    /// Connections to PostgreSQL, or readers of a SQLite file.
    pub connections: usize,
    /// Where announcements of work are heard on PostgreSQL.
    pub listen: Listen,
    /// Whether statements are prepared on PostgreSQL; off for a pooler that shares connections by transaction and does
    /// not keep track of them.
    pub prepared: bool,
    /// How much time calls have left, for a program that may be told to stop.
    pub hurry: Hurry,
    /// Where the process counts what is committed, and how long its calls took.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(crate::clock::SystemClock),
            follow_database_clock: true,
            connections: 8,
            listen: Listen::Same,
            prepared: true,
            hurry: Hurry::default(),
            metrics: Metrics::default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Db {
    backend: Backend,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) place: String,
    pub(crate) metrics: Metrics,
}

#[derive(Debug)]
enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Db {
    /// Opens a database; a SQLite file that is not there is made only with `create`.
    pub(crate) async fn open(url: &StoreUrl, create: bool, options: Options) -> Result<Self> {
        match url {
            StoreUrl::Sqlite(path) => {
                let backend = Backend::Sqlite(sqlite::Sqlite::open(path, create, &options).await?);
                Ok(Self { backend, clock: options.clock, place: url.place(), metrics: options.metrics })
            }
            StoreUrl::Postgres(server) => Self::connect(server, url.place(), options).await,
        }
    }

    /// Opens a database of which nothing will be written. On a server each reading transaction says so by itself.
    pub(crate) async fn open_to_read(url: &StoreUrl, options: Options) -> Result<Self> {
        match url {
            StoreUrl::Sqlite(path) => {
                let backend = Backend::Sqlite(sqlite::Sqlite::open_to_read(path, &options).await?);
                Ok(Self { backend, clock: options.clock, place: url.place(), metrics: options.metrics })
            }
            StoreUrl::Postgres(server) => Self::connect(server, url.place(), options).await,
        }
    }

    async fn connect(server: &str, place: String, options: Options) -> Result<Self> {
        let clock = Arc::new(ServerClock::new(Arc::clone(&options.clock)));
        let backend = postgres::Postgres::open(server, &place, &options, Arc::clone(&clock)).await?;
        Ok(Self { backend: Backend::Postgres(backend), clock, place, metrics: options.metrics })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.backend {
            Backend::Sqlite(_) => Dialect::Sqlite,
            Backend::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs `work` in a transaction that may write, and notes in it that the idempotency key of this task, if it has one, has changed
    /// something. It is called again when the database asks for another try, and its effects are durable when this returns.
    pub(crate) async fn write<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        self.write_keyed(name, work::giving(work)).await.map(work::given)
    }

    async fn write_keyed(&self, name: &'static str, work: Work) -> Result<Given> {
        let begun = Instant::now();
        let work = match idempotency::current() {
            None => work,
            Some(key) => work::shared(move |tx| {
                let (work, key) = (Arc::clone(&work), key.clone());
                Box::pin(async move {
                    let given = work(tx).await?;
                    let answer = key.answer(&*given);
                    key.note(tx, answer).await?;
                    Ok(given)
                })
            }),
        };
        let written = match &self.backend {
            Backend::Sqlite(db) => db.write(name, work).await,
            Backend::Postgres(db) => db.write(name, work).await,
        };
        self.metrics.called(op_of(name, Op::Write), begun.elapsed());
        written
    }

    /// Runs `work` on one snapshot; it cannot write.
    pub(crate) async fn read<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        self.read_by(Planner::Server, name, work::giving(work)).await.map(work::given)
    }

    /// The same for pages and for what the daemon and the workers look for all day: their statements must step down their
    /// indexes whatever PostgreSQL believes of the tables.
    pub(crate) async fn read_by_index<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        self.read_by(Planner::Indexes, name, work::giving(work)).await.map(work::given)
    }

    async fn read_by(&self, planner: Planner, name: &'static str, work: Work) -> Result<Given> {
        let begun = Instant::now();
        let read = match &self.backend {
            Backend::Sqlite(db) => db.read(name, work).await,
            Backend::Postgres(db) => db.read(name, planner, work).await,
        };
        self.metrics.called(op_of(name, Op::Read), begun.elapsed());
        read
    }

    /// Brings the schema up to date; gives the version it had and the one it has.
    pub(crate) async fn migrate(&self) -> Result<(i64, i64)> {
        match &self.backend {
            Backend::Sqlite(db) => db.migrate().await,
            Backend::Postgres(db) => db.migrate().await,
        }
    }

    pub(crate) async fn schema(&self) -> Result<Schema> {
        match &self.backend {
            Backend::Sqlite(db) => db.schema().await,
            Backend::Postgres(db) => db.schema().await,
        }
    }

    /// Counts up whenever a run that a worker may have was cancelled: by this process, or on PostgreSQL by any.
    pub(crate) fn cancels(&self) -> watch::Receiver<u64> {
        match &self.backend {
            Backend::Sqlite(db) => db.cancels(),
            Backend::Postgres(db) => db.cancels(),
        }
    }

    /// Counts up whenever there may be new work: after a commit of this process, or on PostgreSQL of any.
    pub(crate) fn wakeups(&self) -> watch::Receiver<Wakeups> {
        match &self.backend {
            Backend::Sqlite(db) => db.wakeups(),
            Backend::Postgres(db) => db.wakeups(),
        }
    }
}

/// What a transaction is to a person who watches the database: few kinds, whatever its name.
fn op_of(name: &str, otherwise: Op) -> Op {
    match name {
        "claim partitions" | "claim runs" | "deliver runs" => Op::Claim,
        "judge" | "judge many" | "record runs" | "release" | "rate limited" | "report of an outside worker" => {
            Op::Record
        }
        "beat" | "beat of an outside worker" => Op::Beat,
        _ => otherwise,
    }
}

/// What a database holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    Empty,
    /// Tables, and none of them Redrive's.
    Foreign,
    /// Redrive's tables beside another program's; the version is Redrive's.
    Redrive {
        version: i64,
        beside_others: bool,
    },
}
