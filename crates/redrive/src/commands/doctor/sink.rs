//! What a partition says of its current run, held against what the raw sink has of it.

use redrive_core::count;
use redrive_core::id::{RunId, TaskId};
use redrive_core::invariants::AttemptFacts;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_store::raw::{self, Manifest, RawView};

use super::findings::{Broken, Finding, Findings};
use crate::commands::data::manifest_contradiction;

const CHECK: &str = "raw data";

/// What the database says the sink holds.
pub struct Claim<'a> {
    key: &'a PartitionKey,
    run_id: RunId,
    /// None where the run is not known; the doctor reports that as a broken invariant.
    fence: Option<TaskId>,
    records: Option<u64>,
}

/// What became of looking at a run.
pub enum Examined {
    Sound {
        parts: u64,
        bytes: u64,
    },
    Broken(Broken),
    /// The sink itself cannot be read any more.
    Lost(String),
}

impl<'a> Claim<'a> {
    pub fn of(partition: &'a Partition, attempts: &[AttemptFacts]) -> Option<Self> {
        let state = &partition.state;
        let run_id = state.current_run_id?;
        let fence = attempts.iter().find(|attempt| attempt.run_id == run_id).and_then(|attempt| attempt.task_id);
        Some(Self { key: &state.key, run_id, fence, records: state.record_count })
    }

    pub async fn examine(&self, raw: &RawView, quick: bool) -> Examined {
        let manifest = match raw.finished(self.key, self.run_id).await {
            Ok(manifest) => manifest,
            Err(error) => return self.failed(error),
        };
        if let Some((breach, why)) = self.contradiction(&manifest) {
            let says = format!("{}: the manifest of run {} {why}", self.key, self.run_id);
            return Examined::Broken(self.broken(breach, says));
        }
        let read = if quick { raw.present(&manifest).await } else { raw.verify(&manifest).await };
        match read {
            Ok(()) => {
                let parts = count::of(manifest.parts.len());
                Examined::Sound { parts, bytes: manifest.parts.iter().map(|part| part.compressed_bytes).sum() }
            }
            Err(error) => self.failed(error),
        }
    }

    fn contradiction(&self, manifest: &Manifest) -> Option<(&'static str, String)> {
        if let Some(fence) = self.fence.filter(|fence| *fence != manifest.fence) {
            return Some(("fence", format!("has the fence {}, and the run has {fence}", manifest.fence)));
        }
        manifest_contradiction(manifest, self.records)
    }

    fn failed(&self, error: raw::Error) -> Examined {
        let breach = match &error {
            raw::Error::Damaged(_) => "damaged",
            raw::Error::Manifest { .. } | raw::Error::Format { .. } => "manifest",
            raw::Error::Url { .. }
            | raw::Error::Settings { .. }
            | raw::Error::Storage { .. }
            | raw::Error::Conflict { .. }
            | raw::Error::Line { .. }
            | raw::Error::NoSink { .. }
            | raw::Error::OtherSink { .. }
            | raw::Error::Marker { .. }
            | raw::Error::Interrupted { .. } => return Examined::Lost(error.to_string()),
        };
        Examined::Broken(self.broken(breach, format!("{}: {error}", self.key)))
    }

    fn broken(&self, breach: &'static str, says: String) -> Broken {
        Broken { check: CHECK, key: Some(self.key.clone()), run_id: Some(self.run_id), breach, says }
    }
}

/// Looks at one run after another, and keeps count.
pub struct Examiner<'a> {
    pub raw: &'a RawView,
    pub quick: bool,
    runs: u64,
    parts: u64,
    bytes: u64,
    broken: u64,
    lost: Option<String>,
}

impl<'a> Examiner<'a> {
    pub fn new(raw: &'a RawView, quick: bool) -> Self {
        Self { raw, quick, runs: 0, parts: 0, bytes: 0, broken: 0, lost: None }
    }

    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    pub fn lost(&mut self, why: String) {
        self.lost = Some(why);
    }

    pub fn take(&mut self, examined: Examined, findings: &mut Findings) {
        self.runs += 1;
        match examined {
            Examined::Sound { parts, bytes } => {
                self.parts += parts;
                self.bytes += bytes;
            }
            Examined::Broken(broken) => {
                self.broken += 1;
                findings.name(broken);
            }
            Examined::Lost(why) => self.lost(why),
        }
    }

    pub fn finding(self) -> Finding {
        let Self { runs, parts, broken, .. } = self;
        if let Some(why) = self.lost {
            return Finding::unusable(CHECK, why);
        }
        if broken > 0 {
            return Finding::broken(CHECK, format!("{broken} of {runs} current runs are not as they were written"));
        }
        let how = match self.quick {
            true => "there; they were not read (--quick)".to_owned(),
            false => format!("with {} bytes read, every hash right", self.bytes),
        };
        Finding::good(CHECK, format!("{runs} current runs, {parts} parts {how}"))
    }
}
