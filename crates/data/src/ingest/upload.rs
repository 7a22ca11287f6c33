//! Uploads: a run first, then its bytes, then the word that it may be parsed.
//!
//! A caller that is killed before its run is made leaves nothing. Killed later, it leaves a run that stays PENDING: its
//! bytes never came whole, and uploading the file again makes a new run.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use redrive_core::id::RunId;
use redrive_core::run::Run;
use redrive_core::text::one_line;
use redrive_store::raw::{self, BlobError, Blobs};
use redrive_store::{DataStore, StoredBytes, Upload};

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
    TooLarge { file: String, run_id: RunId, max: u64 },
}

impl Uploads {
    /// Archives of more than `max_bytes` are refused.
    pub fn new(data: DataStore, blobs: Blobs, max_bytes: u64) -> Self {
        Self { data, blobs, max_bytes }
    }

    /// Stores a body under the name of its file, and queues the run that parses it.
    pub async fn upload(
        &self,
        file: &str,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<Uploaded, NotUploaded> {
        let file = name_of(file);
        let run_id = self.data.begin_upload(&file).await?;
        let object = object_of(run_id);
        let stored = self.blobs.put(&object, body, self.max_bytes).await.map_err(|error| match error {
            BlobError::Sink(source) => NotUploaded::Sink { file: file.clone(), run_id, source },
            BlobError::Body(source) => NotUploaded::Body { file: file.clone(), run_id, source },
            BlobError::TooLarge { max } => NotUploaded::TooLarge { file: file.clone(), run_id, max },
        })?;
        let stored = StoredBytes { object, bytes: stored.bytes, sha256: stored.sha256 };
        let (run, upload) = self.data.stored(run_id, stored).await?;
        Ok(Uploaded { run, upload })
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
