//! The `[ingest]` section, made into what uploading and a worker need of it.

use std::time::Duration;

use redrive_control::uploads::UploadRules;
use redrive_core::retry::RetryPolicy;
use redrive_data::ingest::Limits;
use redrive_data::settings::SettingError;
use redrive_store::BATCH_ROWS;

use super::sections::IngestSection;
use super::sources::policy;

/// The most that an upload may have.
const MAX_UPLOAD: u64 = 1 << 30;
/// Ids of settings have 32 bits below those of their upload, and a setting has at least two bytes.
const MOST_BYTES: u64 = 8 << 30;

/// How uploads are taken and parsed.
#[derive(Debug, Clone)]
pub struct Ingestion {
    pub max_upload: u64,
    pub limits: Limits,
    pub policy: RetryPolicy,
    /// How many rows one transaction adds.
    pub batch_rows: u32,
    /// How long an upload that ended is kept; none for ever.
    pub keep: Option<Duration>,
}

impl Ingestion {
    /// What the control plane has to know of it.
    pub fn rules(&self) -> UploadRules {
        UploadRules { retry: self.policy.clone(), keep: self.keep }
    }
}

pub(super) fn resolve(section: &IngestSection) -> Result<Ingestion, SettingError> {
    let invalid = |key: &str, why: &str| Err(SettingError::at(key, why).within("ingest"));
    let default = Limits::default();
    let limits = Limits {
        max_bytes: section.max_bytes.unwrap_or(default.max_bytes),
        max_file_bytes: section.max_file_bytes.unwrap_or(default.max_file_bytes),
        max_files: section.max_files.unwrap_or(default.max_files),
        max_ratio: section.max_ratio.unwrap_or(default.max_ratio),
        max_depth: section.max_depth.unwrap_or(default.max_depth),
        max_path: section.max_path.map_or(default.max_path, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
    };
    if limits.max_bytes > MOST_BYTES {
        return invalid("max_bytes", "more than 8 GiB of configuration cannot be kept; choose less");
    }
    if section.retry.base.is_some() || section.retry.multiplier.is_some() || section.retry.cap.is_some() {
        let why = "uploads are tried again after fixed delays; give delays instead of base, multiplier and cap";
        return Err(SettingError::at("base", why).also(&["multiplier", "cap"]).within("retry").within("ingest"));
    }
    let policy = policy(&section.retry, RetryPolicy::ingest()).map_err(|mistake| mistake.within("ingest"))?;
    let batch_rows = section.batch_rows.unwrap_or(BATCH_ROWS);
    if !(1..=100_000).contains(&batch_rows) {
        return invalid("batch_rows", "a transaction adds between 1 and 100000 rows; choose a number between them");
    }
    let max_upload = section.max_upload.unwrap_or(MAX_UPLOAD);
    Ok(Ingestion { max_upload, limits, policy, batch_rows, keep: section.keep })
}
