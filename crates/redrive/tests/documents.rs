//! The documents speak of what there is: every file they name exists, the map names every file, and links lead somewhere.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 13] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/ARCHITECTURE.md",
    "docs/bench.md",
    "docs/commands.md",
    "docs/configuration.md",
    "docs/extractors.md",
    "docs/faults.md",
    "docs/jobs.md",
    "docs/operations.md",
    "docs/state-machine.md",
    "docs/traceability.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// What stands between `open` and `close` on one line.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    text.lines().flat_map(move |line| line.split(open).skip(1).filter_map(move |rest| Some(rest.split_once(close)?.0)))
}

#[test]
fn every_file_that_is_named_exists() {
    let mut named = 0;
    for document in DOCUMENTS {
        let text = read(document);
        for path in between(&text, "`crates/", '`') {
            let file = path.split("::").next().unwrap_or_default();
            assert!(root().join("crates").join(file).exists(), "{document} names crates/{file}, which does not exist");
            named += 1;
        }
    }
    assert!(named > 100, "only {named} files are named: the search finds nothing");
}

/// Every source file of a crate, by its path from the root.
fn sources_below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        let path = format!("{folder}/{}", name.to_str().unwrap());
        match entry.is_dir() {
            true => found.extend(sources_below(&path)),
            false if path.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
    found
}

/// A folder stands for all files below it, and its `mod.rs` for those beside it. What holds only declarations, or tests, need not be named.
#[test]
fn the_map_names_every_file() {
    let map = read("docs/ARCHITECTURE.md");
    let named: Vec<&str> = between(&map, "`crates/", '`').collect();
    let is_named = |path: &str| {
        let (folder, file) = path.rsplit_once('/').unwrap();
        let stands_for = |name: &&str| match name.strip_suffix("mod.rs") {
            Some(beside) => beside.trim_end_matches('/') == folder,
            None => *name == path || name.ends_with('/') && path.starts_with(*name),
        };
        ["lib.rs", "mod.rs", "tests.rs"].contains(&file) || named.iter().any(stands_for)
    };
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = crates.flat_map(|name| sources_below(&format!("crates/{name}/src"))).collect();
    let left_out: Vec<&String> =
        files.iter().filter(|path| !is_named(path.strip_prefix("crates/").unwrap_or(path))).collect();
    assert!(files.len() > 300, "only {} files were found", files.len());
    assert!(left_out.is_empty(), "docs/ARCHITECTURE.md does not name {left_out:#?}");
}

#[test]
fn every_link_leads_somewhere() {
    let mut followed = 0;
    for document in DOCUMENTS {
        let text = read(document);
        for target in between(&text, "](", ')').filter(|target| !target.contains("://")) {
            let base = Path::new(document).parent().unwrap_or(Path::new(""));
            assert!(root().join(base).join(target).exists(), "{document} links to {target}, which does not exist");
            followed += 1;
        }
    }
    assert!(followed > 5, "only {followed} links were found");
}

/// All Rust source below a folder, as one text.
fn source_below(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| match path.is_dir() {
        true => source_below(&path),
        false if path.extension().is_some_and(|extension| extension == "rs") => std::fs::read_to_string(path).unwrap(),
        false => String::new(),
    };
    entries.map(text).collect()
}

#[test]
fn every_test_that_the_page_of_faults_names_exists() {
    let (page, source) = (read("docs/faults.md"), source_below(&root().join("crates")));
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let tests = row.split('|').nth(3).unwrap_or_default();
        for test in tests.split('`').skip(1).step_by(2) {
            assert!(source.contains(&format!("fn {test}(")), "docs/faults.md names {test}, which does not exist");
            named += 1;
        }
    }
    assert!(named > 20, "only {named} tests are named");
}
