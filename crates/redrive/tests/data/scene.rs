//! Partitions with data: attempts that are claimed, written to the raw sink and judged, as a worker does it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use redrive_core::key::PartitionKey;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Run;
use redrive_fixture::boom;
use redrive_store::raw::{RawOptions, RawUrl, RunOutcome, S3Options};

use crate::world::{HOUR, MigratedProgram, Past, january};

/// The sink of a world, as a worker has it.
pub struct Sink {
    pub url: RawUrl,
    pub s3: S3Options,
}

impl Sink {
    pub fn files(world: &MigratedProgram) -> Self {
        let url = format!("file:{}", world.home.file("raw").display()).parse().unwrap();
        Self { url, s3: S3Options::default() }
    }

    pub fn write(&self, past: &Past<'_>, run: &Run, lines: &[String], outcome: RunOutcome) {
        let options = RawOptions { s3: self.s3.clone(), ..RawOptions::default() };
        past.write_raw(&self.url, &options, run, lines, outcome);
    }
}

/// The records of a day, `version` telling apart what one run brought from what another did.
pub fn lines(key: &PartitionKey, version: u32) -> Vec<String> {
    let line = |n| format!(r#"{{"day":"{}","n":{n}, "version":{version}}}"#, key.logical_date);
    (0..3).map(line).collect()
}

pub fn text(key: &PartitionKey, version: u32) -> String {
    lines(key, version).iter().map(|line| format!("{line}\n")).collect()
}

/// Claims what is wanted, and has it accepted with records of that version.
pub fn accept(past: &Past<'_>, sink: &Sink, version: u32) {
    for run in past.claim() {
        let key = run.key().unwrap().clone();
        let lines = lines(&key, version);
        sink.write(past, &run, &lines, RunOutcome::Complete);
        past.judge(&run, Judgement::Accepted { records: u64::try_from(lines.len()).unwrap() });
    }
}

/// Claims what is wanted, and has it rejected after it wrote a record.
pub fn reject(past: &Past<'_>, sink: &Sink) {
    for run in past.claim() {
        let outcome = RunOutcome::Failed { error_class: "retryable".to_owned(), message: "boom".to_owned() };
        sink.write(past, &run, &["{\"half\":1}".to_owned()], outcome);
        past.judge(&run, boom());
    }
}

/// Days of January: 1 and 2 are successes, 2 after a failure and 1 with a rejected reprocessing since; 3 has failed
/// twice; 4 is pending; 5 is under way; 6 was given back and is wanted.
pub fn furnish(world: &MigratedProgram, sink: &Sink) -> Vec<PartitionKey> {
    let days = january("111", 6);
    let past = world.ago(HOUR);
    let policy = RetryPolicy { max_attempts: None, max_age: None, ..RetryPolicy::partitions() };
    let retry = || ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant: None };
    past.want(&days[..1]);
    accept(&past, sink, 1);
    past.want(&days[1..3]);
    reject(&past, sink);
    past.put(&days[1..2], retry());
    accept(&past, sink, 1);
    past.put(&days[..1], ControlEvent::Reprocess);
    past.put(&days[2..3], retry());
    reject(&past, sink);
    let now = world.ago(std::time::Duration::ZERO);
    now.want(&days[5..]);
    for run in now.claim() {
        world.runtime.block_on(now.store.data().release(&run, None)).unwrap();
    }
    now.put(&days[5..], ControlEvent::Pause { by: "ada", why: None });
    now.want(&days[4..5]);
    assert_eq!(now.claim().len(), 1);
    now.want(&days[3..4]);
    days
}

/// Every file below a directory with its bytes.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
            }
        }
    }
    found
}

/// The directory of a partition's current run.
pub fn current_directory(world: &MigratedProgram, key: &PartitionKey) -> PathBuf {
    let run = world.read(key).state.current_run_id.unwrap();
    let day = format!("source={}/customer_id={}/query_name={}", key.source, key.customer_id, key.query_name);
    world.home.file("raw").join(day).join(format!("logical_date={}/run_id={run}", key.logical_date))
}
