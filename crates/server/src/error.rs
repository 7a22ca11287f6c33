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
    Request { code: Code, detail: String },
    /// A body whose fields cannot be used.
    #[error("the body cannot be used; see `errors`")]
    Fields(Vec<FieldFault>),
    /// A field whose form is right and whose value cannot be meant.
    #[error("{}", .0.detail)]
    Unusable(FieldFault),
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
    pub fn of_code(code: Code, detail: impl Into<String>) -> Self {
        Self::Request { code, detail: detail.into() }
    }

    /// The form is right, but it cannot be done as asked.
    pub fn unusable(detail: impl Into<String>) -> Self {
        Self::of_code(Code::Unusable, detail)
    }

    /// A field of a body whose form is right and whose value cannot be meant.
    pub fn unusable_field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::Unusable(FieldFault { pointer: pointer.to_owned(), detail: detail.into() })
    }

    /// A field of a body that cannot be used.
    pub fn field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::Fields(vec![FieldFault { pointer: pointer.to_owned(), detail: detail.into() }])
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::of_code(Code::BadRequest, detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::of_code(Code::NotFound, detail)
    }

    pub fn code(&self) -> Code {
        match self {
            Self::Request { code, .. } => *code,
            Self::Fields(_) => Code::BadBody,
            Self::Unusable(_) => Code::Unusable,
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
        Error::Filter(error) => filter(error),
        Error::NeedsRuns => Code::EmptyFilter,
        Error::Plan(_) | Error::NoGroupId(_) => Code::BadRequest,
        Error::NotThroughRuns | Error::NeedsDates | Error::NeedsSource | Error::NoneConfigured { .. } => Code::Unusable,
        Error::SeveralGroups { .. } | Error::NotByGroup => Code::Unusable,
        Error::NoOperation(_) | Error::NoPlan(_) | Error::NoGroup(_) => Code::NotFound,
        Error::StillRunning(_) | Error::Applied { .. } => Code::InProgress,
        Error::Store(error) => store(error),
        Error::Raw(_) => Code::SinkUnavailable,
    }
}

fn filter(error: &FilterError) -> Code {
    match error {
        FilterError::Empty => Code::EmptyFilter,
        FilterError::Key(error) => key(error),
        FilterError::Wildcard { .. } => Code::BadRequest,
        FilterError::Inverted { .. } | FilterError::TooEarly { .. } | FilterError::TooLate { .. } => Code::Unusable,
    }
}

fn key(error: &KeyError) -> Code {
    match error {
        KeyError::Empty { .. } | KeyError::ControlCharacter { .. } | KeyError::Date { .. } => Code::BadRequest,
        // The description counts characters, the limit bytes.
        KeyError::TooLong { .. } => Code::Unusable,
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
        Self::of_code(key(&error), error.to_string())
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
