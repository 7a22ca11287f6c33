//! Create-if-absent, made safe to repeat.
//!
//! A put whose answer was lost, or that the library repeated after a 5xx, finds its own object there. So on "already
//! exists" the hashes decide: the same bytes are success, other bytes a conflict, and nothing at all (S3 refuses one of
//! two simultaneous creates before either is there) is a reason to try again.

use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{PutMode, PutPayload};
use tokio::time::Instant;

use super::cause;
use super::digest::Sha256;
use super::error::Error;
use super::place::{Found, Place};

const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn create(place: &Place, path: &Path, bytes: Bytes, digest: &Sha256) -> Result<(), Error> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let give_up = Instant::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    loop {
        let put = place.store.put_opts(path, PutPayload::from_bytes(bytes.clone()), PutMode::Create.into()).await;
        let error = match put {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let again = if matches!(error, object_store::Error::AlreadyExists { .. }) {
            match place.read(path, Some(size)).await? {
                None => true,
                Some(Found::Bytes(found)) if Sha256::of(&found) == *digest => return place.settle(path).await,
                Some(Found::Bytes(_) | Found::OtherSize(_)) => {
                    return Err(Error::Conflict { object: place.name(path) });
                }
            }
        } else {
            cause::is_uncertain(&error)
        };
        if !again || Instant::now() >= give_up {
            return Err(cause::storage("write", place.name(path), error));
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
