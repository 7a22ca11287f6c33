//! A server, its pool of connections, and transactions that are run again where nothing can have happened.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use futures_util::future::{self, BoxFuture};
use tokio::sync::watch;
use tokio_postgres::IsolationLevel;

use crate::clock::ServerClock;
use crate::db::Options;
use crate::db::tx::Tx;
use crate::error::{Error, Result};

use super::address::{Address, CONNECT_PATIENCE};
use super::clock;
use super::fault::{Remedy, fault, pool_told, remedy, told};
use super::news::{self, News};
use super::transaction::{PgTx, Statements};

/// How often a transaction that the server aborted for another's sake is run again.
const TRIES: u32 = 8;
/// How often a transaction whose connection was lost before its commit is run again on a new one.
const RECONNECTS: u32 = 2;

/// Who chooses the plans of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planner {
    /// The server, each time anew: a plan that it kept would outlive the size of the tables that it was made for.
    Server,
    /// The statements were each made for an index: see [`INDEX_PLANS`].
    Indexes,
}

macro_rules! index_plans {
    ($set:literal) => {
        concat!(
            $set,
            " enable_seqscan = off; ",
            $set,
            " enable_hashjoin = off; ",
            $set,
            " enable_mergejoin = off; ",
            $set,
            " jit = off; ",
            $set,
            " plan_cache_mode = force_generic_plan"
        )
    };
}

/// Keeps the plans of one transaction with their indexes. A planner that believes a table is small, or that an array is,
/// would read all of it or hash it instead, and would be right only until the table grows.
const INDEX_PLANS: &str = index_plans!("SET LOCAL");
/// The same for a whole session, for measurements.
pub(crate) const INDEX_PLANS_OF_SESSION: &str = index_plans!("SET");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    access: Access,
    planner: Planner,
}

#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool,
    pub(super) place: String,
    statements: Statements,
    news: Arc<News>,
    clock: Arc<ServerClock>,
    background: Vec<tokio::task::AbortHandle>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        for task in &self.background {
            task.abort();
        }
    }
}

impl Postgres {
    pub(in crate::db) async fn open(
        url: &str,
        place: &str,
        options: &Options,
        clock: Arc<ServerClock>,
    ) -> Result<Self> {
        let unavailable = |why: String| Error::Unavailable { place: place.to_owned(), why };
        let address = Address::parse(url).map_err(unavailable)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let tls = address.tls().map_err(unavailable)?;
        let pool = Pool::builder(Manager::from_config(address.config.clone(), tls, recycling))
            .max_size(options.connections.max(2))
            .build()
            .map_err(|error| unavailable(error.to_string()))?;
        // The driver's own limit covers the connection but not a server that never answers on it.
        let patience = address.config.get_connect_timeout().copied().unwrap_or(CONNECT_PATIENCE);
        let client = tokio::time::timeout(patience, pool.get())
            .await
            .map_err(|_| unavailable(format!("no answer within {} s", patience.as_secs())))?
            .map_err(|error| unavailable(pool_told(&error)))?;
        let mut background = Vec::new();
        if options.follow_database_clock {
            clock::learn(&client, &clock).await.map_err(|error| unavailable(told(&error)))?;
            background.push(tokio::spawn(clock::keep(pool.clone(), Arc::clone(&clock))).abort_handle());
        }
        drop(client);
        let news = News::new();
        background.push(tokio::spawn(news::announce(pool.clone(), Arc::clone(&news))).abort_handle());
        if let Some(listen_at) = options.listen.address(&address).map_err(unavailable)? {
            let tls = listen_at.tls().map_err(unavailable)?;
            background.push(tokio::spawn(news::listen(listen_at.config, tls, Arc::clone(&news))).abort_handle());
        }
        let statements = if options.prepared { Statements::Prepared } else { Statements::Whole };
        Ok(Self { pool, place: place.to_owned(), statements, news, clock, background })
    }

    pub(in crate::db) fn wakeups(&self) -> watch::Receiver<u64> {
        self.news.wakeups()
    }

    /// Runs a transaction that may write. All of them reach their rows by key.
    pub(in crate::db) async fn write<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        self.run(Kind { name, access: Access::Write, planner: Planner::Indexes }, work).await
    }

    pub(in crate::db) async fn read<T, F>(&self, name: &'static str, planner: Planner, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        self.run(Kind { name, access: Access::Read, planner }, work).await
    }

    async fn run<T, F>(&self, kind: Kind, work: F) -> Result<T>
    where
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let (mut tries, mut reconnects) = (1, 0);
        loop {
            match self.attempt(kind, &work).await {
                Ok(value) => return Ok(value),
                Err(PgFailure { remedy: Remedy::Again, error }) if tries < TRIES => {
                    tracing::debug!(kind.name, tries, %error, "the server asks for another try");
                    tokio::time::sleep(Duration::from_millis(u64::from(tries * tries))).await;
                    tries += 1;
                }
                Err(PgFailure { remedy: Remedy::Reconnect, error }) if reconnects < RECONNECTS => {
                    tracing::debug!(kind.name, reconnects, %error, "trying again on a new connection");
                    reconnects += 1;
                }
                Err(PgFailure { error, .. }) => return Err(error),
            }
        }
    }

    /// Runs a transaction once. A failure's remedy is given only where it is known that nothing was changed.
    async fn attempt<T, F>(&self, kind: Kind, work: &F) -> Result<T, PgFailure>
    where
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let mut client = self.client(kind.name).await.map_err(PgFailure::last)?;
        let result = self.transact(&mut client, kind, work).await;
        if let Err(PgFailure { remedy: Remedy::Reconnect, .. }) = &result {
            // The others lead to the same server. Those in use end here when they meet the same fault.
            drop(Object::take(client));
            self.pool.retain(|_, _| false);
        }
        result
    }

    async fn transact<T, F>(&self, client: &mut Object, kind: Kind, work: &F) -> Result<T, PgFailure>
    where
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let failure =
            |error: tokio_postgres::Error| PgFailure { remedy: remedy(&error), error: self.fault(kind.name, &error) };
        let mut builder = client.build_transaction();
        if kind.access == Access::Read {
            builder = builder.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        }
        let transaction = builder.start().await.map_err(failure)?;
        let mut tx = Tx::Postgres(PgTx {
            transaction: &transaction,
            statements: match kind.planner {
                Planner::Server => Statements::Whole,
                Planner::Indexes => self.statements,
            },
            name: kind.name,
            place: &self.place,
            clock: &self.clock,
            remedy: Remedy::None,
            wakes: false,
        });
        let result = match kind.planner {
            Planner::Server => work(&mut tx).await,
            Planner::Indexes => {
                // The settings are sent ahead of the work's first statement, without waiting for their answer.
                let (set, result) = future::join(transaction.batch_execute(INDEX_PLANS), work(&mut tx)).await;
                set.map_err(failure)?;
                result
            }
        };
        let Tx::Postgres(PgTx { remedy: allowed, wakes, .. }) = tx else {
            unreachable!("a transaction changed its kind")
        };
        match result {
            Ok(value) => {
                transaction.commit().await.map_err(|error| self.at_commit(kind, &error))?;
                if wakes {
                    self.news.committed();
                }
                Ok(value)
            }
            Err(error) => {
                let _ = transaction.rollback().await;
                Err(PgFailure { remedy: allowed, error })
            }
        }
    }

    /// A deadlock or serialization fault at commit changed nothing. Any other fault leaves it unknown whether the commit
    /// happened: the caller reads again, and guards keep a repeat from doing it twice.
    fn at_commit(&self, kind: Kind, error: &tokio_postgres::Error) -> PgFailure {
        let known = match (remedy(error), kind.access) {
            (Remedy::Again, _) => Remedy::Again,
            (Remedy::Reconnect, Access::Read) => Remedy::Reconnect,
            (Remedy::Reconnect, Access::Write) | (Remedy::None, _) => Remedy::None,
        };
        PgFailure { remedy: known, error: self.fault(kind.name, error) }
    }

    pub(super) async fn client(&self, name: &'static str) -> Result<Object> {
        self.pool.get().await.map_err(|error| Error::Lost { place: self.place.clone(), name, why: pool_told(&error) })
    }

    pub(super) fn fault(&self, name: &'static str, error: &tokio_postgres::Error) -> Error {
        fault(&self.place, name, error)
    }
}

/// Why a transaction did not commit, and what may be done about it.
struct PgFailure {
    remedy: Remedy,
    error: Error,
}

impl PgFailure {
    fn last(error: Error) -> Self {
        Self { remedy: Remedy::None, error }
    }
}
