//! What keeps a request from being answered. One match gives each its code, and the code its status.

use redrive_control::NoId;
use redrive_core::filter::FilterError;
use redrive_core::key::KeyError;
use redrive_data::ingest::NotUploaded;
use redrive_store::NotReadable;

use crate::web::{Code, FieldFault};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something about the request itself, in words that say what to do.
    #[error("{detail}")]
    Told { code: Code, detail: String },
    /// A body whose fields cannot be used.
    #[error("the body cannot be used; see `errors`")]
    Fields(Vec<FieldFault>),
    /// More would change than may without a word.
    #[error("{matched} would change; repeat the request with \"confirm\": {matched}, or with \"force\": true")]
    NotConfirmed { matched: u64 },
    #[error(transparent)]
    Control(#[from] redrive_control::Error),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
    #[error(transparent)]
    Raw(#[from] redrive_store::raw::Error),
    #[error(transparent)]
    NotUploaded(#[from] Box<NotUploaded>),
    #[error(transparent)]
    NotReadable(#[from] NotReadable),
    #[error(transparent)]
    Data(#[from] redrive_data::Error),
    /// A task of the server ended before its work was done.
    #[error("the server failed to answer; its log says why")]
    Internal(String),
}

impl Error {
    pub fn told(code: Code, detail: impl Into<String>) -> Self {
        Self::Told { code, detail: detail.into() }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::told(Code::BadRequest, detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::told(Code::NotFound, detail)
    }

    pub fn code(&self) -> Code {
        match self {
            Self::Told { code, .. } => *code,
            Self::Fields(_) => Code::BadBody,
            Self::NotConfirmed { .. } => Code::ConfirmationRequired,
            Self::Control(error) => control(error),
            Self::Store(error) => store(error),
            Self::Raw(_) => Code::SinkUnavailable,
            Self::NotUploaded(error) => match &**error {
                NotUploaded::Store(error) => store(error),
                NotUploaded::Sink { .. } => Code::SinkUnavailable,
                NotUploaded::Body { .. } => Code::Timeout,
                NotUploaded::TooLarge { .. } => Code::TooLarge,
            },
            Self::NotReadable(NotReadable::Store(error)) => store(error),
            Self::NotReadable(NotReadable::Raw(_) | NotReadable::Damaged(_)) => Code::SinkUnavailable,
            Self::Data(error) => data(error),
            Self::Internal(_) => Code::Internal,
        }
    }
}

fn control(error: &redrive_control::Error) -> Code {
    use redrive_control::Error;
    match error {
        Error::Filter(FilterError::Empty) | Error::NeedsRuns => Code::EmptyFilter,
        Error::Filter(_) | Error::Plan(_) | Error::NotThroughRuns => Code::BadRequest,
        Error::NeedsDates | Error::NeedsSource | Error::NoneConfigured { .. } => Code::BadRequest,
        Error::NoGroupId(_) | Error::SeveralGroups { .. } | Error::NotByGroup => Code::BadRequest,
        Error::NoOperation(_) | Error::NoPlan(_) | Error::NoGroup(_) => Code::NotFound,
        Error::StillRunning(_) => Code::InProgress,
        Error::Store(error) => store(error),
        Error::Raw(_) => Code::SinkUnavailable,
    }
}

fn data(error: &redrive_data::Error) -> Code {
    use redrive_data::Error;
    match error {
        Error::Store(error) => store(error),
        Error::Raw(_) => Code::SinkUnavailable,
        Error::Unusable { .. }
        | Error::Missing(_)
        | Error::Scratch(_)
        | Error::Thread(_)
        | Error::KeeperGone
        | Error::CompleterGone => Code::Internal,
    }
}

fn store(error: &redrive_store::Error) -> Code {
    use redrive_store::Error;
    if let Error::Refused(refused) = error {
        return Code::Refused(refused.reason());
    }
    if let Error::Absent { .. } = error {
        return Code::NotFound;
    }
    // What is left is the database's, and its text says what to do; or what it was given.
    if error.is_unavailable() { Code::StoreUnavailable } else { Code::BadBody }
}

impl From<NotUploaded> for Error {
    fn from(error: NotUploaded) -> Self {
        Self::NotUploaded(Box::new(error))
    }
}

impl From<FilterError> for Error {
    fn from(error: FilterError) -> Self {
        Self::Control(error.into())
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<NoId> for Error {
    fn from(error: NoId) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Internal(format!("an answer cannot be written as JSON: {error}"))
    }
}
