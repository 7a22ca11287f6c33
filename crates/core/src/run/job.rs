//! A job as submitters describe it: one JSON object.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::id::RunId;
use crate::time::Timestamp;

/// The largest payload of a job, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// The longest category and the longest external id, in bytes: each has to fit into an index.
pub const MAX_NAME_BYTES: usize = 1024;

/// The longest text that can describe a job: its payload and room for the rest.
pub const MAX_JOB_BYTES: usize = MAX_PAYLOAD_BYTES + (64 << 10);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub category: Option<String>,
    /// JSON, kept verbatim.
    pub payload: Option<Box<RawValue>>,
    /// By which its submitter knows it again.
    pub external_id: Option<String>,
    pub submitted_at: Option<Timestamp>,
    /// No worker starts it before.
    pub not_before: Option<Timestamp>,
    /// In place of the policy's.
    #[serde(default, deserialize_with = "crate::whole::optional")]
    pub max_attempts: Option<u32>,
}

/// Why a text is no job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("{0}")]
    Json(String),
    #[error("it has no category; give it one")]
    NoCategory,
    #[error("its category is empty; give it one")]
    EmptyCategory,
    #[error("its external_id is empty; leave it out, or give it one")]
    EmptyExternalId,
    #[error("its {0} is longer than 1,024 bytes; shorten it")]
    TooLong(&'static str),
    #[error("its {0} holds a NUL character, which no database keeps; take it out")]
    Nul(&'static str),
    #[error("its submitted_at is before 1970 or after the year 9999; correct it")]
    SubmittedAt,
    #[error("its payload is larger than 1 MiB; store it elsewhere and submit where it is")]
    PayloadTooLarge,
    #[error("max_attempts is 0; a job needs at least one attempt")]
    NoAttempt,
}

impl Job {
    /// Reads a job. `category` is for one that names none.
    pub fn parse(text: &[u8], category: Option<&str>) -> Result<Self, JobError> {
        let mut job: Self = serde_json::from_slice(text).map_err(|error| JobError::Json(in_one_line(&error)))?;
        job.category = job.category.or_else(|| category.map(str::to_owned));
        job.check()?;
        Ok(job)
    }

    pub fn check(&self) -> Result<(), JobError> {
        match self.category.as_deref() {
            None => return Err(JobError::NoCategory),
            Some("") => return Err(JobError::EmptyCategory),
            Some(_) => {}
        }
        if self.external_id.as_deref() == Some("") {
            return Err(JobError::EmptyExternalId);
        }
        for (what, name) in [("category", &self.category), ("external_id", &self.external_id)] {
            let name = name.as_deref().unwrap_or_default();
            if name.len() > MAX_NAME_BYTES {
                return Err(JobError::TooLong(what));
            }
            if name.contains('\0') {
                return Err(JobError::Nul(what));
            }
        }
        if self.submitted_at.is_some_and(|at| at < Timestamp::from_micros(0) || at > RunId::LAST) {
            return Err(JobError::SubmittedAt);
        }
        if self.payload.as_ref().is_some_and(|payload| payload.get().len() > MAX_PAYLOAD_BYTES) {
            return Err(JobError::PayloadTooLarge);
        }
        if self.max_attempts == Some(0) {
            return Err(JobError::NoAttempt);
        }
        Ok(())
    }
}

/// The parser counts lines, and there is one.
fn in_one_line(error: &serde_json::Error) -> String {
    error.to_string().replace("at line 1 column", "at byte")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Job::parse(text.as_bytes(), None).unwrap_err().to_string()
    }

    #[test]
    fn a_job_is_read_and_its_payload_stays_as_it_was_written() {
        let text = r#"{"category":"any%","payload":{"b": 1.50, "a":[1,2]},"external_id":"x","max_attempts":3,
            "submitted_at":"2026-01-31T04:00:00Z","not_before":"2026-01-31T05:00:00+01:00"}"#;
        let job = Job::parse(text.as_bytes(), Some("other")).unwrap();
        assert_eq!((job.category.as_deref(), job.external_id.as_deref()), (Some("any%"), Some("x")));
        assert_eq!(job.payload.unwrap().get(), r#"{"b": 1.50, "a":[1,2]}"#);
        assert_eq!((job.submitted_at, job.max_attempts), (job.not_before, Some(3)));
        assert_eq!(Job::parse(b"{}", Some("other")).unwrap().category.as_deref(), Some("other"));
    }

    #[test]
    fn what_is_no_job_is_said() {
        assert_eq!(wrong("{}"), "it has no category; give it one");
        assert_eq!(wrong(r#"{"category":""}"#), "its category is empty; give it one");
        assert!(wrong(r#"{"category":"c","external_id":""}"#).starts_with("its external_id is empty"));
        assert!(wrong(r#"{"category":"c","max_attempts":0}"#).starts_with("max_attempts is 0"));
        assert!(wrong(r#"{"category":"c","priority":7}"#).starts_with("unknown field `priority`"));
        assert!(wrong(r#"{"category":7}"#).contains("expected a string at byte"));
        assert!(wrong("[").starts_with("EOF while parsing") || wrong("[").contains("invalid"), "{}", wrong("["));
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        assert!(wrong(&format!(r#"{{"category":"{long}"}}"#)).starts_with("its category is longer than 1,024 bytes"));
        let named = |id: &str| format!(r#"{{"category":"c","external_id":"{id}"}}"#);
        assert!(wrong(&named(&long)).starts_with("its external_id is longer than 1,024 bytes"));
        assert!(Job::parse(named(&long[1..]).as_bytes(), None).is_ok());
        assert!(wrong(&named("a\\u0000b")).starts_with("its external_id holds a NUL character"));
        assert!(wrong(r#"{"category":"a\u0000b"}"#).starts_with("its category holds a NUL character"));
        for at in ["1969-12-31T23:59:59Z", "-000001-01-01T00:00:00Z"] {
            let text = format!(r#"{{"category":"c","submitted_at":"{at}"}}"#);
            assert!(wrong(&text).starts_with("its submitted_at is before 1970"), "{at}");
        }
        let large = format!(r#"{{"category":"c","payload":"{}"}}"#, "x".repeat(MAX_PAYLOAD_BYTES - 1));
        assert!(wrong(&large).contains("larger than 1 MiB"));
        let fits = format!(r#"{{"category":"c","payload":"{}"}}"#, "x".repeat(MAX_PAYLOAD_BYTES - 2));
        assert!(Job::parse(fits.as_bytes(), None).is_ok());
    }
}
