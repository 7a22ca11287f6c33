//! The parts of a path that name something.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The values of a path's placeholders, in their order.
#[derive(Debug)]
pub struct PathText<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathText<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(error) => Err(Error::bad_request(format!("the path cannot be read: {}", error.body_text()))),
        }
    }
}
