//! What an error of the server means: to the caller, to the transaction, and to the connection.

use deadpool_postgres::PoolError;
use redrive_core::cause;
use redrive_core::text::one_line;
use tokio_postgres::error::SqlState;

use crate::error::Error;
use crate::migrate;

/// What may be done after a fault that is known to have changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The server gave the transaction up for another's sake: run it again.
    Again,
    /// The connection is lost, or leads to a server that no longer takes writes: run it again on a new one.
    Reconnect,
    /// The fault would come back.
    None,
}

pub(super) fn remedy(error: &tokio_postgres::Error) -> Remedy {
    let Some(code) = error.code() else {
        return if error.is_closed() { Remedy::Reconnect } else { Remedy::None };
    };
    if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
        return Remedy::Again;
    }
    let moved = [
        // After a failover the old primary comes back as a standby.
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    if moved.contains(code) || code.code().starts_with("08") { Remedy::Reconnect } else { Remedy::None }
}

pub(super) fn fault(place: &str, name: &'static str, error: &tokio_postgres::Error) -> Error {
    let why = error_text(error);
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
pub(super) fn error_text(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(refused) = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error) {
        return one_line(refused.message());
    }
    one_line(&cause::in_words(cause::chain(error)))
}

pub(super) fn pool_error_text(error: &PoolError) -> String {
    if let PoolError::Backend(error) = error { error_text(error) } else { error_text(error) }
}
