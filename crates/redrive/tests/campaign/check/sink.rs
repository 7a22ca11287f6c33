//! The raw sink, by its bytes: what was accepted lies there whole, and nothing lies there that no attempt has left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::partitions::{Attempt, Partition};
use crate::workloads::{Key, RECORDS, hash};

pub fn objections(raw: &Path, partitions: &BTreeMap<Key, Partition>) -> Vec<String> {
    let mut objections = Vec::new();
    let mut known = BTreeSet::new();
    for partition in partitions.values() {
        for attempt in &partition.attempts {
            let directory = directory(raw, &partition.key, &attempt.run_id);
            let found = Left { partition, attempt, directory: &directory }.objections();
            objections.extend(found.into_iter().map(|what| format!("{}: {what}", directory.display())));
            known.insert(directory);
        }
    }
    for directory in runs_below(raw) {
        if !known.contains(&directory) {
            objections.push(format!("{} is of no attempt", directory.display()));
        }
    }
    objections
}

fn directory(raw: &Path, (source, customer, query, date): &Key, run_id: &str) -> PathBuf {
    let run = [&run_id[..8], &run_id[8..12], &run_id[12..16], &run_id[16..20], &run_id[20..]].join("-");
    raw.join(format!("source={source}/customer_id={customer}/query_name={query}/logical_date={date}/run_id={run}"))
}

/// The directories of all attempts, wherever they lie.
fn runs_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let name = entry.file_name().into_string().unwrap_or_default();
        if name.starts_with("run_id=") {
            found.push(entry.path());
        } else if name.contains('=') {
            found.extend(runs_below(&entry.path()));
        }
    }
    found
}

/// What an attempt left.
struct Left<'a> {
    partition: &'a Partition,
    attempt: &'a Attempt,
    directory: &'a Path,
}

impl Left<'_> {
    fn objections(&self) -> Vec<String> {
        let manifest = match fs::read(self.directory.join("_manifest.json")) {
            Ok(bytes) => match serde_json::from_slice::<Value>(&bytes) {
                Ok(manifest) => manifest,
                Err(error) => return vec![format!("its manifest is no JSON: {error}")],
            },
            Err(_) if self.attempt.verdict.is_some() => return vec!["it was judged and has no manifest".to_owned()],
            Err(_) => return Vec::new(),
        };
        let mut objections = self.of_the_manifest(&manifest);
        let parts = manifest["parts"].as_array().cloned().unwrap_or_default();
        let mut records = Vec::new();
        for part in &parts {
            match self.part(part) {
                Ok(lines) => records.extend(lines),
                Err(what) => objections.push(format!("{}: {what}", part["name"])),
            }
        }
        if manifest["records"] != records.len() {
            objections.push(format!(
                "{} records lie there, and its manifest says {}",
                records.len(),
                manifest["records"]
            ));
        }
        if self.attempt.verdict.as_deref() == Some("passed") {
            objections.extend(self.of_the_records(&manifest, &records));
        }
        objections
    }

    fn of_the_manifest(&self, manifest: &Value) -> Vec<String> {
        let (source, customer, query, date) = &self.partition.key;
        let plain = |name: &str| manifest[name].as_str().unwrap_or_default().replace('-', "");
        let is = [
            ("source", manifest["source"] == **source),
            ("customer_id", manifest["customer_id"] == **customer),
            ("query_name", manifest["query_name"] == **query),
            ("logical_date", manifest["logical_date"] == **date),
            ("run_id", plain("run_id") == self.attempt.run_id),
            ("fence", plain("fence") == self.attempt.task_id),
        ];
        is.iter().filter(|(_, is_so)| !is_so).map(|(name, _)| format!("the manifest's {name} is another's")).collect()
    }

    /// A part's records, when it is as the manifest says.
    fn part(&self, part: &Value) -> Result<Vec<Value>, String> {
        let name = part["name"].as_str().unwrap_or_default();
        let compressed = fs::read(self.directory.join(name)).map_err(|error| error.to_string())?;
        if part["compressed_bytes"] != compressed.len() || part["sha256"] != hash(&compressed) {
            return Err("its bytes are not those of the manifest".to_owned());
        }
        let bytes = zstd::decode_all(compressed.as_slice()).map_err(|error| error.to_string())?;
        let lines: Vec<&[u8]> = bytes.strip_suffix(b"\n").unwrap_or_default().split(|byte| *byte == b'\n').collect();
        if part["bytes"] != bytes.len() || part["records"] != lines.len() {
            return Err(format!("it has {} bytes in {} lines", bytes.len(), lines.len()));
        }
        lines.iter().map(|line| serde_json::from_slice(line).map_err(|error| error.to_string())).collect()
    }

    /// What was accepted is all that the source has of this partition, each record once.
    fn of_the_records(&self, manifest: &Value, records: &[Value]) -> Vec<String> {
        let (source, customer, _, date) = &self.partition.key;
        let all = RECORDS.iter().find(|(name, _)| name == source).map_or(0, |(_, records)| *records);
        let ids: BTreeSet<u64> = records.iter().filter_map(|record| record["id"].as_u64()).collect();
        let are_its_own = records.iter().all(|record| record["customer_id"] == **customer && record["date"] == **date);
        let is_current = self.partition.current_run_id.as_ref() == Some(&self.attempt.run_id);
        let counted = self.partition.record_count.and_then(|count| usize::try_from(count).ok());
        let is = [
            ("its manifest is not complete", manifest["outcome"]["state"] == "complete"),
            ("not all records are there, each once", records.len() == all && ids.len() == all),
            ("a record is another partition's", are_its_own),
            ("record_count is another", !is_current || counted == Some(records.len())),
        ];
        is.iter().filter(|(_, is_so)| !is_so).map(|(what, _)| (*what).to_owned()).collect()
    }
}
