//! What stops the control plane.

use redrive_core::filter::FilterError;

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
    #[error("there is no operation {0}; `redrive state audit list` shows them")]
    NoOperation(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
