//! Opening a SQLite file: to write, or to look without leaving a trace.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Error, Result};
use crate::migrate;

use super::Schema;
use super::sqlite_lock::{patience, wait_to_read, wait_to_write};
use super::sqlite_statements::sqlite_fault;

const STATEMENTS: usize = 256;

/// Whether another process can write to the file while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileSystem {
    Writable,
    /// This process may not write it. SQLite would want to make files beside the database, which it could not or which
    /// would be in its owner's way; told that nothing can change, it reads without them.
    ReadOnly,
}

/// How long the write-ahead log grows before it is folded into the file: 40 MB. A bulk change that is folded in more often writes the
/// same pages again and again.
const PAGES_BEFORE_CHECKPOINT: i64 = 10_000;

pub(super) fn open_writer(path: &Path, create: bool) -> Result<Connection> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir()) {
        return Err(unavailable(path, &format!("the directory {} does not exist", parent.display())));
    }
    if !create && !path.exists() {
        return Err(missing(path));
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let fault = |error: rusqlite::Error| unavailable(path, &error);
    let mut connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    connection.busy_handler(Some(wait_to_write)).map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    keep_plans(&connection).map_err(fault)?;
    let place = path.display().to_string();
    // A database that may not be written is refused here, before anything is made beside it.
    if connection.is_readonly("main").map_err(fault)? {
        return Err(Error::ReadOnly { place, why: "the file or its directory is read-only".to_owned() });
    }
    let found = user_version(&connection, &place)?;
    // Another program's file is left as it is; migrating will refuse it.
    if schema_of(&connection)? == Schema::Foreign {
        return Ok(connection);
    }
    migrate::check_known(&place, found)?;
    use_write_ahead_log(&connection).map_err(fault)?;
    connection.pragma_update(None, "synchronous", "full").map_err(fault)?;
    connection.pragma_update(None, "cache_size", -64 * 1024).map_err(fault)?;
    connection.pragma_update(None, "wal_autocheckpoint", PAGES_BEFORE_CHECKPOINT).map_err(fault)?;
    connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(fault)?;
    Ok(connection)
}

/// A read-write connection, where the file allows one, that never writes. SQLite removes `-wal` and `-shm` only when the
/// last connection that could write closes.
pub(super) fn open_wal_anchor(path: &Path) -> Result<(Connection, FileSystem)> {
    if !path.exists() {
        return Err(missing(path));
    }
    let place = path.display().to_string();
    if file_system_of(path) == FileSystem::Writable {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fault = |error: rusqlite::Error| unavailable(path, &error);
        let mut connection = Connection::open_with_flags(path, flags).map_err(fault)?;
        connection.busy_handler(Some(wait_to_read)).map_err(fault)?;
        connection.pragma_update(None, "query_only", true).map_err(fault)?;
        // Only what has read once holds the two files.
        match user_version(&connection, &place) {
            Ok(_) => return Ok((connection, FileSystem::Writable)),
            // The file may be written, and its directory may not.
            Err(Error::ReadOnly { .. }) if !has_log(path) => {}
            Err(error) => return Err(error),
        }
    }
    let connection = open_reader(path, FileSystem::ReadOnly)?;
    user_version(&connection, &place)?;
    Ok((connection, FileSystem::ReadOnly))
}

/// A write-ahead log that another process has or left there belongs to the database, so that one with it is not called frozen.
fn file_system_of(path: &Path) -> FileSystem {
    let is_refused = std::fs::OpenOptions::new().append(true).open(path).is_err();
    if is_refused && !has_log(path) { FileSystem::ReadOnly } else { FileSystem::Writable }
}

fn has_log(path: &Path) -> bool {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        std::fs::metadata(name)
    };
    beside("-wal").is_ok_and(|log| log.len() > 0) || beside("-shm").is_ok()
}

/// SQLite does not call the busy handler for this, so that several processes that open a new file at once must wait here.
fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error) if is_busy(&error) && wait_to_write(tries) => tries += 1,
            other => return other,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let busy = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked];
    error.sqlite_error_code().is_some_and(|code| busy.contains(&code))
}

pub(super) fn open_reader(path: &Path, file_system: FileSystem) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fault = |error: rusqlite::Error| unavailable(path, &error);
    let opened = match file_system {
        FileSystem::Writable => Connection::open_with_flags(path, flags),
        FileSystem::ReadOnly => {
            let name = path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            Connection::open_with_flags(format!("file:{name}?immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)
        }
    };
    let mut connection = opened.map_err(fault)?;
    connection.busy_handler(Some(wait_to_read)).map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    keep_plans(&connection).map_err(fault)?;
    connection.pragma_update(None, "cache_size", -16 * 1024).map_err(fault)?;
    Ok(connection)
}

/// Has a prepared statement keep its plan. Otherwise SQLite prepares each statement that may use a partial index again
/// whenever other values are bound to it, in the hope that they fit the index better: that costs more than to run it.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

pub(super) fn user_version(connection: &Connection, place: &str) -> Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(|error| {
        let (place, why) = (place.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => Error::ReadOnly { place, why },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Error::Busy { place, seconds: patience().as_secs() }
            }
            _ => Error::Unavailable { place, why },
        }
    })
}

pub(super) fn schema_of(connection: &Connection) -> Result<Schema> {
    let fault = |error| sqlite_fault("schema", error);
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(fault)?;
    let mut tables: Vec<String> = Vec::new();
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .map_err(fault)?;
    for name in statement.query_map((), |row| row.get(0)).map_err(fault)? {
        tables.push(name.map_err(fault)?);
    }
    if tables.is_empty() {
        return Ok(Schema::Empty);
    }
    if application != migrate::APPLICATION_ID {
        return Ok(Schema::Foreign);
    }
    let beside_others = tables.iter().any(|table| !migrate::is_ours(table));
    Ok(Schema::Redrive { version: user_version(connection, "the database")?, beside_others })
}

fn missing(path: &Path) -> Error {
    Error::NoDatabase { place: path.display().to_string(), why: "it does not exist" }
}

pub(super) fn unavailable(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Unavailable { place: path.display().to_string(), why: why.to_string() }
}
