//! `[ingest]`.

use std::time::Duration;

use serde::Deserialize;

use super::process::keep;
use super::source::RetrySection;

/// `[ingest]`: how large uploads and what is in them may be. What is left out keeps its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestSection {
    /// The most bytes of an upload as it comes.
    pub max_upload: Option<u64>,
    /// The most bytes of all that an archive holds, unpacked.
    pub max_bytes: Option<u64>,
    pub max_file_bytes: Option<u64>,
    pub max_files: Option<u64>,
    /// How many times as large as itself an archive may become.
    pub max_ratio: Option<u64>,
    /// How many archives may lie inside one another.
    pub max_depth: Option<u32>,
    /// The most bytes of a path in an archive.
    pub max_path: Option<u32>,
    /// How many rows of stanzas and settings one transaction adds.
    pub batch_rows: Option<u32>,
    /// How long finished runs are kept; `"0"` and nothing mean for ever.
    #[serde(deserialize_with = "keep")]
    pub keep: Option<Duration>,
    pub retry: RetrySection,
}
