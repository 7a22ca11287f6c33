//! The marker in a sink's root, by which a database knows its sink again: a volume that is not mounted leaves an empty
//! directory, and what is written there is lost from sight.

use std::fmt;

use bytes::Bytes;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::digest::Sha256;
use super::error::Error;
use super::files;
use super::place::{Found, Place};
use super::put::{self, Before, Object};

const MARKER: &str = "_redrive_sink.json";
const NOTE: &str = "Redrive knows its raw sink by this file; keep it here.";

/// What a sink is called, wherever it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SinkId(Uuid);

impl SinkId {
    pub(crate) fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    pub(crate) fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for SinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Serialize, Deserialize)]
struct Marker {
    sink_id: SinkId,
    note: String,
}

fn path_in(place: &Place) -> Path {
    place.base.clone().join(MARKER)
}

/// The id in the sink's marker; none without a marker.
pub(super) async fn read(place: &Place) -> Result<Option<SinkId>, Error> {
    let path = path_in(place);
    match place.read(&path, None).await? {
        Some(Found::Bytes(bytes)) => parse(place, &bytes).map(Some),
        Some(Found::OtherSize(_)) | None => Ok(None),
    }
}

fn parse(place: &Place, bytes: &[u8]) -> Result<SinkId, Error> {
    let marker: Marker = serde_json::from_slice(bytes)
        .map_err(|error| Error::Marker { object: place.name(&path_in(place)), why: error.to_string() })?;
    Ok(marker.sink_id)
}

/// The id in the sink's marker, which is made where there is none. Of two that make it at once, the first one's counts.
pub(super) async fn ensure(place: &Place) -> Result<SinkId, Error> {
    if let Some(found) = read(place).await? {
        return Ok(found);
    }
    let marker = Marker { sink_id: SinkId(Uuid::now_v7()), note: NOTE.to_owned() };
    let path = path_in(place);
    let json = serde_json::to_vec(&marker)
        .map_err(|error| Error::Marker { object: place.name(&path), why: error.to_string() })?;
    let (bytes, digest) = (Bytes::from(json.clone()), Sha256::of(&json));
    match put::commit(place, Before::Something, move || Ok((vec![Object { path, bytes, digest }], ()))).await {
        Ok(()) => Ok(marker.sink_id),
        Err(error @ Error::Conflict { .. }) => read(place).await?.ok_or(error),
        Err(error) => Err(error),
    }
}

/// Fails when this is not the sink with that id.
pub(super) async fn check(place: &Place, expected: SinkId) -> Result<(), Error> {
    compare(place, expected, read(place).await?)
}

/// The same on a file system, for a thread that may be blocked.
pub(super) fn check_files(place: &Place) -> Result<(), Error> {
    let Some(expected) = place.expected() else { return Ok(()) };
    let path = path_in(place);
    let found = files::read(place, &path, None)?;
    let found = match found {
        Some(Found::Bytes(bytes)) => Some(parse(place, &bytes)?),
        Some(Found::OtherSize(_)) | None => None,
    };
    compare(place, expected, found)
}

fn compare(place: &Place, expected: SinkId, found: Option<SinkId>) -> Result<(), Error> {
    match found {
        Some(found) if found == expected => Ok(()),
        Some(found) => Err(Error::OtherSink { sink: place.name(&place.base), found, expected }),
        None => Err(Error::NoSink { sink: place.name(&place.base), expected }),
    }
}
