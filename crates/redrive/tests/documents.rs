//! The documents speak of what there is: every file they name exists, and links lead somewhere.

use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 12] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/ARCHITECTURE.md",
    "docs/bench.md",
    "docs/commands.md",
    "docs/configuration.md",
    "docs/extractors.md",
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
