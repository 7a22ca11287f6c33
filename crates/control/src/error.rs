//! What stops the control plane.

use redrive_core::filter::FilterError;
use redrive_core::id::OpId;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
    #[error(transparent)]
    Raw(#[from] redrive_store::raw::Error),
    #[error("{0}")]
    Usage(String),
    #[error("there is no operation {0}")]
    NoOperation(OpId),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
