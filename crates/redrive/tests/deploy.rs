//! What `deploy/` starts: every command is one that the program has, and systemd understands the units.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy(path)).unwrap_or_else(|error| panic!("deploy/{path}: {error}"))
}

const UNITS: [&str; 3] =
    ["systemd/redrive-worker.service", "systemd/redrive-daemon.service", "systemd/redrive-server.service"];

/// The arguments of what a unit, or a line `args: […]` or `command: […]` of YAML, starts.
fn commands() -> Vec<Vec<String>> {
    let words = |text: &str, by: &str| text.split(by).map(|word| word.trim().to_owned()).collect();
    let units = UNITS.iter().map(|unit| {
        let text = read(unit);
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/redrive ")).unwrap();
        words(line, " ")
    });
    let lists = ["docker/compose.yaml", "kubernetes/redrive.yaml"].into_iter().flat_map(|file| {
        let text = read(file);
        let lists = text.lines().filter_map(|line| {
            let (key, list) = line.trim().split_once(": [")?;
            (key == "args" || key == "command").then(|| words(list.trim_end_matches(']'), ","))
        });
        // The S3 server is another program.
        lists.filter(|list: &Vec<String>| list[0] != "server").collect::<Vec<_>>()
    });
    units.chain(lists).collect()
}

#[test]
fn every_command_that_is_started_exists() {
    let commands = commands();
    assert!(commands.len() >= 10, "{commands:?}");
    for arguments in commands {
        // Words that are unknown are complained of before the help is printed.
        let told = Command::new(env!("CARGO_BIN_EXE_redrive")).args(&arguments).arg("--help").output().unwrap();
        assert!(told.status.success(), "redrive {arguments:?}: {}", String::from_utf8_lossy(&told.stderr));
    }
}

#[test]
fn systemd_understands_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return redrive_fixture::skip("systemd-analyze is not in the PATH (Debian: systemd)");
    }
    let folder = tempfile::tempdir().unwrap();
    for unit in UNITS {
        // The program need not be installed where the unit expects it.
        let text = read(unit).replace("/usr/local/bin/redrive", env!("CARGO_BIN_EXE_redrive"));
        std::fs::write(folder.path().join(Path::new(unit).file_name().unwrap()), text).unwrap();
    }
    let units = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let told = Command::new("systemd-analyze").arg("verify").args(units).output().unwrap();
    let complaints = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() && !complaints.contains("redrive-"), "{complaints}");
}
