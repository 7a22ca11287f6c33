//! Every job has one verdict or is stopped with a reason, every attempt ended once, and no policy was overstepped.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Subject, number, text};
use crate::table::Finding;
use crate::workloads::{MAX_ATTEMPTS, Workload};

const JOBS: &str = "
    SELECT external_id, run_id, state, verdict, error_class, error_message, next_retry_at, attempt, retry_count
    FROM runs
    WHERE workload = 'process'";
const FAILED_TRIES: &str = "SELECT run_id, attempt FROM run_failures";

pub fn check(subject: &mut Subject<'_>) -> Vec<Finding> {
    let tries = failed_tries(subject);
    let mut objections = Vec::new();
    let mut seen = BTreeSet::new();
    for row in subject.reader.rows(JOBS) {
        let id = text(&row, 0).to_owned();
        match subject.expected.jobs.get(&id) {
            Some(payload) => {
                let tries = tries.get(text(&row, 1)).map_or(&[][..], Vec::as_slice);
                objections.extend(job(&row, *payload, tries).into_iter().map(|what| format!("job {id}: {what}")));
            }
            None => objections.push(format!("nobody has submitted job {id}")),
        }
        if !seen.insert(id.clone()) {
            objections.push(format!("job {id} is there twice"));
        }
    }
    objections
        .extend(subject.expected.jobs.keys().filter(|id| !seen.contains(*id)).map(|id| format!("job {id} is lost")));
    objections.into_iter().map(|what| Finding::of(Workload::Process, what)).collect()
}

/// The attempts of each run that failed.
fn failed_tries(subject: &mut Subject<'_>) -> BTreeMap<String, Vec<i64>> {
    let mut tries: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in subject.reader.rows(FAILED_TRIES) {
        tries.entry(text(&row, 0).to_owned()).or_default().push(number(&row, 1));
    }
    tries
}

fn job(row: &Row, payload: u32, failed: &[i64]) -> Vec<String> {
    let (state, verdict, class, message) = (text(row, 2), row[3].as_deref(), row[4].as_deref(), row[5].as_deref());
    let (attempts, retries) = (number(row, 7), number(row, 8));
    let is_exhausted = retries == MAX_ATTEMPTS - 1;
    let is_ended = match (state, verdict) {
        ("done", Some("passed")) => payload != 3 && class.is_none() && message.is_none(),
        ("dead", None) => match class {
            Some("final") => payload == 3 && message.is_some(),
            Some("retryable") => is_exhausted && message.is_some(),
            _ => false,
        },
        _ => false,
    };
    let ended = i64::try_from(failed.len()).unwrap() + i64::from(verdict.is_some());
    let distinct: BTreeSet<i64> = failed.iter().copied().collect();
    let is = [
        ("it has neither one verdict nor a reason to have stopped", is_ended && row[6].is_none()),
        ("it was tried more often than the policy allows", retries < MAX_ATTEMPTS && attempts <= MAX_ATTEMPTS),
        ("its attempts did not end once each", attempts == ended && distinct.len() == failed.len()),
    ];
    let objections = is.iter().filter(|(_, is_so)| !is_so);
    objections.map(|(what, _)| format!("{what}: {row:?}, failed tries {failed:?}")).collect()
}
