//! Every file of the corpus has the counts of `manifest.json`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod support;

use redrive_conf::{Document, FindingKind, lint};
use serde_json::{Value, json};

fn counts(path: &str, bytes: &[u8]) -> Value {
    let document = Document::parse(bytes).unwrap();
    json!({
        "path": path,
        "bytes": bytes.len(),
        "stanzas": document.stanzas().len(),
        "keys": document.setting_count(),
        "error": document.fault().map(|fault| fault.kind.as_str()),
    })
}

#[test]
fn every_file_has_the_counts_of_the_manifest() {
    for archive in support::manifest() {
        let name = archive["archive"].as_str().unwrap();
        let mut found: Vec<Value> = support::files(name).iter().map(|(path, bytes)| counts(path, bytes)).collect();
        found.sort_by_key(|file| file["path"].as_str().unwrap().to_owned());
        // The single file is its own archive and has no list.
        if let Some(files) = archive["files"].as_array() {
            let mut wanted = files.clone();
            wanted.sort_by_key(|file| file["path"].as_str().unwrap().to_owned());
            assert_eq!(found, wanted, "{name}");
        }
        for kind in ["conf", "meta"] {
            let files: Vec<_> =
                found.iter().filter(|file| file["path"].as_str().unwrap().ends_with(&format!(".{kind}"))).collect();
            let sum = |field: &str| files.iter().map(|file| file[field].as_u64().unwrap()).sum::<u64>();
            assert_eq!(archive[kind]["files"], files.len(), "{name} {kind}");
            for field in ["bytes", "stanzas", "keys"] {
                assert_eq!(archive[kind][field], sum(field), "{name} {kind} {field}");
            }
            let errors = files.iter().filter(|file| !file["error"].is_null()).count();
            assert_eq!(archive[kind]["parse_errors"], errors, "{name} {kind}");
        }
    }
}

#[test]
fn lint_finds_what_the_manifest_says_and_nothing_else() {
    for archive in support::manifest() {
        let name = archive["archive"].as_str().unwrap();
        let mut first = std::collections::BTreeMap::<FindingKind, u64>::new();
        for (_, bytes) in support::files(name) {
            let mut findings = Vec::new();
            lint(&bytes, |finding| findings.push(finding.kind));
            if let Some(kind) = findings.first() {
                *first.entry(*kind).or_default() += 1;
            }
        }
        let found: serde_json::Map<String, Value> =
            first.into_iter().map(|(kind, count)| (kind.as_str().to_owned(), json!(count))).collect();
        assert_eq!(Value::Object(found), archive["conf"]["strict_errors"], "{name}");
    }
}
