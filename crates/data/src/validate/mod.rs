//! The validator: the only one who says what became of an attempt.

mod abandoned;
mod verdict;

pub use abandoned::end_abandoned;
pub use verdict::{Validator, Verdict};

use redrive_core::failure::ErrorClass;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::Judgement;
use redrive_core::time::Timestamp;
use redrive_store::raw::{Outcome, RawView};

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub min_records: Option<u64>,
}
impl Settings {
    pub fn build(&self) -> Result<Rules, String> {
        Ok(Rules { min: self.min_records })
    }
}
#[derive(Debug, Clone, Default)]
pub struct Rules {
    min: Option<u64>,
}
#[derive(Debug, Clone)]
pub struct Submission {
    pub key: PartitionKey,
    pub run_id: RunId,
    pub fence: TaskId,
    pub replaces: Option<u64>,
    pub not_before: Option<Timestamp>,
}
pub async fn judge(
    raw: &RawView,
    rules: &Rules,
    submission: &Submission,
) -> Result<Judgement, redrive_store::raw::Error> {
    let Some(manifest) = raw.manifest(&submission.key, submission.run_id).await? else {
        return Ok(Judgement::Rejected {
            class: ErrorClass::Retryable,
            message: "the attempt left no manifest".to_owned(),
            not_before: None,
        });
    };
    match manifest.outcome {
        Outcome::Failed { error_class, message } => Ok(Judgement::Rejected {
            class: error_class.parse().unwrap_or(ErrorClass::Retryable),
            message,
            not_before: submission.not_before,
        }),
        Outcome::Complete if rules.min.is_some_and(|min| manifest.records < min) => {
            Ok(Judgement::Rejected { class: ErrorClass::Retryable, message: "too few".to_owned(), not_before: None })
        }
        Outcome::Complete => Ok(Judgement::Accepted { records: manifest.records }),
    }
}
