//! PostgreSQL: a pool of connections, one more that listens for news, and the server's clock.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Transaction,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use redrive_core::text::one_line;
use redrive_core::time::Timestamp;
use tokio::sync::watch;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Config, IsolationLevel};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::clock::FollowingClock;
use crate::error::{Error, Result};
use crate::migrate;

use super::Schema;
use super::tx::Tx;
use super::value::{Column, Param};

const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long data may lie unacknowledged before the network counts as gone.
const NETWORK_PATIENCE: Duration = Duration::from_secs(30);
const CLOCK_SAMPLES: Duration = Duration::from_secs(60);
/// How often a transaction that the server aborted for another's sake is run again.
const TRIES: u32 = 8;
/// Every statement here is made for an index. A planner that believes a table is small, or that an array is, would read all
/// of it or hash it instead, and would be right only until the table grows.
pub(crate) const SESSION: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; \
                       SET plan_cache_mode = force_generic_plan";
const MIGRATION_LOCK: i64 = 0x7265_6472_6976_6500;

#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool,
    place: String,
    wake: Arc<watch::Sender<u64>>,
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
    pub(super) async fn open(
        url: &str,
        place: &str,
        connections: usize,
        clock: Option<Arc<FollowingClock>>,
    ) -> Result<Self> {
        let unavailable = |why: String| Error::Unavailable { place: place.to_owned(), why };
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| unavailable(told(&error)))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_PATIENCE);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(NETWORK_PATIENCE);
        }
        if config.get_application_name().is_none() {
            config.application_name("redrive");
        }
        let tls = tls();
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let settle = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
            Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(Manager::from_config(config.clone(), tls.clone(), recycling))
            .max_size(connections.max(2))
            .post_create(settle)
            .build()
            .map_err(|error| unavailable(error.to_string()))?;
        // The driver's own limit covers the connection but not a server that never answers on it.
        let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_PATIENCE);
        let client = tokio::time::timeout(patience, pool.get())
            .await
            .map_err(|_| unavailable(format!("no answer within {} s", patience.as_secs())))?
            .map_err(|error| unavailable(pool_told(&error)))?;
        let mut background = Vec::new();
        if let Some(clock) = clock {
            sample_clock(&client, &clock).await.map_err(|error| unavailable(told(&error)))?;
            background.push(tokio::spawn(keep_clock(pool.clone(), clock)).abort_handle());
        }
        drop(client);
        let wake = Arc::new(watch::channel(0).0);
        background.push(tokio::spawn(listen(config, tls, Arc::clone(&wake))).abort_handle());
        Ok(Self { pool, place: place.to_owned(), wake, background })
    }

    pub(super) fn wakeups(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    pub(super) async fn write<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.attempt(name, false, &work).await {
                Err(Attempt::Again(why)) if tries < TRIES => {
                    tracing::debug!(name, tries, %why, "the server asks for another try");
                    tokio::time::sleep(Duration::from_millis(u64::from(tries * tries))).await;
                }
                Err(Attempt::Again(error) | Attempt::Failed(error)) => return Err(error),
                Ok(value) => return Ok(value),
            }
        }
    }

    pub(super) async fn read<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        self.attempt(name, true, &work).await.map_err(|attempt| match attempt {
            Attempt::Again(error) | Attempt::Failed(error) => error,
        })
    }

    async fn attempt<T, F>(&self, name: &'static str, read_only: bool, work: &F) -> Result<T, Attempt>
    where
        F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let mut client = self.client(name).await.map_err(Attempt::Failed)?;
        let mut builder = client.build_transaction();
        if read_only {
            builder = builder.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        }
        let transaction = builder.start().await.map_err(|error| Attempt::Failed(self.fault(name, &error)))?;
        let (result, aborted) = {
            let mut tx = Tx::Postgres(PgTx { transaction: &transaction, name, place: &self.place, aborted: false });
            let result = work(&mut tx).await;
            let Tx::Postgres(tx) = tx else { unreachable!("a transaction changed its kind") };
            (result, tx.aborted)
        };
        match result {
            Ok(value) => match transaction.commit().await {
                Ok(()) => Ok(value),
                // A deadlock or serialization fault at commit changed nothing. Any other fault leaves it unknown whether
                // the commit happened: the caller reads again, and guards keep a repeat from doing it twice.
                Err(error) if wants_another_try(&error) => Err(Attempt::Again(self.fault(name, &error))),
                Err(error) => Err(Attempt::Failed(self.fault(name, &error))),
            },
            Err(error) => {
                let _ = transaction.rollback().await;
                Err(if aborted { Attempt::Again(error) } else { Attempt::Failed(error) })
            }
        }
    }

    async fn client(&self, name: &'static str) -> Result<Object> {
        self.pool.get().await.map_err(|error| Error::Lost { place: self.place.clone(), name, why: pool_told(&error) })
    }

    fn fault(&self, name: &'static str, error: &tokio_postgres::Error) -> Error {
        fault(&self.place, name, error)
    }

    pub(super) async fn schema(&self) -> Result<Schema> {
        let client = self.client("schema").await?;
        let fault = |error| self.fault("schema", &error);
        let tables: Vec<String> = client
            .query("SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()", &[])
            .await
            .map_err(fault)?
            .iter()
            .map(|row| row.get(0))
            .collect();
        if tables.is_empty() {
            return Ok(Schema::Empty);
        }
        if !tables.iter().any(|table| table == "redrive_schema") {
            return Ok(Schema::Foreign);
        }
        let row = client.query_one("SELECT max(version) FROM redrive_schema", &[]).await.map_err(fault)?;
        let version = row.get::<_, Option<i64>>(0).unwrap_or(0);
        let beside_others = tables.iter().any(|table| !migrate::TABLES.contains(&table.as_str()));
        Ok(Schema::Redrive { version, beside_others })
    }

    pub(super) async fn migrate(&self) -> Result<(i64, i64)> {
        if self.schema().await? == Schema::Foreign {
            return Err(Error::Foreign { place: self.place.clone() });
        }
        let mut client = self.client("migrate").await?;
        let fault = |error| self.fault("migrate", &error);
        let transaction = client.transaction().await.map_err(fault)?;
        transaction.batch_execute("SET LOCAL lock_timeout = '60s'").await.map_err(fault)?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(fault)?;
        transaction
            .batch_execute("CREATE TABLE IF NOT EXISTS redrive_schema (version BIGINT PRIMARY KEY)")
            .await
            .map_err(fault)?;
        let row = transaction.query_one("SELECT max(version) FROM redrive_schema", &[]).await.map_err(fault)?;
        let found = row.get::<_, Option<i64>>(0).unwrap_or(0);
        migrate::check_known(&self.place, found)?;
        let mut version = found;
        for step in migrate::steps_after(found) {
            transaction.batch_execute(step.postgres).await.map_err(fault)?;
            transaction
                .execute("INSERT INTO redrive_schema (version) VALUES ($1)", &[&step.version])
                .await
                .map_err(fault)?;
            version = step.version;
        }
        transaction.commit().await.map_err(fault)?;
        Ok((found, version))
    }
}

enum Attempt {
    Again(Error),
    Failed(Error),
}

/// A transaction on the server, and what its work calls itself.
pub(crate) struct PgTx<'a> {
    transaction: &'a Transaction<'a>,
    name: &'static str,
    place: &'a str,
    /// The server gave it up for another's sake: it may be run again.
    aborted: bool,
}

impl PgTx<'_> {
    pub(super) async fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.run(sql, &params).await
    }

    pub(super) async fn query_arrays(&mut self, sql: &str, columns: &[Column<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        let params: Vec<&(dyn ToSql + Sync)> = columns.iter().map(Column::array).collect();
        self.run(sql, &params).await
    }

    pub(super) async fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.run_count(sql, &params).await
    }

    pub(super) async fn execute_arrays(&mut self, sql: &str, columns: &[Column<'_>]) -> Result<u64> {
        let params: Vec<&(dyn ToSql + Sync)> = columns.iter().map(Column::array).collect();
        self.run_count(sql, &params).await
    }

    async fn run(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<tokio_postgres::Row>> {
        let transaction = self.transaction;
        let rows = async {
            let statement = transaction.prepare_cached(sql).await?;
            transaction.query(&statement, params).await
        };
        rows.await.map_err(|error| self.faulted(&error))
    }

    async fn run_count(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        let transaction = self.transaction;
        let count = async {
            let statement = transaction.prepare_cached(sql).await?;
            transaction.execute(&statement, params).await
        };
        count.await.map_err(|error| self.faulted(&error))
    }

    fn faulted(&mut self, error: &tokio_postgres::Error) -> Error {
        self.aborted = wants_another_try(error);
        fault(self.place, self.name, error)
    }
}

fn wants_another_try(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED)
}

fn fault(place: &str, name: &'static str, error: &tokio_postgres::Error) -> Error {
    let why = told(error);
    match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => Error::Full { place: place.to_owned() },
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { place: place.to_owned(), why },
        Some(code) if *code == SqlState::UNDEFINED_TABLE => {
            Error::OlderSchema { place: place.to_owned(), found: 0, needed: migrate::SUPPORTED }
        }
        Some(code) if code.code().starts_with("57") || code.code().starts_with("08") => {
            Error::Lost { place: place.to_owned(), name, why }
        }
        Some(_) => Error::Statement { name, why },
        None => Error::Lost { place: place.to_owned(), name, why },
    }
}

/// An error with its causes, which the library keeps behind it, in one line. A server's detail is left out: it shows rows.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(refused) = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error) {
        return one_line(refused.message());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    one_line(&text)
}

fn pool_told(error: &PoolError) -> String {
    if let PoolError::Backend(error) = error { told(error) } else { told(error) }
}

fn tls() -> MakeRustlsConnect {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|error| unreachable!("the TLS provider has no protocol versions: {error}"))
        .with_root_certificates(roots)
        .with_no_client_auth();
    MakeRustlsConnect::new(config)
}

async fn sample_clock(client: &Object, clock: &FollowingClock) -> Result<(), tokio_postgres::Error> {
    let before = clock.local();
    let row =
        client.query_one("SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS BIGINT)", &[]).await?;
    clock.sample(before, Timestamp::from_micros(row.get(0)), clock.local());
    Ok(())
}

async fn keep_clock(pool: Pool, clock: Arc<FollowingClock>) {
    loop {
        tokio::time::sleep(CLOCK_SAMPLES).await;
        let Ok(client) = pool.get().await else { continue };
        if let Err(error) = sample_clock(&client, &clock).await {
            tracing::warn!(error = told(&error), "the server's clock could not be read");
        }
    }
}

/// Listens for news of work on a connection of its own, and comes back when that is lost.
async fn listen(config: Config, tls: MakeRustlsConnect, wake: Arc<watch::Sender<u64>>) {
    loop {
        if let Ok((client, mut connection)) = config.connect(tls.clone()).await {
            let mut news = stream::poll_fn(move |context| connection.poll_message(context)).fuse();
            let mut listening = Box::pin(client.batch_execute("LISTEN redrive").fuse());
            loop {
                futures_util::select! {
                    done = listening => {
                        if done.is_err() {
                            break;
                        }
                        // What was said before anybody listened is found by looking.
                        wake.send_modify(|count| *count = count.wrapping_add(1));
                    },
                    message = news.next() => match message {
                        Some(Ok(AsyncMessage::Notification(_))) => {
                            wake.send_modify(|count| *count = count.wrapping_add(1));
                        }
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => break,
                    },
                }
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
