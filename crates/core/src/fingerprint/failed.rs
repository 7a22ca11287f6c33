//! The fingerprints of partitions, runs and failed tries: pure functions of what is kept of them, so that the
//! group of a row follows from the row alone.

use super::{Fingerprint, fingerprint};
use crate::failure::ErrorClass;
use crate::key::PartitionKey;
use crate::partition::PartitionState;
use crate::run::{EndedBy, FailureRecord, Run, State, Work};

/// The group of what a partition's last attempt said; none where it said nothing wrong.
pub fn of_partition(state: &PartitionState) -> Option<Fingerprint> {
    let (class, message) = (state.error_class?, state.error_message.as_deref()?);
    Some(with_key(&state.key, |own| fingerprint(class, None, message, own)))
}

/// The group of a run's last failure; none where it has none. A person's cancellation is no failure.
pub fn of_run(run: &Run) -> Option<Fingerprint> {
    // Only a cancelled run waits after a final error: for the end of its lease, before it is tried again.
    let is_cancelled = match run.state {
        State::Waiting => run.error_class == Some(ErrorClass::Final),
        State::Storing | State::Queued | State::Running | State::Done | State::Dead => false,
    };
    if is_cancelled || run.ended_by == Some(EndedBy::Cancelled) {
        return None;
    }
    let (class, message) = (run.error_class?, run.error_message.as_deref()?);
    Some(with_work(&run.work, |own| fingerprint(class, None, message, own)))
}

/// The group of one failed try of a run.
pub fn of_try(run: &Run, failure: &FailureRecord) -> Fingerprint {
    with_work(&run.work, |own| fingerprint(failure.class, None, &failure.message, own))
}

fn with_work<T>(work: &Work, ask: impl FnOnce(&[&str]) -> T) -> T {
    match work {
        Work::Extract(key) => with_key(key, ask),
        Work::Ingest { upload } => ask(&[upload]),
        Work::Process { category, external_id } => {
            ask(&[category.as_str(), external_id.as_deref().unwrap_or_default()])
        }
    }
}

fn with_key<T>(key: &PartitionKey, ask: impl FnOnce(&[&str]) -> T) -> T {
    let day = key.logical_date.to_string();
    ask(&[key.source.as_str(), key.customer_id.as_str(), key.query_name.as_str(), &day])
}
