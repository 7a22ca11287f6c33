//! Every case of `conf-merge-cases.jsonl`, and what the cases do not say.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod support;

use redrive_conf::{Context, Document, Exports, Inherit, Merge};
use serde_json::{Value, json};

fn context(case: &Value) -> Context {
    match case["context"]["kind"].as_str().unwrap() {
        "global" => Context::Global,
        "user" => Context::App {
            app: case["context"]["app"].as_str().unwrap().to_owned(),
            user: case["context"]["user"].as_str().map(str::to_owned),
        },
        other => panic!("unknown context {other}"),
    }
}

fn merged(case: &Value, files: &[&Value]) -> Value {
    let mut exports = Exports::default();
    for file in files.iter().filter(|file| file["exported"] == true) {
        let app = file["path"].as_str().unwrap().split('/').nth(1).unwrap();
        exports.add(&format!("apps/{app}/metadata/default.meta"), Some(""), "export", "system");
    }
    let mut merge = Merge::new(context(case), exports);
    for file in files {
        let document = Document::parse(file["text"].as_str().unwrap().as_bytes()).unwrap();
        merge.add_document(file["path"].as_str().unwrap(), &document);
    }
    let effective = merge.finish();
    let inherit = if case["inherit_default"] == true { Inherit::Default } else { Inherit::Nothing };
    let mut stanzas = Vec::new();
    for conf in effective.confs() {
        for stanza in effective.stanzas(conf, inherit) {
            let entries: Vec<Value> =
                stanza.settings().iter().map(|(key, value)| json!([key, value.value, &*value.origin.path])).collect();
            stanzas.push(json!({ "name": stanza.name, "entries": entries }));
        }
    }
    Value::Array(stanzas)
}

#[test]
fn every_case_gives_its_effective_configuration_in_any_order_of_files() {
    let cases = support::json_lines("conf-merge-cases.jsonl");
    assert_eq!(cases.len(), 12);
    for case in &cases {
        let mut files: Vec<&Value> = case["files"].as_array().unwrap().iter().collect();
        assert_eq!(merged(case, &files), case["expect"]["stanzas"], "{}", case["id"]);
        files.reverse();
        assert_eq!(merged(case, &files), case["expect"]["stanzas"], "{} backwards", case["id"]);
    }
}

fn effective(context: Context, files: &[(&str, &str)]) -> Vec<(String, String, String, u32)> {
    let mut exports = Exports::default();
    for (path, text) in files {
        exports.add_document(path, &Document::parse(text.as_bytes()).unwrap());
    }
    let mut merge = Merge::new(context, exports);
    for (path, text) in files {
        merge.add_document(path, &Document::parse(text.as_bytes()).unwrap());
    }
    let effective = merge.finish();
    let mut found = Vec::new();
    for conf in effective.confs() {
        for stanza in effective.stanzas(conf, Inherit::Default) {
            for (key, value) in stanza.settings() {
                let place = format!("{conf}:{}:{key}", stanza.name);
                found.push((place, value.value.clone(), value.origin.path.to_string(), value.origin.line));
            }
        }
    }
    found
}

#[test]
fn metadata_in_the_upload_decides_what_other_apps_export_object_by_object() {
    let files = [
        ("etc/apps/other/default/macros.conf", "[shown]\ndefinition = 1\n[hidden]\ndefinition = 2\n"),
        ("etc/apps/other/metadata/default.meta", "[]\nexport = none\n[macros/shown]\nexport = system\n"),
    ];
    let context = Context::App { app: "cur".to_owned(), user: None };
    let path = "etc/apps/other/default/macros.conf".to_owned();
    assert_eq!(effective(context, &files), [("macros:shown:definition".to_owned(), "1".to_owned(), path, 2)]);
}

#[test]
fn a_value_names_its_line_and_a_key_above_the_first_header_yields_to_default_below_it() {
    let files = [("default/props.conf", "x = 1\ny = 1\n[default]\nx = 2\n[s]\ny =\n")];
    let found = effective(Context::Global, &files);
    let short: Vec<_> = found.iter().map(|(place, value, _, line)| (place.as_str(), value.as_str(), *line)).collect();
    assert_eq!(
        short,
        [("props:default:x", "2", 4), ("props:default:y", "1", 2), ("props:s:x", "2", 4), ("props:s:y", "", 6)]
    );
}

#[test]
fn a_single_file_takes_part_and_a_file_elsewhere_does_not() {
    let files = [("props.conf", "[s]\nx = 1\n"), ("doc/props.conf", "[s]\nx = 2\n")];
    assert_eq!(effective(Context::Global, &files)[0].2, "props.conf");
    let app = Context::App { app: "a".to_owned(), user: Some("u".to_owned()) };
    assert_eq!(effective(app, &files)[0].2, "props.conf");
}

#[test]
fn equal_files_of_two_folders_give_the_same_result_in_any_order() {
    let mut files = [("v1/ta/default/props.conf", "[s]\nx = 1\n"), ("v2/ta/default/props.conf", "[s]\nx = 2\n")];
    let found = effective(Context::Global, &files);
    files.reverse();
    assert_eq!(effective(Context::Global, &files), found);
}

#[test]
fn a_stanza_without_settings_stays_and_a_dropped_one_can_come_back_above() {
    let files = [
        ("apps/a/default/inputs.conf", "[gone]\nx = 1\ny = 1\n[empty]\n"),
        ("apps/a/local/inputs.conf", "[gone]\n_stanza = <<DROP>>\n"),
        ("system/local/inputs.conf", "[gone]\ny = 2\n"),
    ];
    let mut merge = Merge::new(Context::Global, Exports::default());
    for (path, text) in files {
        merge.add_document(path, &Document::parse(text.as_bytes()).unwrap());
    }
    let effective = merge.finish();
    let stanzas: Vec<_> =
        effective.stanzas("inputs", Inherit::Nothing).map(|stanza| (stanza.name, stanza.settings().len())).collect();
    assert_eq!(stanzas, [("empty", 0), ("gone", 1)]);
}
