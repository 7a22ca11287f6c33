//! What an error of the server means: to the caller, to the transaction, and to the connection.

use std::time::Duration;

use deadpool_postgres::{PoolError, TimeoutType};
use redrive_core::cause;
use redrive_core::text::one_line;
use tokio_postgres::error::SqlState;

use crate::error::Error;
use crate::migrate;

use super::kind::LOCK;

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

/// What went wrong with a call.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server or the driver reported it.
    Reported(tokio_postgres::Error),
    /// There was no answer within this time. The connection leads nowhere.
    Late(Duration),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Reported(error)
    }
}

/// Awaits an answer no longer than this.
pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer.map_err(Fault::Reported),
        Err(_) => Err(Fault::Late(limit)),
    }
}

impl Fault {
    /// What may be done about a fault that came before the commit.
    pub(super) fn remedy(&self) -> Remedy {
        let Self::Reported(error) = self else { return Remedy::Reconnect };
        let Some(code) = error.code() else {
            return if error.is_closed() { Remedy::Reconnect } else { Remedy::None };
        };
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
            return Remedy::Again;
        }
        if leads_nowhere(code) { Remedy::Reconnect } else { Remedy::None }
    }

    /// Whether the server itself has said what went wrong.
    pub(super) fn is_told(&self) -> bool {
        match self {
            Self::Reported(error) => error.code().is_some(),
            Self::Late(_) => false,
        }
    }

    /// Whether the server has said that a commit did not happen. Otherwise nobody knows.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Reported(error) => error.code().is_some_and(|code| !leads_nowhere(code)),
            Self::Late(_) => false,
        }
    }

    pub(super) fn why(&self) -> String {
        match self {
            Self::Reported(error) => error_text(error),
            Self::Late(limit) => format!("no answer within {} s", limit.as_secs()),
        }
    }

    /// What the fault means to the caller of a transaction that changed nothing.
    pub(super) fn error(&self, place: &str, name: &'static str) -> Error {
        let (place, why) = (place.to_owned(), self.why());
        let Self::Reported(error) = self else { return Error::Lost { place, name, why } };
        let Some(code) = error.code() else { return Error::Lost { place, name, why } };
        match code {
            code if *code == SqlState::DISK_FULL => Error::Full { place },
            code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { place, why },
            code if *code == SqlState::UNDEFINED_TABLE => {
                Error::OlderSchema { place, found: 0, needed: migrate::SUPPORTED }
            }
            code if *code == SqlState::LOCK_NOT_AVAILABLE => Error::Busy { place, seconds: LOCK.as_secs() },
            code if *code == SqlState::QUERY_CANCELED => Error::Cancelled { place, name, why },
            code if is_of_a_pooler(code) => {
                let why = format!("{why}: a pooler before the server loses prepared statements; set prepared = false");
                Error::Statement { name, why }
            }
            code if leads_nowhere(code) || code.code().starts_with("57") => Error::Lost { place, name, why },
            _ => Error::Statement { name, why },
        }
    }
}

/// Whether a statement that was prepared is not there, or one is that nobody prepared: a pooler gave the connection to another.
fn is_of_a_pooler(code: &SqlState) -> bool {
    [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code)
}

/// Whether the connection is lost, or leads to a server that takes no writes.
fn leads_nowhere(code: &SqlState) -> bool {
    let moved = [
        // After a failover the old primary comes back as a standby.
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        // This program was frozen, and the server has taken its transaction back.
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    moved.contains(code) || code.code().starts_with("08")
}

/// An error with its causes, which the library keeps behind it, in one line. A server's detail is left out: it shows rows.
pub(super) fn error_text(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(refused) = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error) {
        return one_line(refused.message());
    }
    one_line(&cause::in_words(cause::chain(error)))
}

pub(super) fn pool_error_text(error: &PoolError) -> String {
    match error {
        PoolError::Backend(error) => error_text(error),
        PoolError::Timeout(TimeoutType::Wait) => {
            "no connection became free in time; the others are all in use".to_owned()
        }
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => "the server does not answer".to_owned(),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => error_text(error),
    }
}
