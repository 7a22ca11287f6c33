//! Every case of `conf-cases.jsonl`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod support;

use redrive_conf::{Document, FaultKind, lint};
use serde_json::{Value, json};

/// The cases whose literal expectation is doubtful. Redrive does in all of them what ksconf does, because the rules stay
/// simple that way; a case that shall be different one day goes from here to a list of its own with its expectation.
/// Three things differ from ksconf on purpose, none of them in a case: a header with an empty name as the last line is
/// kept, UTF-32 is refused, and nothing is taken from a file of JSON.
const QUIRKS: [&str; 7] = [
    "header-trailing-comment-with-equals",
    "header-unclosed-with-equals",
    "header-and-key-on-one-line",
    "comment-ends-with-backslash",
    "cont-lone-backslash-before-header",
    "cont-key-part",
    "cont-after-header",
];

fn parsed(bytes: &[u8]) -> Value {
    match Document::parse(bytes) {
        Err(_) => json!({ "stanzas": [], "errors": [FaultKind::Encoding.as_str()] }),
        Ok(document) => {
            let stanzas: Vec<Value> = document
                .stanzas()
                .map(|stanza| {
                    let entries: Vec<_> = stanza.settings().map(|setting| [setting.key, setting.value]).collect();
                    json!({ "name": stanza.name(), "entries": entries })
                })
                .collect();
            let errors: Vec<_> = document.fault().iter().map(|fault| fault.kind.as_str()).collect();
            json!({ "stanzas": stanzas, "errors": errors })
        }
    }
}

fn same(found: &Value, expected: &Value) -> bool {
    found["stanzas"] == expected["stanzas"] && found["errors"] == expected["errors"]
}

#[test]
fn every_case_gives_its_stanzas_and_errors() {
    let cases = support::json_lines("conf-cases.jsonl");
    assert_eq!(cases.len(), 99);
    for case in &cases {
        let found = parsed(&support::input(case));
        let wanted = match case["expect"]["errors"].as_array().unwrap().iter().any(|error| error == "dangling_header") {
            // A broken header does not refuse the file: parsing goes on.
            true => &case["alt"],
            false => &case["expect"],
        };
        assert!(same(&found, wanted), "{}: found {found}, wanted {wanted}", case["id"]);
    }
    let quirks: Vec<_> = cases.iter().filter(|case| case["quirk"] == true).map(|case| &case["id"]).collect();
    assert_eq!(quirks, QUIRKS);
}

#[test]
fn the_first_finding_is_the_one_of_a_strict_reader() {
    for case in support::json_lines("conf-cases.jsonl") {
        let mut findings = Vec::new();
        lint(&support::input(&case), |finding| findings.push(finding));
        let first = findings.first().map(|finding| finding.kind.as_str());
        assert_eq!(json!(first), case["strict"], "{}: {findings:?}", case["id"]);
        assert!(findings.is_sorted_by_key(|finding| finding.lines), "{}", case["id"]);
    }
}

#[test]
fn findings_name_the_line_and_what_is_there() {
    let mut findings = Vec::new();
    let text = b"[a]\nx = 1\nx = 2\nwhat is this\n[a]\n[b\ny = \\\n 1\ny = 2\n";
    lint(text, |finding| findings.push(format!("{} {} {finding}", finding.lines.first, finding.kind.as_str())));
    assert_eq!(
        findings,
        [
            "3 duplicate_key `x` is already set at line 2; the later value wins",
            "4 junk_line `what is this` is neither a header, a comment nor a setting and is ignored",
            "5 duplicate_stanza [a] is already at line 1; both are merged, and later values win",
            "6 dangling_header `[b` is a broken header; the settings below it join the stanza above",
            "9 duplicate_key `y` is already set at line 7; the later value wins",
        ]
    );
}

#[test]
fn lines_and_order_survive_the_merging_of_a_repeated_stanza() {
    let text = "# c\ntop = 1\n\n[a]\nx = 1\\\n2\ny = 1\n\n[b]\n[a]\n# c\nz = 1\nx = 3\n[a]\n";
    let document = Document::parse(text.as_bytes()).unwrap();
    let lines: Vec<_> = document
        .stanzas()
        .map(|stanza| {
            let settings: Vec<_> = stanza.settings().map(|s| (s.key, s.lines.first, s.lines.last)).collect();
            let repeats: Vec<_> = stanza.repeats().map(|lines| (lines.first, lines.last)).collect();
            (stanza.name(), stanza.order(), (stanza.lines().first, stanza.lines().last), repeats, settings)
        })
        .collect();
    assert_eq!(
        lines,
        [
            (None, 0, (2, 2), vec![], vec![("top", 2, 2)]),
            (Some("a"), 1, (4, 7), vec![(10, 13), (14, 14)], vec![("x", 13, 13), ("y", 7, 7), ("z", 12, 12)]),
            (Some("b"), 2, (9, 9), vec![], vec![]),
        ]
    );
}

#[test]
fn nothing_is_taken_from_json_and_its_fault_is_told() {
    let document = Document::parse(b"{\n \"list\": [\n  \"a = b\"\n ]\n}\n").unwrap();
    assert_eq!(document.stanzas().len(), 0);
    assert_eq!(document.setting_count(), 0);
    let fault = document.fault().unwrap();
    assert_eq!((fault.first_line, fault.count), (4, 1));
}
