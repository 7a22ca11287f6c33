//! A real raw sink in a temporary directory, and extractions into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use redrive_core::key::PartitionKey;
use redrive_core::time::Timestamp;
use redrive_data::extract::{Error, Extractor, ExtractorContext, Failure, Job, Records, Settings};
use redrive_data::program::ChildTracker;
use redrive_data::settings::{Surroundings, Variables, redact};
use redrive_store::clock::SystemClock;
use redrive_store::raw::{RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};
use serde_json::Value;
use tempfile::TempDir;

pub struct Bed {
    sink: RawSink,
    _dir: TempDir,
}

/// What came of an extraction.
#[derive(Debug)]
pub struct Extracted {
    pub outcome: Result<(), Failure>,
    /// As they were read back from the sink.
    pub lines: Vec<String>,
    pub notes: BTreeMap<&'static str, Value>,
}

impl Extracted {
    pub fn failure(&self) -> &Failure {
        self.outcome.as_ref().expect_err("it was to fail")
    }

    pub fn succeeded(self) -> Vec<String> {
        self.outcome.unwrap();
        self.lines
    }
}

impl Bed {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = RawUrl::File(dir.path().join("raw"));
        Self { sink: RawSink::open(&url, &RawOptions::default()).await.unwrap(), _dir: dir }
    }

    pub async fn extract(&self, extractor: &dyn Extractor, job: &Job) -> Extracted {
        let now = Timestamp::from_micros(0);
        let attempt = RunHeader {
            key: job.key.clone(),
            run_id: job.run_id,
            fence: "019a0000-0000-7000-9000-000000000001".parse().unwrap(),
            extractor: extractor.name().to_owned(),
            started_at: now,
        };
        let mut records = Records::new(self.sink.begin(attempt));
        let outcome = extractor.extract(job, &mut records).await.map_err(|error| match error {
            Error::Source(failure) => presented(extractor, job, failure),
            error @ (Error::Sink(_) | Error::Scratch(_)) => panic!("{error}"),
        });
        let written = match &outcome {
            Ok(()) => RunOutcome::Complete,
            Err(failure) => {
                RunOutcome::Failed { error_class: failure.class.to_string(), message: failure.message.clone() }
            }
        };
        let (manifest, notes) = records.finish(written, now).await.unwrap();
        let lines = self.sink.view().lines(&manifest);
        let lines = lines.map(|line| String::from_utf8(line.unwrap().to_vec()).unwrap()).collect().await;
        Extracted { outcome, lines, notes }
    }
}

/// A failure as an attempt presents it.
fn presented(extractor: &dyn Extractor, job: &Job, failure: Failure) -> Failure {
    Failure { message: redact(&failure.message, &extractor.secrets(job)), ..failure }
}

/// The `n`th run of a customer.
pub fn job(customer: &str, n: u32) -> Job {
    Job {
        key: PartitionKey::new("ads", customer, "daily", "2026-01-31").unwrap(),
        run_id: format!("019a0000-0000-7000-8000-{n:012}").parse().unwrap(),
        attempt: 1,
        query: Some("SELECT campaign.id FROM campaign WHERE campaign.name = \"a\"".to_owned()),
        children: ChildTracker::default(),
    }
}

/// The extractor that a configuration describes; variables are named after their values: `SECRET_x` is `value-of-x`.
pub fn settings(mut json: Value) -> Result<Arc<dyn Extractor>, String> {
    let variables = Variables::new(|name| name.strip_prefix("SECRET_").map(|rest| format!("value-of-{rest}")));
    let kind = json.as_object_mut().unwrap().remove("kind").unwrap();
    let tagged = serde_json::json!({ kind.as_str().unwrap(): json });
    let settings: Settings = serde_json::from_value(tagged).map_err(|error| error.to_string())?;
    let around = Surroundings::with(variables);
    let built = settings.build(&ExtractorContext { around, clock: Arc::new(SystemClock) });
    built.map_err(|mistake| mistake.to_string())
}
