//! What stops a measurement.

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
    #[error(transparent)]
    Raw(#[from] redrive_store::raw::Error),
    #[error(transparent)]
    Control(#[from] redrive_control::Error),
    #[error(transparent)]
    Extract(#[from] redrive_data::extract::Error),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("the database refused a statement of the bench: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{what}: {source}")]
    Postgres { what: String, source: tokio_postgres::Error },
    #[error("{0}")]
    Refused(String),
    #[error("interrupted")]
    Interrupted,
    /// The measurement ran, but did not do the work that it was to measure.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn failed(why: impl std::fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(source: tokio_postgres::Error) -> Self {
        Self::Postgres { what: "the database refused a statement of the bench".to_owned(), source }
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::failed(error)
    }
}

impl From<std::num::TryFromIntError> for Error {
    fn from(error: std::num::TryFromIntError) -> Self {
        Self::failed(error)
    }
}
