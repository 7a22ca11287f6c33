//! From a manifest to a judgement.

use redrive_core::failure::{ErrorClass, clean_message};
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::partition::Judgement;
use redrive_core::time::Timestamp;
use redrive_core::validation::Findings;
use redrive_store::raw::{self, Damage, Manifest, RawSink, RawView, RunOutcome};

use super::check::Check;
use super::feed::feed;
use super::rules::Rules;
use super::unique::{self, Keys};
use crate::error::{Error, Result};

/// What is to be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub key: PartitionKey,
    pub run_id: RunId,
    /// The claim under which the attempt was made.
    pub fence: TaskId,
    /// How many records the success has that this attempt would replace.
    pub replaces: Option<u64>,
    /// The source's own word on when to come again, for an attempt that failed.
    pub not_before: Option<Timestamp>,
}

/// Judges an attempt by what it left in the raw sink. An error says that this cannot be done now and nothing about the
/// attempt; judging again is safe.
pub async fn judge(raw: &RawView, rules: &Rules, submission: &Submission) -> Result<Judgement> {
    match look_into(raw, rules, submission).await {
        Ok(Some(judgement)) => Ok(judgement),
        Ok(None) => Ok(rejected("the attempt left no manifest")),
        Err(Error::Raw(error)) if is_damage(&error) => Ok(rejected(&error.to_string())),
        Err(error) => Err(error),
    }
}

/// Judges an attempt that has just been written. What is missing of it may be missing because all of the sink was, for a
/// moment: then it is looked at once more.
pub(crate) async fn judge_written(sink: &RawSink, rules: &Rules, submission: &Submission) -> Result<Judgement> {
    let raw = sink.view();
    match look_into(&raw, rules, submission).await {
        Ok(Some(judgement)) => return Ok(judgement),
        Ok(None) => {}
        Err(Error::Raw(error)) if is_damage(&error) => {}
        Err(error) => return Err(error),
    }
    sink.check_marker().await?;
    judge(&raw, rules, submission).await
}

/// Whether the error speaks of what lies in the sink, and not of the way there.
fn is_damage(error: &raw::Error) -> bool {
    match error {
        raw::Error::Manifest { .. } | raw::Error::Format { .. } | raw::Error::Damaged(_) => true,
        raw::Error::Url { .. }
        | raw::Error::Settings { .. }
        | raw::Error::Storage { .. }
        | raw::Error::Conflict { .. }
        | raw::Error::Line { .. }
        | raw::Error::NoSink { .. }
        | raw::Error::OtherSink { .. }
        | raw::Error::Marker { .. }
        | raw::Error::Interrupted { .. } => false,
    }
}

/// None where there is no manifest.
async fn look_into(raw: &RawView, rules: &Rules, submission: &Submission) -> Result<Option<Judgement>> {
    let Some(manifest) = raw.manifest(&submission.key, submission.run_id).await? else { return Ok(None) };
    if manifest.fence != submission.fence {
        let (found, held) = (manifest.fence, submission.fence);
        return Ok(Some(rejected(&format!("the manifest is from task {found}, and this attempt is task {held}"))));
    }
    if let RunOutcome::Failed { error_class, message } = &manifest.outcome {
        // An unknown error may pass; the reverse would lose data silently.
        let class = error_class.parse().unwrap_or(ErrorClass::Retryable);
        let message = clean_message(message);
        return Ok(Some(Judgement::Rejected { class, message, not_before: submission.not_before }));
    }
    add_up(&manifest)?;
    let findings = find(raw, rules, submission, &manifest).await?;
    if findings.is_empty() {
        return Ok(Some(Judgement::Accepted { records: manifest.records }));
    }
    Ok(Some(rejected(&findings.to_string())))
}

async fn find(raw: &RawView, rules: &Rules, submission: &Submission, manifest: &Manifest) -> Result<Findings> {
    let keys = (!rules.asked().unique.is_empty()).then(|| Keys::new(rules.scratch()));
    let checked = feed(raw, manifest, Check::new(rules, submission.key.logical_date, keys)).await?;
    let mut tallies = checked.tallies;
    if let Some(keys) = checked.keys {
        unique::tally(raw, manifest, rules, keys, &mut tallies.unique).await?;
    }
    let totals = rules.asked().totals.check(manifest.records, submission.replaces);
    Ok(Findings::new(totals, &tallies.into_vec()))
}

/// Each part's own counts are checked when it is read; that the whole is their sum, here.
fn add_up(manifest: &Manifest) -> Result<(), raw::Error> {
    let sum = |count: fn(&raw::PartInfo) -> u64| manifest.parts.iter().map(count).fold(0_u64, u64::saturating_add);
    let counts =
        [("records", manifest.records, sum(|part| part.records)), ("bytes", manifest.bytes, sum(|part| part.bytes))];
    for (unit, expected, found) in counts {
        if expected != found {
            let object = format!("run {} of {}", manifest.run_id, manifest.key);
            return Err(Damage::Count { object, unit, expected, found }.into());
        }
    }
    Ok(())
}

fn rejected(message: &str) -> Judgement {
    Judgement::Rejected { class: ErrorClass::Retryable, message: clean_message(message), not_before: None }
}
