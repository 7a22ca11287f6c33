//! A raw sink in a directory, attempts in it, and a way past it to tamper with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Judgement;
use redrive_core::time::Timestamp;
use redrive_data::validate::{Rules, Settings, Submission, judge};
use redrive_store::raw::{Manifest, RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};
use tempfile::TempDir;

pub struct Lab {
    pub sink: RawSink,
    dir: TempDir,
}

pub fn key() -> PartitionKey {
    PartitionKey::new("ads", "111", "daily", "2026-01-31").unwrap()
}

pub fn submission() -> Submission {
    Submission {
        key: key(),
        run_id: "019a0000-0000-7000-8000-000000000001".parse().unwrap(),
        fence: "019a0000-0000-7000-9000-000000000001".parse().unwrap(),
        replaces: None,
        not_before: None,
    }
}

pub fn rules(settings: &str) -> Rules {
    parsed(settings).unwrap().build().unwrap()
}

/// Settings as JSON, which has the same shape as the configuration's TOML.
pub fn parsed(settings: &str) -> serde_json::Result<Settings> {
    serde_json::from_str(settings)
}

impl Lab {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Every compressed chunk of a writer makes a part.
        let options = RawOptions { part_bytes: 1, ..RawOptions::default() };
        let sink = RawSink::open(&RawUrl::File(dir.path().to_owned()), &options).await.unwrap();
        Self { sink, dir }
    }

    pub async fn with(lines: &[&str]) -> Self {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        Self::with_bytes(&lines).await
    }

    pub async fn with_bytes(lines: &[&[u8]]) -> Self {
        let lab = Self::new().await;
        lab.write(lines, RunOutcome::Complete).await;
        lab
    }

    pub async fn write(&self, lines: &[&[u8]], outcome: RunOutcome) -> Manifest {
        let Submission { key, run_id, fence, .. } = submission();
        let started_at = Timestamp::from_micros(1);
        let mut writer = self.sink.begin(RunHeader { key, run_id, fence, extractor: "sample".to_owned(), started_at });
        for line in lines {
            writer.write_line(line).await.unwrap();
        }
        writer.finish(outcome, Timestamp::from_micros(2)).await.unwrap()
    }

    pub async fn judge(&self, rules: &Rules, submission: &Submission) -> redrive_data::Result<Judgement> {
        judge(&self.sink.view(), rules, submission).await
    }

    /// Judges twice, and sees to it that nothing in the sink is different afterwards.
    pub async fn verdict(&self, rules: &Rules) -> Judgement {
        self.verdict_of(rules, &submission()).await
    }

    pub async fn verdict_of(&self, rules: &Rules, submission: &Submission) -> Judgement {
        let before = self.tree();
        let judgement = self.judge(rules, submission).await.unwrap();
        assert_eq!(self.judge(rules, submission).await.unwrap(), judgement, "judged twice");
        assert_eq!(self.tree(), before, "the sink was changed");
        judgement
    }

    /// Every file of the sink with its content.
    fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = files_below(self.dir.path());
        files.into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default())).collect()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        files_below(self.dir.path()).into_iter().find(|path| path.ends_with(name)).unwrap()
    }

    /// Puts another manifest in the place of the one that was written.
    pub fn forge(&self, manifest: &Manifest) {
        std::fs::write(self.file("_manifest.json"), serde_json::to_vec(manifest).unwrap()).unwrap();
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// What `lines` are told under the rules: `Ok` with their number, or the message.
pub async fn told(settings: &str, lines: &[&str]) -> Result<u64, String> {
    verdict(Lab::with(lines).await.verdict(&rules(settings)).await)
}

/// A rejection by the rules is always one that may pass.
pub fn verdict(judgement: Judgement) -> Result<u64, String> {
    match judgement {
        Judgement::Accepted { records } => Ok(records),
        Judgement::Rejected { class, message, not_before } => {
            assert_eq!((class, not_before), (ErrorClass::Retryable, None), "{message}");
            assert!(!message.contains('\n') && message.len() <= 4096, "{message}");
            Err(message)
        }
    }
}
