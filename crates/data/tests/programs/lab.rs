//! One extractor, built from its configuration, and one attempt in a raw sink of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use redrive_core::key::PartitionKey;
use redrive_core::time::Timestamp;
use redrive_data::extract::{Error, Extractor, ExtractorContext, Failure, Job, Records, Settings};
use redrive_data::program::ChildTracker;
use redrive_data::settings::{Surroundings, Variables, redact};
use redrive_fixture::within;
use redrive_store::clock::ManualClock;
use redrive_store::raw::{RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};
use serde_json::Value;
use tempfile::TempDir;

/// The only secret that the environment holds, under `API_TOKEN`.
pub const SECRET: &str = "s3cr3t-t0ken";
pub const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

pub struct Lab {
    dir: TempDir,
    sink: RawSink,
    pub job: Job,
}

/// What an attempt left.
#[derive(Debug)]
pub struct Left {
    pub result: Result<(), Error>,
    pub lines: Vec<Vec<u8>>,
    pub notes: BTreeMap<&'static str, Value>,
}

impl Lab {
    pub async fn new() -> Self {
        Self::with(RawOptions::default()).await
    }

    pub async fn with(options: RawOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url: RawUrl = format!("file:{}", dir.path().join("raw").display()).parse().unwrap();
        let sink = RawSink::open(&url, &options).await.unwrap();
        let job = Job {
            key: PartitionKey::new("ads", "111-222", "daily", "2026-01-31").unwrap(),
            run_id: "019a0000-0000-7000-8000-000000000001".parse().unwrap(),
            attempt: 3,
            query: None,
            children: ChildTracker::default(),
        };
        Self { dir, sink, job }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn records(&self) -> Records {
        Records::new(self.sink.begin(RunHeader {
            key: self.job.key.clone(),
            run_id: self.job.run_id,
            fence: "019a0000-0000-7000-8000-000000000002".parse().unwrap(),
            extractor: "test".to_owned(),
            started_at: NOW,
        }))
    }

    /// Runs the extractor, and reads back what it brought.
    pub async fn run(&self, extractor: &dyn Extractor) -> Left {
        let mut records = self.records();
        // Failures as an attempt presents them.
        let result = extractor.extract(&self.job, &mut records).await.map_err(|error| match error {
            Error::Source(failure) => {
                Error::Source(Failure { message: redact(&failure.message, &extractor.secrets(&self.job)), ..failure })
            }
            error @ (Error::Sink(_) | Error::Scratch(_)) => error,
        });
        let outcome = match &result {
            Ok(()) => RunOutcome::Complete,
            Err(error) => RunOutcome::Failed { error_class: "retryable".to_owned(), message: error.to_string() },
        };
        let (manifest, notes) = records.finish(outcome, NOW).await.unwrap();
        let lines = self.sink.view().lines(&manifest).map_ok(|line| line.to_vec()).try_collect().await.unwrap();
        Left { result, lines, notes }
    }

    /// The same for a configuration.
    pub async fn extract(&self, settings: &str) -> Left {
        self.run(&*build(settings).unwrap()).await
    }

    /// The same for a shell script.
    pub async fn sh(&self, script: &str) -> Left {
        self.extract(&shell(script)).await
    }
}

impl Left {
    pub fn texts(&self) -> Vec<String> {
        self.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    pub fn failure(&self) -> &Failure {
        match &self.result {
            Err(Error::Source(failure)) => failure,
            other => panic!("{other:?} is no failure of the source"),
        }
    }
}

/// Settings of the command extractor that run a shell script.
pub fn shell(script: &str) -> String {
    format!("kind = \"command\"\ncommand = ['/bin/sh', '-c', '''{script}''']\n")
}

pub fn build(settings: &str) -> Result<Arc<dyn Extractor>, String> {
    let (kind, rest) = settings.split_once('\n').unwrap();
    let kind = kind.strip_prefix("kind = ").unwrap().trim_matches(['\'', '"']);
    let rest = rest.parse::<toml::Table>().map_err(|error| error.to_string())?;
    let tagged = toml::Table::from_iter([(kind.to_owned(), toml::Value::Table(rest))]);
    let settings: Settings = tagged.try_into().map_err(|error: toml::de::Error| error.to_string())?;
    let variables = Variables::new(|name| (name == "API_TOKEN").then(|| SECRET.to_owned()));
    let around = Surroundings::with(variables);
    let built = settings.build(&ExtractorContext { around, clock: Arc::new(ManualClock::at(NOW)) });
    built.map_err(|mistake| mistake.to_string())
}

/// Waits for something that must happen soon.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    within(Duration::from_secs(20), what, future).await
}
