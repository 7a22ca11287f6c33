//! A transaction on either database. On SQLite every call is done when it returns, so a future over it is ready at
//! its first poll; the writer thread relies on that.

use std::collections::HashSet;
use std::time::Duration;

use redrive_core::run::Workload;
use redrive_core::text::one_line;
use redrive_core::time::Timestamp;
use redrive_metrics::Event;

use crate::clock::Clock as _;
use crate::error::{Error, Result};

use super::batch::{Batch, Effect};
use super::postgres::PgTx;
use super::row::{Cursor, Row};
use super::shared::Shared;
use super::sql::{Dialect, Kind, Lookup, Sql, render, render_lookup};
use super::sqlite_clock::TxClock;
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
            Self::Sqlite { connection, name, .. } => sqlite_rows(connection, name, text, params, make),
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
            Self::Sqlite { connection, name, .. } => sqlite_batch(connection, name, sql, columns, shared),
            Self::Postgres(tx) => postgres_batch(tx, sql, columns, shared).await,
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
            Self::Sqlite { connection, name, .. } => sqlite_lookup(connection, name, text, columns, make),
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

/// The unique values of an inserted row, to be found again among the values it was made from.
fn key_of_row(row: &tokio_postgres::Row, unique: &[(usize, Kind)]) -> Result<Vec<Vec<u8>>> {
    let row = Row::Postgres(row);
    let values = unique.iter().enumerate().map(|(nth, (_, kind))| {
        Ok(match kind {
            Kind::Int => row.int(nth)?.to_le_bytes().to_vec(),
            Kind::Text => row.text(nth)?.into_bytes(),
            Kind::Id => row.id(nth)?.as_bytes().to_vec(),
            Kind::Bytes => row.bytes(nth)?,
        })
    });
    values.collect()
}

fn key_of_values(columns: &[Column<'_>], unique: &[(usize, Kind)], nth: usize) -> Vec<Vec<u8>> {
    let bytes = |param: Param<'_>| match param {
        Param::Null => vec![],
        Param::Int(value) => value.to_le_bytes().to_vec(),
        Param::Text(value) => value.as_bytes().to_vec(),
        Param::Id(value) => value.as_bytes().to_vec(),
        Param::Bytes(value) => value.to_vec(),
    };
    unique.iter().map(|(column, _)| bytes(columns[*column].row(nth))).collect()
}

fn sqlite_rows<T>(
    connection: &rusqlite::Connection,
    name: &'static str,
    text: &str,
    params: &[Param<'_>],
    mut make: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let fault = |error| sqlite_fault(name, error);
    let mut statement = connection.prepare_cached(text).map_err(fault)?;
    let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(fault)?;
    let mut made = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        made.push(make(&Row::Sqlite(row))?);
    }
    Ok(made)
}

fn sqlite_lookup<T>(
    connection: &rusqlite::Connection,
    name: &'static str,
    text: &str,
    columns: &[Column<'_>],
    mut make: impl FnMut(usize, Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let fault = |error| sqlite_fault(name, error);
    let mut statement = connection.prepare_cached(text).map_err(fault)?;
    let mut made = Vec::new();
    for nth in 0..columns.first().map_or(0, Column::len) {
        let params = columns.iter().map(|column| column.row(nth));
        let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(fault)?;
        while let Some(row) = rows.next().map_err(fault)? {
            made.push(make(nth, Row::Sqlite(row).cursor())?);
        }
    }
    Ok(made)
}

async fn postgres_batch(tx: &mut PgTx<'_>, sql: &Batch, columns: &[Column<'_>], shared: Shared) -> Result<Vec<bool>> {
    let rows = columns.first().map_or(0, Column::len);
    let (text, shared) = sql.for_postgres(shared);
    match sql.effect() {
        Effect::All => {
            tx.defer_batch(&text, columns, shared).await?;
            Ok(vec![true; rows])
        }
        Effect::Inserted(_) => {
            let inserted = tx.query_batch(&text, columns, shared).await?;
            if inserted.len() == rows {
                return Ok(vec![true; rows]);
            }
            let unique = sql.unique_columns();
            let found = inserted.iter().map(|row| key_of_row(row, &unique)).collect::<Result<HashSet<_>>>()?;
            Ok((0..rows).map(|nth| found.contains(&key_of_values(columns, &unique, nth))).collect())
        }
        Effect::Row => {
            let mut took = vec![false; rows];
            for row in tx.query_batch(&text, columns, shared).await? {
                let nth = usize::try_from(Row::Postgres(&row).int(0)?).unwrap_or(0);
                if let Some(slot) = took.get_mut(nth.wrapping_sub(1)) {
                    *slot = true;
                }
            }
            Ok(took)
        }
    }
}

/// A value stays bound until another takes its place: those that all rows share are bound once.
fn sqlite_batch(
    connection: &rusqlite::Connection,
    name: &'static str,
    sql: &Batch,
    columns: &[Column<'_>],
    shared: Shared,
) -> Result<Vec<bool>> {
    let fault = |error| sqlite_fault(name, error);
    let rows = columns.first().map_or(0, Column::len);
    let mut took = Vec::with_capacity(rows);
    if let Some(text) = sql.sqlite_rows().filter(|_| rows >= Batch::ROWS_A_STATEMENT) {
        let mut statement = connection.prepare_cached(text).map_err(fault)?;
        while took.len() + Batch::ROWS_A_STATEMENT <= rows {
            let is_first = took.is_empty();
            for row in 0..Batch::ROWS_A_STATEMENT {
                for (at, column) in columns.iter().enumerate().filter(|(at, _)| is_first || !shared.has(*at)) {
                    let value = column.row(took.len() + row);
                    statement.raw_bind_parameter(row * columns.len() + at + 1, value).map_err(fault)?;
                }
            }
            statement.raw_execute().map_err(fault)?;
            took.resize(took.len() + Batch::ROWS_A_STATEMENT, true);
        }
    }
    let mut statement = connection.prepare_cached(sql.for_sqlite()).map_err(fault)?;
    let first = took.len();
    for nth in first..rows {
        for (at, column) in columns.iter().enumerate().filter(|(at, _)| nth == first || !shared.has(*at)) {
            statement.raw_bind_parameter(at + 1, column.row(nth)).map_err(fault)?;
        }
        took.push(statement.raw_execute().map_err(fault)? > 0);
    }
    Ok(took)
}

/// What a SQLite error means to the caller.
pub(super) fn sqlite_fault(name: &'static str, error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode;
    let place = || "the database".to_owned();
    // A statement's text belongs in a log, not in a sentence.
    let why = if let rusqlite::Error::SqlInputError { msg, .. } = &error {
        one_line(msg)
    } else {
        one_line(&error.to_string())
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full { place: place() },
        Some(ErrorCode::ReadOnly) => Error::ReadOnly { place: place(), why },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Busy { place: place(), seconds: super::sqlite_lock::patience().as_secs() }
        }
        Some(
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase,
        ) => Error::Lost { place: place(), name, why },
        _ => Error::Statement { name, why },
    }
}
