//! Create-if-absent, made safe to repeat.
//!
//! A put whose answer was lost, or that the library repeated after a 5xx, finds its own object there. So on "already
//! exists" the hashes decide: the same bytes are success, other bytes a conflict, and nothing at all (S3 refuses one of
//! two simultaneous creates before either is there) is a reason to try again.

use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{PutMode, PutPayload};
use redrive_core::count;
use tokio::time::Instant;

use super::digest::Sha256;
use super::error::{self, Error};
use super::files;
use super::place::{Found, Place};
use super::whole_directory;
use crate::blocking::blocking;

const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// An object on its way into a place.
pub(super) struct Object {
    pub(super) path: Path,
    pub(super) bytes: Bytes,
    pub(super) digest: Sha256,
}

impl Object {
    pub(super) fn size(&self) -> u64 {
        count::of(self.bytes.len())
    }
}

/// Makes an object on a blocking thread and puts it. It is sure to last only after a later [`commit`] in its directory.
/// Gives what `make` gave beside the object.
pub(super) async fn put<T: Send + 'static>(
    place: &Place,
    make: impl FnOnce() -> Result<(Object, T), Error> + Send + 'static,
) -> Result<T, Error> {
    if place.directories().is_none() {
        let (object, made) = blocking(make).await?;
        return create(place, object).await.map(|()| made);
    }
    let place = place.clone();
    blocking(move || {
        let (object, made) = make()?;
        files::put(&place, &object).map(|()| made)
    })
    .await
}

/// What lies in the directory of objects that are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// As far as the caller knows, nothing: the objects are all that it will hold.
    Nothing,
    /// Something that may have been put before.
    Something,
}

/// Makes objects of one directory on a blocking thread and puts them in order; when this returns, all of the directory
/// is durable. The last object speaks for the others: no reader finds it, even after a crash, without what was put before.
pub(super) async fn commit<T: Send + 'static>(
    place: &Place,
    before: Before,
    make: impl FnOnce() -> Result<(Vec<Object>, T), Error> + Send + 'static,
) -> Result<T, Error> {
    let Some(directories) = place.directories().cloned() else {
        let (objects, made) = blocking(make).await?;
        for object in objects {
            create(place, object).await?;
        }
        return Ok(made);
    };
    let place = place.clone();
    blocking(move || {
        let (objects, made) = make()?;
        let is_put = before == Before::Nothing && whole_directory::put(&place, &directories, &objects)?;
        if !is_put {
            files::commit(&place, &directories, &objects)?;
        }
        Ok(made)
    })
    .await
}

async fn create(place: &Place, object: Object) -> Result<(), Error> {
    let path = &object.path;
    let give_up = Instant::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    loop {
        let payload = PutPayload::from_bytes(object.bytes.clone());
        let error = match place.store.put_opts(path, payload, PutMode::Create.into()).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let again = if matches!(error, object_store::Error::AlreadyExists { .. }) {
            match place.read(path, Some(object.size())).await? {
                None => true,
                Some(Found::Bytes(found)) if Sha256::of(&found) == object.digest => return Ok(()),
                Some(Found::Bytes(_) | Found::OtherSize(_)) => {
                    return Err(Error::Conflict { object: place.name(path) });
                }
            }
        } else {
            error::is_uncertain(&error)
        };
        if !again || Instant::now() >= give_up {
            return Err(Error::storage("write", place.name(path), error));
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
