//! Statements of a SQLite transaction: rows, answers to many rows, batches; and what an error of the database means.

use redrive_core::text::one_line;

use super::batch::Batch;
use super::row::{Cursor, Row};
use super::shared::Shared;
use super::value::{Column, Param};
use crate::error::{Error, Result};

pub(super) fn rows<T>(
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

pub(super) fn lookup<T>(
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

/// A value stays bound until another takes its place: those that all rows share are bound once.
pub(super) fn batch(
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
