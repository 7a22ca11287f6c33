//! The planes are kept apart, and verdicts come from one place: what the sources themselves show.

use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every source file below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The lines of code below a crate's `src` that hold one of the texts, as `file: line`.
fn using(name: &str, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in sources(&crates().join(name).join("src")) {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let hits = code.filter(|line| texts.iter().any(|text| line.contains(text)));
        found.extend(hits.map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    found
}

/// RP-1.3: verdicts need a handle that only the validator is given. An abandoned attempt is ended without one, by the
/// worker's sweep and nowhere else.
#[test]
fn only_the_sweep_ends_abandoned_attempts() {
    let calls = [".expire(", "::expire("];
    let crates = ["control", "data", "server", "redrive"];
    let ended: Vec<String> = crates.iter().flat_map(|name| using(name, &calls)).collect();
    assert!(!ended.is_empty(), "the search finds nothing");
    assert!(ended.iter().all(|line| line.contains("data/src/worker/sweep.rs")), "{ended:#?}");
}

/// RP-7.1
#[test]
fn neither_plane_knows_the_other() {
    for (plane, other) in [("control", "redrive-data"), ("data", "redrive-control")] {
        let manifest =
            std::fs::read_to_string(crates().join(plane).join("Cargo.toml")).expect("a crate has a manifest");
        assert!(manifest.contains("redrive-store"), "{plane} stands on the store");
        assert!(!manifest.contains(other), "{plane} must not depend on {other}");
    }
}
