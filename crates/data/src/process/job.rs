//! A job as its handler is given it.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::run::Run;
use redrive_core::time::Timestamp;
use redrive_store::ClaimedRun;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::{RawValue, to_raw_value};

use super::Failure;
use crate::settings::Placeholders;

/// One attempt at a job.
#[derive(Debug, Clone)]
pub struct Job {
    /// Shared with what is recorded of the attempt.
    run: Arc<Run>,
    payload: Option<String>,
}

impl From<ClaimedRun> for Job {
    fn from(claimed: ClaimedRun) -> Self {
        Self { run: Arc::new(claimed.run), payload: claimed.payload }
    }
}

impl Job {
    pub fn run_id(&self) -> RunId {
        self.run.run_id
    }

    pub fn category(&self) -> &str {
        self.run.work.category()
    }

    /// The submitter's own name for it, unique in its category.
    pub fn external_id(&self) -> Option<&str> {
        self.run.work.external_id()
    }

    /// How often it was started, this time included. What a worker gave back untried does not count.
    pub fn attempt(&self) -> u32 {
        self.run.attempt
    }

    /// How many retries counted against the policy.
    pub fn retry_count(&self) -> u32 {
        self.run.retry_count
    }

    pub fn submitted_at(&self) -> Timestamp {
        self.run.submitted_at
    }

    /// JSON, as it was submitted.
    pub fn payload(&self) -> Option<&str> {
        self.payload.as_deref()
    }

    /// Reads the payload; one that is something else than was expected is a final failure.
    pub fn read_payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let payload = self.payload.as_deref().unwrap_or("null");
        serde_json::from_str(payload).map_err(|why| Failure::fatal(format!("the payload cannot be used: {why}")))
    }

    /// The job on one line, as programs and servers are given it.
    pub fn to_json(&self) -> String {
        let job = Written {
            run_id: self.run_id(),
            category: self.category(),
            external_id: self.external_id(),
            attempt: self.attempt(),
            retry_count: self.retry_count(),
            submitted_at: self.submitted_at(),
            payload: self.payload.as_deref().and_then(on_one_line),
        };
        serde_json::to_string(&job).unwrap_or_default()
    }

    pub(super) fn run(&self) -> &Arc<Run> {
        &self.run
    }
}

#[derive(serde::Serialize)]
struct Written<'a> {
    run_id: RunId,
    category: &'a str,
    external_id: Option<&'a str>,
    attempt: u32,
    retry_count: u32,
    submitted_at: Timestamp,
    payload: Option<Box<RawValue>>,
}

/// The payload verbatim, so that no digit of a number changes; only line breaks, which stand between values, become spaces.
/// A text that is no JSON goes as a string.
fn on_one_line(payload: &str) -> Option<Box<RawValue>> {
    if serde_json::from_str::<IgnoredAny>(payload).is_err() {
        return to_raw_value(payload).ok();
    }
    RawValue::from_string(payload.replace(['\n', '\r'], " ").trim().to_owned()).ok()
}

#[derive(Debug, Clone, Copy)]
pub enum Placeholder {
    RunId,
    Category,
    ExternalId,
    Attempt,
}

impl Placeholders for Job {
    type Name = Placeholder;
    const NAMES: &'static [(&'static str, Placeholder)] = &[
        ("run_id", Placeholder::RunId),
        ("category", Placeholder::Category),
        ("external_id", Placeholder::ExternalId),
        ("attempt", Placeholder::Attempt),
    ];

    fn value(&self, name: Placeholder) -> String {
        match name {
            Placeholder::RunId => self.run_id().to_string(),
            Placeholder::Category => self.category().to_owned(),
            Placeholder::ExternalId => self.external_id().unwrap_or_default().to_owned(),
            Placeholder::Attempt => self.attempt().to_string(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use redrive_core::run::{State, Work};

    use super::*;

    pub(in crate::process) fn job(payload: Option<&str>) -> Job {
        let run_id = "019a0000-0000-7000-8000-000000000001".parse().unwrap();
        let work = Work::Process { category: "any%".to_owned(), external_id: Some("r-7".to_owned()) };
        let run = Run { attempt: 2, ..Run::new(run_id, work, State::Running, Timestamp::from_micros(0)) };
        Job { run: Arc::new(run), payload: payload.map(str::to_owned) }
    }

    #[test]
    fn a_job_is_one_line_and_its_payload_is_not_changed() {
        let written = job(Some("{\n  \"n\": 12345678901234567890.5000,\r\n \"t\": \"a\\nb\" }\n")).to_json();
        let submitted_at = serde_json::to_string(&Timestamp::from_micros(0)).unwrap();
        let expected = [
            r#"{"run_id":"019a0000-0000-7000-8000-000000000001","category":"any%","external_id":"r-7","attempt":2,"#,
            r#""retry_count":0,"submitted_at":"#,
            &submitted_at,
            r#","payload":{   "n": 12345678901234567890.5000,   "t": "a\nb" }}"#,
        ]
        .concat();
        assert_eq!(written, expected);
        for (payload, shown) in [(None, "null"), (Some("no {json"), r#""no {json""#), (Some("[1]"), "[1]")] {
            assert!(job(payload).to_json().ends_with(&format!("\"payload\":{shown}}}")), "{payload:?}");
        }
    }

    #[test]
    fn a_payload_of_another_form_is_a_final_failure() {
        assert_eq!(job(Some("[1, 2]")).read_payload::<Vec<u32>>().unwrap(), [1, 2]);
        let failure = job(Some("{}")).read_payload::<Vec<u32>>().unwrap_err();
        assert_eq!(failure.class, redrive_core::failure::ErrorClass::Final);
    }
}
