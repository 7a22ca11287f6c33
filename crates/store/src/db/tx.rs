//! A transaction on either database. On SQLite every call is done when it returns, so a future over it is ready at
//! its first poll; the writer thread relies on that.

use std::time::Duration;

use redrive_core::run::Workload;
use redrive_core::time::Timestamp;
use redrive_metrics::Event;

use crate::clock::Clock as _;
use crate::error::{Error, Result};

use super::batch::Batch;
use super::postgres::{self, PgTx};
use super::row::{Cursor, Row};
use super::shared::Shared;
use super::sql::{Dialect, Kind, Lookup, Sql, render, render_lookup};
use super::sqlite_clock::TxClock;
use super::sqlite_statements::{self, sqlite_fault};
use super::value::{Column, Param};
use super::wakeups::{Tells, Workloads};

pub(crate) enum Tx<'a> {
    Sqlite {
        connection: &'a mut rusqlite::Connection,
        name: &'static str,
        tells: Tells,
        events: Vec<Event>,
        clock: TxClock,
    },
    Postgres(PgTx<'a>),
}

impl Tx<'_> {
    /// The database's time. Whatever is compared with a lease, or becomes one, is told by this clock inside the transaction.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Sqlite { clock, .. } => clock.now(),
            Self::Postgres(tx) => tx.clock.now(),
        }
    }

    /// From when a lease counts that is given or prolonged now.
    pub(crate) fn lease_from(&self) -> Timestamp {
        match self {
            Self::Sqlite { clock, .. } => clock.now(),
            Self::Postgres(tx) => tx.clock.lease_from(),
        }
    }

    /// How long ago the clock that counts was seen to have been set, where leases were left as they were. A SQLite file moves its
    /// leases with its clock.
    pub(crate) fn since_clock_was_set(&self) -> Option<Duration> {
        match self {
            Self::Sqlite { .. } => None,
            Self::Postgres(tx) => tx.clock.since_set(),
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite { .. } => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// The rows of an answer, each made into a `T`.
    pub(crate) async fn rows<T>(
        &mut self,
        sql: &Sql,
        params: &[Param<'_>],
        make: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let text = sql.render(self.dialect());
        self.rendered_rows(text, params, make).await
    }

    /// The same for a statement put together for this call.
    pub(crate) async fn built_rows<T>(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        make: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let text = render(sql, self.dialect());
        self.rendered_rows(&text, params, make).await
    }

    async fn rendered_rows<T>(
        &mut self,
        text: &str,
        params: &[Param<'_>],
        mut make: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        match self {
            Self::Sqlite { connection, name, .. } => sqlite_statements::rows(connection, name, text, params, make),
            Self::Postgres(tx) => {
                let rows = tx.query(text, params).await?;
                rows.iter().map(|row| make(&Row::Postgres(row))).collect()
            }
        }
    }

    pub(crate) async fn row<T>(
        &mut self,
        sql: &Sql,
        params: &[Param<'_>],
        make: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.rows(sql, params, make).await?.into_iter().next())
    }

    /// Runs a statement; gives how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: &Sql, params: &[Param<'_>]) -> Result<u64> {
        let text = sql.render(self.dialect());
        match self {
            Self::Sqlite { connection, name, .. } => {
                let fault = |error| sqlite_fault(name, error);
                let mut statement = connection.prepare_cached(text).map_err(fault)?;
                let changed = statement.execute(rusqlite::params_from_iter(params)).map_err(fault)?;
                Ok(u64::try_from(changed).unwrap_or(u64::MAX))
            }
            Self::Postgres(tx) => tx.execute(text, params).await,
        }
    }

    /// Runs a statement over many rows; says of each whether it took effect.
    pub(crate) async fn batch(&mut self, sql: &Batch, columns: &[Column<'_>]) -> Result<Vec<bool>> {
        let rows = columns.first().map_or(0, Column::len);
        if rows == 0 {
            return Ok(vec![]);
        }
        let shared = Shared::of(columns);
        match self {
            Self::Sqlite { connection, name, .. } => sqlite_statements::batch(connection, name, sql, columns, shared),
            Self::Postgres(tx) => postgres::batch(tx, sql, columns, shared).await,
        }
    }

    /// Asks a question for many rows; gives the answers, each with the place of the row that it belongs to.
    pub(crate) async fn lookup<T>(
        &mut self,
        sql: &Lookup,
        columns: &[Column<'_>],
        mut make: impl FnMut(Cursor<'_>) -> Result<T>,
    ) -> Result<Vec<(usize, T)>> {
        self.lookup_each(sql, columns, |nth, row| Ok((nth, make(row)?))).await
    }

    /// The same, where the answer is made with the place of its row.
    pub(crate) async fn lookup_each<T>(
        &mut self,
        sql: &Lookup,
        columns: &[Column<'_>],
        make: impl FnMut(usize, Cursor<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let text = sql.render(self.dialect());
        self.rendered_lookup(text, columns, make).await
    }

    /// The same for a question put together for this call. The answers to one row stay in their order.
    pub(crate) async fn built_lookup<T>(
        &mut self,
        sql: &str,
        names: &[(&str, Kind)],
        columns: &[Column<'_>],
        make: impl FnMut(usize, Cursor<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let text = render_lookup(sql, names, self.dialect());
        self.rendered_lookup(&text, columns, make).await
    }

    /// Runs a statement of PostgreSQL's over arrays; gives what it returns, each with the place in the arrays that comes first in it.
    pub(crate) async fn rows_of_arrays<T>(
        &mut self,
        sql: &Sql,
        columns: &[Column<'_>],
        mut make: impl FnMut(Cursor<'_>) -> Result<T>,
    ) -> Result<Vec<(usize, T)>> {
        let text = sql.render(self.dialect());
        self.rendered_lookup(text, columns, |nth, row| Ok((nth, make(row)?))).await
    }

    async fn rendered_lookup<T>(
        &mut self,
        text: &str,
        columns: &[Column<'_>],
        mut make: impl FnMut(usize, Cursor<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        if columns.first().map_or(0, Column::len) == 0 {
            return Ok(vec![]);
        }
        match self {
            Self::Sqlite { connection, name, .. } => sqlite_statements::lookup(connection, name, text, columns, make),
            Self::Postgres(tx) => {
                let answers = tx.query_arrays(text, columns).await?;
                let answer = |row| {
                    let row = Row::Postgres(row);
                    let nth = usize::try_from(row.int(0)?).unwrap_or(0).wrapping_sub(1);
                    make(nth, row.cursor_at(1))
                };
                answers.iter().map(answer).collect()
            }
        }
    }

    /// Marks that this transaction makes work: once it has committed, every process that waits for work is woken.
    pub(crate) fn wake(&mut self) {
        self.tells().work = Workloads::EVERY;
    }

    /// The same for work of one workload.
    pub(crate) fn wake_for(&mut self, workload: Workload) {
        self.tells().work.add(workload);
    }

    fn tells(&mut self) -> &mut Tells {
        match self {
            Self::Sqlite { tells, .. } => tells,
            Self::Postgres(tx) => &mut tx.tells,
        }
    }

    /// Tells workers, once the transaction has committed, that a run which one of them may have was cancelled.
    pub(crate) fn tell_of_cancel(&mut self) {
        self.tells().cancel = true;
    }

    /// Has this process count something, once the transaction has committed.
    pub(crate) fn count(&mut self, event: Event) {
        match self {
            Self::Sqlite { events, .. } => events.push(event),
            Self::Postgres(tx) => tx.events.push(event),
        }
    }

    /// Whether nothing can be changed by another transaction between two statements of this one.
    pub(crate) fn is_alone(&self) -> bool {
        match self {
            Self::Sqlite { .. } => true,
            Self::Postgres(_) => false,
        }
    }

    /// The error of a transaction whose statements saw different states of the database, because another one committed between them: it
    /// is run again from its beginning.
    pub(crate) fn overtaken(&mut self, why: &'static str) -> Error {
        let (name, why) = match self {
            Self::Sqlite { name, .. } => (*name, why.to_owned()),
            Self::Postgres(tx) => (tx.have_again(), why.to_owned()),
        };
        Error::Statement { name, why }
    }

    /// Keeps two transactions of this kind from running at once. SQLite has one writer anyway.
    pub(crate) async fn exclusive(&mut self, key: i64) -> Result<()> {
        static LOCK: Sql = Sql::new("/* exclusive */ SELECT pg_advisory_xact_lock(CAST(?1 AS BIGINT))");
        match self {
            Self::Sqlite { .. } => Ok(()),
            Self::Postgres(_) => self.rows(&LOCK, &[key.into()], |_| Ok(())).await.map(drop),
        }
    }
}
