//! Uploads: a run first, then its bytes, then the word that it may be parsed.
//!
//! A body that turns out to be too large ends its run as FAILED; one whose size is known to be too large gets no run.
//! A caller that is killed before its run is made leaves nothing. Killed later, it leaves a run that stays PENDING: its
//! bytes never came whole, and uploading the file again makes a new run.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{Fault, Run};
use redrive_core::text::one_line;
use redrive_store::raw::{self, BlobError, Blobs};
use redrive_store::{DataStore, StoredBytes, Upload};
use serde_json::json;

use super::trouble::ErrorType;

/// The longest name of an upload that is kept, in bytes.
const MAX_NAME: usize = 1024;

/// Brings archives into the sink and queues their runs.
#[derive(Debug, Clone)]
pub struct Uploads {
    data: DataStore,
    blobs: Blobs,
    max_bytes: u64,
}

/// A run whose bytes are stored.
#[derive(Debug, Clone)]
pub struct Uploaded {
    pub run: Run,
    pub upload: Upload,
}

/// Why an archive was not uploaded.
#[derive(Debug, thiserror::Error)]
pub enum NotUploaded {
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
    #[error("{file} was not stored: {source}; run {run_id} stays PENDING, upload the file again")]
    Sink { file: String, run_id: RunId, source: raw::Error },
    #[error("cannot read {file}: {source}; run {run_id} stays PENDING, upload the file again")]
    Body { file: String, run_id: RunId, source: io::Error },
    #[error("{file} has more than {max} bytes, the most that may be uploaded; see max_upload in [ingest]")]
    TooLarge {
        file: String,
        max: u64,
        /// The run that is FAILED for it; none where the size was known before.
        run_id: Option<RunId>,
    },
}

impl Uploads {
    /// Archives of more than `max_bytes` are refused.
    pub fn new(data: DataStore, blobs: Blobs, max_bytes: u64) -> Self {
        Self { data, blobs, max_bytes }
    }

    /// Stores a body under the name of its file, and queues the run that parses it. Its size is told where it is known.
    pub async fn upload(
        &self,
        file: &str,
        size: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<Uploaded, NotUploaded> {
        let (file, max) = (name_of(file), self.max_bytes);
        if size.is_some_and(|size| size > max) {
            return Err(NotUploaded::TooLarge { file, max, run_id: None });
        }
        let run_id = self.data.begin_upload(&file).await?;
        let object = object_of(run_id);
        let stored = match self.blobs.put(&object, body, max).await {
            Ok(stored) => stored,
            Err(BlobError::Sink(source)) => return Err(NotUploaded::Sink { file, run_id, source }),
            Err(BlobError::Body(source)) => return Err(NotUploaded::Body { file, run_id, source }),
            Err(BlobError::TooLarge { max }) => {
                self.end_too_large(run_id, max).await?;
                return Err(NotUploaded::TooLarge { file, max, run_id: Some(run_id) });
            }
        };
        let stored = StoredBytes { object, bytes: stored.bytes, sha256: stored.sha256 };
        let (run, upload) = self.data.stored(run_id, stored).await?;
        Ok(Uploaded { run, upload })
    }
}

impl Uploads {
    async fn end_too_large(&self, run_id: RunId, max: u64) -> redrive_store::Result<Run> {
        let message = format!("the upload has more than {max} bytes (max_upload)");
        let trace = format!("{}: {message}\n  while storing the upload", ErrorType::LimitExceeded);
        let fault = Fault { class: ErrorClass::Final, message, trace: Some(trace), retry_after: None };
        let metrics =
            json!({"duration_seconds": 0.0, "retry_count": 0, "error_type": ErrorType::LimitExceeded.as_str()});
        self.data.not_stored(run_id, fault, Some(metrics.to_string())).await
    }
}

/// The name of an upload, fit to be kept: the last part of a path, in one line.
fn name_of(file: &str) -> String {
    let name = file.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let name = redrive_core::text::cut(&one_line(name), MAX_NAME);
    if name.is_empty() { "upload".to_owned() } else { name }
}

/// Where the bytes of a run lie in the sink. The name begins with `_`, so that readers of the partitions beside it pass
/// it over.
pub(super) fn object_of(run_id: RunId) -> String {
    format!("_uploads/run_id={run_id}/archive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_part_of_a_path_and_fits() {
        assert_eq!(name_of("a/b/apps.tgz"), "apps.tgz");
        assert_eq!(name_of("a/b/"), "b");
        assert_eq!(name_of("/"), "upload");
        assert!(!name_of("a\0b\n").contains(['\0', '\n']));
        assert!(name_of(&"é".repeat(2000)).len() <= MAX_NAME);
    }
}
