//! What an accepted run's manifest must say.

use redrive_store::raw::{Manifest, RunOutcome};

/// How a manifest breaks what its partition promises: one word, and the rest of a sentence that begins with it.
pub fn broken(manifest: &Manifest, records: Option<u64>) -> Option<(&'static str, String)> {
    match &manifest.outcome {
        RunOutcome::Complete => {}
        RunOutcome::Failed { error_class, .. } => {
            return Some(("failed_manifest", format!("is of a failed attempt ({error_class})")));
        }
    }
    let records = records.filter(|records| *records != manifest.records)?;
    Some(("record_count", format!("has {} records, and the partition's record_count is {records}", manifest.records)))
}
