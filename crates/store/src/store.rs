//! The store as a whole: opening it, and the handles that it gives to each plane.

use std::sync::Arc;

use redrive_core::time::Timestamp;
use tokio::sync::watch;

use crate::control::ControlStore;
use crate::data::DataStore;
use crate::db::{Db, Options, Schema};
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::migrate;
use crate::url::StoreUrl;
use crate::view::View;

/// An open database. Planes get handles, each with only what is theirs to do.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) db: Db,
    pub(crate) ids: Ids,
}

impl Inner {
    pub(crate) fn now(&self) -> Timestamp {
        self.db.clock.now()
    }
}

/// What opening may do about the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Bring it up to date.
    Migrate,
    /// It must be up to date.
    Current,
    /// Leave it as it is; only [`Store::schema`] and [`Store::migrate`] may be used.
    AsIs,
}

impl Store {
    pub async fn open(url: &StoreUrl, how: Open, options: Options) -> Result<Self> {
        let create = match how {
            Open::Migrate | Open::AsIs => true,
            Open::Current => false,
        };
        let db = Db::open(url, create, options).await?;
        let store = Self { inner: Arc::new(Inner { db, ids: Ids::default() }) };
        match how {
            Open::Migrate => store.migrate().await.map(drop)?,
            Open::Current => store.check().await?,
            Open::AsIs => {}
        }
        Ok(store)
    }

    /// Opens a database to read it and no more: it must be there and up to date, and nothing is made, written or
    /// locked, so that the caller needs no right to.
    pub async fn open_read_only(url: &StoreUrl, options: Options) -> Result<View> {
        let db = Db::open_to_read(url, options).await?;
        let store = Self { inner: Arc::new(Inner { db, ids: Ids::default() }) };
        store.check().await?;
        Ok(store.view())
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

    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Counts up whenever there may be new work.
    pub fn wakeups(&self) -> watch::Receiver<u64> {
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
}
