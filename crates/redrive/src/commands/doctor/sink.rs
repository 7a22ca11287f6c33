//! What a partition says of its current run, held against what the raw sink has of it.

use redrive_core::count;
use redrive_core::id::{RunId, TaskId};
use redrive_core::invariants::AttemptFacts;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Partition;
use redrive_store::raw::{self, Manifest, RawView, Sha256};

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
    /// The hash of its manifest, where the run's worker reported it.
    manifest: Option<String>,
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
        let current = attempts.iter().find(|attempt| attempt.run_id == run_id);
        let fence = current.and_then(|attempt| attempt.task_id);
        let manifest = current.and_then(|attempt| attempt.manifest.clone());
        Some(Self { key: &state.key, run_id, fence, records: state.record_count, manifest })
    }

    /// The run that is claimed to be there.
    pub fn run(&self) -> (PartitionKey, RunId) {
        (self.key.clone(), self.run_id)
    }

    /// Holds the claim against what was found of its run, without reading the parts.
    pub fn glance(&self, found: Result<(Manifest, Sha256), raw::Error>) -> Examined {
        match self.compare(found) {
            Ok(manifest) => sound(&manifest),
            Err(examined) => examined,
        }
    }

    /// The same, and reads every part.
    pub async fn examine(&self, raw: &RawView) -> Examined {
        let manifest = match self.compare(raw.finished_and_hash(self.key, self.run_id).await) {
            Ok(manifest) => manifest,
            Err(examined) => return examined,
        };
        match raw.verify(&manifest).await {
            Ok(()) => sound(&manifest),
            Err(error) => self.failed(error),
        }
    }

    #[expect(clippy::result_large_err, reason = "it is made for each run once, and unfolded by its caller")]
    fn compare(&self, found: Result<(Manifest, Sha256), raw::Error>) -> Result<Manifest, Examined> {
        let (manifest, hash) = found.map_err(|error| self.failed(error))?;
        let says = |why: &str| format!("{}: the manifest of run {} {why}", self.key, self.run_id);
        if let Some(known) = self.manifest.as_ref().filter(|known| **known != hash.to_string()) {
            let why = format!("has sha256 {hash}, and the run was judged with {known}; it was changed afterwards");
            return Err(Examined::Broken(self.broken("manifest_hash", says(&why))));
        }
        match self.contradiction(&manifest) {
            Some((breach, why)) => Err(Examined::Broken(self.broken(breach, says(&why)))),
            None => Ok(manifest),
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

fn sound(manifest: &Manifest) -> Examined {
    let parts = count::of(manifest.parts.len());
    Examined::Sound { parts, bytes: manifest.parts.iter().map(|part| part.compressed_bytes).sum() }
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
