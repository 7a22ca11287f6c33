//! The store as a whole: opening it, and the handles that it gives to each plane. What a handle can do stands beside its
//! SQL, in the file of the table that it reads or writes.

use std::sync::Arc;

use redrive_core::id::OpId;
use redrive_core::time::Timestamp;
use redrive_metrics::Metrics;
use tokio::sync::watch;

use crate::access::Access;
use crate::db::{Db, Options, Schema, Wakeups};
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::migrate;
use crate::runs::SubmitLine;
use crate::url::StoreUrl;

/// An open database. Planes get handles, each with only what is theirs to do.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) db: Db,
    pub(crate) ids: Ids,
    pub(crate) submits: SubmitLine,
}

impl Inner {
    pub(crate) fn now(&self) -> Timestamp {
        self.db.clock.now()
    }
}

/// What opening may do about the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Make it where it is not there, and bring it up to date.
    Migrate,
    /// It must be there; bring it up to date.
    Upgrade,
    /// It must be up to date.
    Current,
    /// Leave it as it is; only [`Store::schema`] and [`Store::migrate`] may be used.
    AsIs,
}

impl Store {
    pub async fn open(url: &StoreUrl, how: Open, options: Options) -> Result<Self> {
        let create = match how {
            Open::Migrate | Open::AsIs => true,
            Open::Upgrade | Open::Current => false,
        };
        let db = Db::open(url, create, options).await?;
        let store = Self { inner: Arc::new(Inner { db, ids: Ids::default(), submits: SubmitLine::default() }) };
        match how {
            Open::Migrate => store.migrate().await.map(drop)?,
            Open::Upgrade => store.upgrade().await?,
            Open::Current => store.check().await?,
            Open::AsIs => {}
        }
        Ok(store)
    }

    /// Opens a database to read it and no more: it must be there and up to date, and nothing is made, written or
    /// locked, so that the caller needs no right to.
    pub async fn open_read_only(url: &StoreUrl, options: Options) -> Result<View> {
        let db = Db::open_to_read(url, options).await?;
        let store = Self { inner: Arc::new(Inner { db, ids: Ids::default(), submits: SubmitLine::default() }) };
        store.check().await?;
        Ok(store.view())
    }

    async fn upgrade(&self) -> Result<()> {
        if self.schema().await? == Schema::Empty {
            return Err(Error::NoDatabase { place: self.place().to_owned(), why: "it is empty" });
        }
        self.migrate().await.map(drop)
    }

    async fn check(&self) -> Result<()> {
        let place = self.place().to_owned();
        match self.schema().await? {
            Schema::Redrive { version, .. } => {
                migrate::check_known(&place, version)?;
                if version < migrate::SUPPORTED {
                    return Err(Error::OlderSchema { place, found: version, needed: migrate::SUPPORTED });
                }
                Ok(())
            }
            Schema::Empty => Err(Error::OlderSchema { place, found: 0, needed: migrate::SUPPORTED }),
            Schema::Foreign => Err(Error::Foreign { place }),
        }
    }

    /// Brings the schema up to date; gives the version it had and the one it has.
    pub async fn migrate(&self) -> Result<(i64, i64)> {
        self.inner.db.migrate().await
    }

    pub async fn schema(&self) -> Result<Schema> {
        self.inner.db.schema().await
    }

    /// Where the database is, without its password.
    pub fn place(&self) -> &str {
        &self.inner.db.place
    }

    /// `sqlite` or `postgres`.
    pub fn kind(&self) -> &'static str {
        match self.inner.db.dialect() {
            crate::db::Dialect::Sqlite => "sqlite",
            crate::db::Dialect::Postgres => "postgres",
        }
    }

    /// What this process counts; it was given when the store was opened.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.db.metrics
    }

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Counts up whenever there may be new work.
    pub fn wakeups(&self) -> watch::Receiver<Wakeups> {
        self.inner.db.wakeups()
    }

    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }

    pub fn control(&self) -> ControlStore {
        ControlStore { inner: Arc::clone(&self.inner) }
    }

    pub fn data(&self) -> DataStore {
        DataStore { inner: Arc::clone(&self.inner) }
    }

    /// For the server: who may call it.
    pub fn access(&self) -> Access {
        Access { inner: Arc::clone(&self.inner) }
    }

    /// For the validator alone.
    pub fn verdicts(&self) -> Verdicts {
        Verdicts { inner: Arc::clone(&self.inner) }
    }
}

/// Reads; nothing here writes. Every call sees one snapshot.
#[derive(Debug, Clone)]
pub struct View {
    pub(crate) inner: Arc<Inner>,
}

impl View {
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Where the database is, without its password.
    pub fn place(&self) -> &str {
        &self.inner.db.place
    }
}

/// The control plane's handle.
///
/// It can requeue a partition:
///
/// ```
/// async fn requeue(
///     control: redrive_store::ControlStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::ControlEvent<'_>)>,
/// ) -> redrive_store::Result<()> {
///     control.commit(operation, items).await.map(drop)
/// }
/// ```
///
/// It cannot judge one:
///
/// ```compile_fail
/// async fn judge(
///     control: redrive_store::ControlStore, run: &redrive_core::run::Run,
///     judgement: redrive_core::partition::Judgement,
/// ) -> redrive_store::Result<()> {
///     control.judge(run, judgement, None).await.map(drop)
/// }
/// ```
///
/// Nor can it be given an event of the data plane:
///
/// ```compile_fail
/// async fn claim(
///     control: redrive_store::ControlStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::DataEvent)>,
/// ) -> redrive_store::Result<()> {
///     control.commit(operation, items).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct ControlStore {
    pub(crate) inner: Arc<Inner>,
}

impl ControlStore {
    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// What this process counts; it was given when the store was opened.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.db.metrics
    }

    pub fn new_operation_id(&self) -> OpId {
        self.inner.ids.operation(self.inner.now())
    }
}

/// The data plane's handle.
///
/// It can give an attempt back untried:
///
/// ```
/// async fn release(data: redrive_store::DataStore, run: &redrive_core::run::Run) -> redrive_store::Result<()> {
///     data.release(run, None).await.map(drop)
/// }
/// ```
///
/// It cannot judge one, nor many:
///
/// ```compile_fail,E0599
/// async fn judge(
///     data: redrive_store::DataStore, run: &redrive_core::run::Run, judgement: redrive_core::partition::Judgement,
/// ) -> redrive_store::Result<()> {
///     data.judge(run, judgement, None).await.map(drop)
/// }
/// ```
///
/// ```compile_fail,E0599
/// async fn judge(
///     data: redrive_store::DataStore, judged: Vec<redrive_store::JudgedAttempt>,
/// ) -> redrive_store::Result<()> {
///     data.judge_many(judged).await.map(drop)
/// }
/// ```
///
/// It cannot requeue a partition:
///
/// ```compile_fail
/// async fn requeue(
///     data: redrive_store::DataStore, operation: &redrive_store::Operation,
///     items: Vec<(redrive_core::partition::Partition, redrive_core::partition::ControlEvent<'_>)>,
/// ) -> redrive_store::Result<()> {
///     data.commit(operation, items).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct DataStore {
    pub(crate) inner: Arc<Inner>,
}

impl DataStore {
    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// What this process counts; it was given when the store was opened.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.db.metrics
    }

    pub fn wakeups(&self) -> watch::Receiver<Wakeups> {
        self.inner.db.wakeups()
    }

    /// Counts up whenever a run that a worker may have was cancelled: by this process, or on PostgreSQL by any.
    pub fn cancels(&self) -> watch::Receiver<u64> {
        self.inner.db.cancels()
    }
}

/// The validator's handle: it alone says whether an attempt succeeded.
///
/// ```
/// async fn judge(
///     verdicts: redrive_store::Verdicts, run: &redrive_core::run::Run, judgement: redrive_core::partition::Judgement,
/// ) -> redrive_store::Result<()> {
///     verdicts.judge(run, judgement, None).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Verdicts {
    pub(crate) inner: Arc<Inner>,
}

impl Verdicts {
    pub fn view(&self) -> View {
        View { inner: Arc::clone(&self.inner) }
    }
}

/// Runs a function over a read transaction with its arguments moved in.
macro_rules! read {
    ($self:ident, $name:literal, |$tx:ident $(, $arg:ident)*| $body:expr) => {
        read!($self.read, $name, |$tx $(, $arg)*| $body)
    };
    ($self:ident.$kind:ident, $name:literal, |$tx:ident $(, $arg:ident)*| $body:expr) => {{
        $(let $arg = Arc::new($arg);)*
        $self.inner.db.$kind($name, move |$tx| {
            $(let $arg = Arc::clone(&$arg);)*
            Box::pin(async move { $body.await })
        }).await
    }};
}
pub(crate) use read;

/// Runs a block in a write transaction. Its arguments are moved in and shared by its tries; what is `Copy` needs no naming.
macro_rules! transact {
    ($inner:expr, $name:expr, |$tx:ident $(, $arg:ident)*| $body:expr) => {{
        $(let $arg = ::std::sync::Arc::new($arg);)*
        $inner.db.write($name, move |$tx| {
            $(let $arg = ::std::sync::Arc::clone(&$arg);)*
            Box::pin(async move { $body })
        }).await
    }};
}
pub(crate) use transact;
