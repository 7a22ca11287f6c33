//! A server, its pool of connections, and transactions that are run again where nothing can have happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use redrive_metrics::Metrics;
use tokio::sync::watch;

use crate::clock::ServerClock;
use crate::db::Options;
use crate::db::tx::Tx;
use crate::db::wakeups::{Tells, Wakeups};
use crate::db::work::{Given, Work};
use crate::error::{Error, Result};
use crate::hurry::Hurry;

use super::address::{Address, CONNECT_PATIENCE};
use super::clock;
use super::deferred::Deferred;
use super::fault::{Fault, Remedy, pool_error_text, within};
use super::kind::{Access, COMMIT, Kind, PROMPT, Planner};
use super::lent::Lent;
use super::news::{self, News};
use super::transaction::{PgTx, Statements};

/// How often a transaction that the server aborted for another's sake is run again.
const TRIES: u32 = 8;
/// How often a transaction whose connection was lost before its commit is run again on a new one.
const RECONNECTS: u32 = 2;

/// How long a caller waits for one of the pool's connections to become free.
const POOL_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool,
    pub(super) place: String,
    statements: Statements,
    news: Arc<News>,
    hurry: Hurry,
    clock: Arc<ServerClock>,
    background: Vec<tokio::task::AbortHandle>,
    metrics: Metrics,
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
        tokio::select! {
            biased;
            opened = Self::connect(url, place, options, clock) => opened,
            () = options.hurry.over() => Err(Error::Stopped { place: place.to_owned(), name: "connect" }),
        }
    }

    async fn connect(url: &str, place: &str, options: &Options, clock: Arc<ServerClock>) -> Result<Self> {
        let unavailable = |why: String| Error::Unavailable { place: place.to_owned(), why };
        let address = Address::parse(url).map_err(unavailable)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let tls = address.tls().map_err(unavailable)?;
        // The driver's own limit covers the connection but not a server that never answers on it.
        let patience = address.config.get_connect_timeout().copied().unwrap_or(CONNECT_PATIENCE);
        let pool = Pool::builder(Manager::from_config(address.config.clone(), tls, recycling))
            .max_size(options.connections.max(2))
            .runtime(Runtime::Tokio1)
            .create_timeout(Some(patience))
            .wait_timeout(Some(POOL_PATIENCE))
            .build()
            .map_err(|error| unavailable(error.to_string()))?;
        let client = tokio::time::timeout(patience, Lent::from(&pool))
            .await
            .map_err(|_| unavailable(format!("no answer within {} s", patience.as_secs())))?
            .map_err(|error| unavailable(pool_error_text(&error)))?;
        let mut background = Vec::new();
        if options.follow_database_clock {
            let learned = within(patience, clock::learn(&client, &clock)).await;
            learned.map_err(|fault| unavailable(fault.why()))?;
            background.push(tokio::spawn(clock::keep(pool.clone(), Arc::clone(&clock))).abort_handle());
        }
        client.give_back();
        let news = News::new();
        background.push(tokio::spawn(news::announce(pool.clone(), Arc::clone(&news))).abort_handle());
        if let Some(listen_at) = options.listen.address(&address).map_err(unavailable)? {
            let tls = listen_at.tls().map_err(unavailable)?;
            background.push(tokio::spawn(news::listen(listen_at.config, tls, Arc::clone(&news))).abort_handle());
        }
        let statements = if options.prepared { Statements::Prepared } else { Statements::Whole };
        let (hurry, metrics) = (options.hurry.clone(), options.metrics.clone());
        Ok(Self { pool, place: place.to_owned(), statements, news, hurry, clock, background, metrics })
    }

    pub(in crate::db) fn wakeups(&self) -> watch::Receiver<Wakeups> {
        self.news.wakeups()
    }

    pub(in crate::db) fn cancels(&self) -> watch::Receiver<u64> {
        self.news.cancels()
    }

    /// Runs a transaction that may write. All of them reach their rows by key.
    pub(in crate::db) async fn write(&self, name: &'static str, work: Work) -> Result<Given> {
        self.run(Kind { name, access: Access::Write, planner: Planner::Indexes }, work).await
    }

    pub(in crate::db) async fn read(&self, name: &'static str, planner: Planner, work: Work) -> Result<Given> {
        self.run(Kind { name, access: Access::Read, planner }, work).await
    }

    async fn run(&self, kind: Kind, work: Work) -> Result<Given> {
        let commit = CommitSent::default();
        self.limited(kind.name, kind.whole(), &commit, self.try_and_try_again(kind, &commit, &work)).await
    }

    /// Awaits a call no longer than this, and no longer than a program has that was told to stop. Its connection is closed
    /// when it is given up.
    pub(super) async fn limited<T>(
        &self,
        name: &'static str,
        limit: Duration,
        commit: &CommitSent,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let why = tokio::select! {
            biased;
            ended = call => return ended,
            () = self.hurry.over() => None,
            () = tokio::time::sleep(limit) => Some(format!("not done within {} s", limit.as_secs())),
        };
        let place = self.place.clone();
        Err(match (commit.is_sent(), why) {
            (true, why) => {
                let stopped = || "this program was told to stop before the server had answered".to_owned();
                Error::Unknown { place, name, why: why.unwrap_or_else(stopped) }
            }
            (false, Some(why)) => Error::Lost { place, name, why },
            (false, None) => Error::Stopped { place, name },
        })
    }

    async fn try_and_try_again(&self, kind: Kind, commit: &CommitSent, work: &Work) -> Result<Given> {
        let (mut tries, mut reconnects) = (1, 0);
        loop {
            match self.attempt(kind, commit, work).await {
                Ok(value) => return Ok(value),
                Err(PgFailure { remedy: Remedy::Again, error, .. }) if tries < TRIES => {
                    tracing::debug!(kind.name, tries, %error, "the server asks for another try");
                    tokio::time::sleep(Duration::from_millis(u64::from(tries * tries))).await;
                    tries += 1;
                }
                Err(PgFailure { remedy: Remedy::Reconnect, error, .. }) if reconnects < RECONNECTS => {
                    tracing::debug!(kind.name, reconnects, %error, "trying again on a new connection");
                    reconnects += 1;
                }
                Err(PgFailure { error, .. }) => return Err(error),
            }
        }
    }

    /// Runs a transaction once. A failure's remedy is given only where it is known that nothing was changed.
    async fn attempt(&self, kind: Kind, commit: &CommitSent, work: &Work) -> Result<Given, PgFailure> {
        commit.reset();
        let client = self.client(kind.name).await.map_err(PgFailure::last)?;
        let result = self.transact(&client, kind, commit, work).await;
        match &result {
            Err(PgFailure { connection: Connection::Broken, .. }) => {
                drop(client);
                // The others lead to the same server. Those in use end here when they meet the same fault.
                self.pool.retain(|_, _| false);
            }
            Ok(_) | Err(PgFailure { connection: Connection::Sound, .. }) => client.give_back(),
        }
        result
    }

    async fn transact(
        &self,
        client: &Object,
        kind: Kind,
        commit: &CommitSent,
        work: &Work,
    ) -> Result<Given, PgFailure> {
        let begun = within(PROMPT, client.batch_execute(kind.begin())).await;
        begun.map_err(|fault| PgFailure::broken(fault.remedy(), fault.error(&self.place, kind.name)))?;
        let mut tx = Tx::Postgres(PgTx {
            client,
            statements: match kind.planner {
                Planner::Server => Statements::Whole,
                Planner::Indexes => self.statements,
            },
            kind,
            place: &self.place,
            clock: &self.clock,
            remedy: Remedy::None,
            tells: Tells::default(),
            events: vec![],
            deferred: Deferred::default(),
        });
        let result = work(&mut tx).await;
        let Tx::Postgres(PgTx { remedy: allowed, tells, events, mut deferred, .. }) = tx else {
            unreachable!("a transaction changed its kind")
        };
        match result {
            Ok(value) => {
                if kind.access == Access::Write {
                    commit.sent();
                }
                let sent = async { Ok(deferred.then(client.batch_execute("COMMIT")).await) };
                let sent = within(COMMIT, sent).await.map_err(|fault| self.at_commit(kind, &fault))?;
                sent.deferred.map_err(|error| self.before_commit(kind, error.into()))?;
                sent.next.map_err(|error| self.at_commit(kind, &error.into()))?;
                self.news.committed(tells);
                self.metrics.report(events);
                Ok(value)
            }
            // On a connection that leads nowhere there is nothing to be taken back.
            Err(error) if allowed == Remedy::Reconnect => Err(PgFailure::broken(allowed, error)),
            Err(error) => Err(match within(PROMPT, client.batch_execute("ROLLBACK")).await {
                Ok(()) => PgFailure { remedy: allowed, error, connection: Connection::Sound },
                Err(_) => PgFailure::broken(allowed, error),
            }),
        }
    }

    /// A statement that was sent with the commit. Where the server has refused it, the commit took everything back.
    fn before_commit(&self, kind: Kind, fault: Fault) -> PgFailure {
        if !fault.is_told() {
            return self.at_commit(kind, &fault);
        }
        let connection = if fault.is_refusal() { Connection::Sound } else { Connection::Broken };
        PgFailure { remedy: fault.remedy(), error: fault.error(&self.place, kind.name), connection }
    }

    /// A deadlock or serialization fault at commit changed nothing, and neither did what the server refused. Any other fault
    /// leaves it unknown whether the commit happened: the caller reads again, and guards keep a repeat from doing it twice.
    fn at_commit(&self, kind: Kind, fault: &Fault) -> PgFailure {
        let error = || fault.error(&self.place, kind.name);
        let connection = if fault.is_refusal() { Connection::Sound } else { Connection::Broken };
        match (fault.remedy(), kind.access) {
            (Remedy::Again, _) => PgFailure { remedy: Remedy::Again, error: error(), connection },
            (remedy, Access::Read) => PgFailure { remedy, error: error(), connection },
            (_, Access::Write) if fault.is_refusal() => PgFailure { remedy: Remedy::None, error: error(), connection },
            (_, Access::Write) => {
                let (place, name, why) = (self.place.clone(), kind.name, fault.why());
                PgFailure::broken(Remedy::None, Error::Unknown { place, name, why })
            }
        }
    }

    pub(super) async fn client(&self, name: &'static str) -> Result<Lent> {
        let lost = |error| Error::Lost { place: self.place.clone(), name, why: pool_error_text(&error) };
        Lent::from(&self.pool).await.map_err(lost)
    }
}

/// Whether the commit of a transaction is on its way, so that nobody knows what becomes of it.
#[derive(Debug, Default)]
pub(super) struct CommitSent(AtomicBool);

impl CommitSent {
    pub(super) fn sent(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn is_sent(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a transaction did not commit, and what may be done about it.
struct PgFailure {
    remedy: Remedy,
    error: Error,
    connection: Connection,
}

/// Whether another transaction can begin on a connection.
enum Connection {
    Sound,
    /// Its last call was not answered, or the answer was that it is lost.
    Broken,
}

impl PgFailure {
    fn broken(remedy: Remedy, error: Error) -> Self {
        Self { remedy, error, connection: Connection::Broken }
    }

    /// There was no connection.
    fn last(error: Error) -> Self {
        Self { remedy: Remedy::None, error, connection: Connection::Sound }
    }
}
