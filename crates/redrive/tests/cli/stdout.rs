//! Stdout that cannot be written: half of an answer does not pass for the whole.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::home::{Home, Told};

const COMMANDS: [&[&str]; 9] = [
    &["doctor"],
    &["doctor", "-o", "csv"],
    &["migrate"],
    &["completions", "bash"],
    &["state", "inspect", "--source", "ads"],
    &["state", "inspect", "--source", "ads", "-o", "jsonl"],
    &["state", "audit", "list"],
    &["state", "audit", "verify", "-o", "json"],
    &["state", "pause", "--source", "ads", "--dry-run"],
];

fn home() -> Home {
    let home = Home::new();
    home.run(&["init"]).done();
    let key = ["--source", "ads", "--customer-id", "1", "--query-name", "daily", "--logical-date", "2026-01-01"];
    home.run(&[&["state", "backfill", "enqueue"], key.as_slice()].concat()).done();
    home
}

fn told(home: &Home, command: &[&str], stdout: impl Into<Stdio>) -> Told {
    let child = home.command(command).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    Told::of(child.wait_with_output().unwrap())
}

#[test]
fn a_full_disk_is_told() {
    let home = home();
    for command in COMMANDS {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let line = told(&home, command, full).complaint(6);
        assert!(line.contains("cannot write to stdout: No space left"), "{command:?}: {line}");
    }
}

#[test]
fn a_reader_who_has_enough_is_no_error() {
    let home = home();
    for command in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let told = told(&home, command, writer).done();
        assert_eq!(told.stderr, "", "{command:?}");
    }
    // What came of the work is still said by the code.
    home.sqlite("redrive.db", "UPDATE operations SET actor = 'nobody'");
    for (command, code) in [(["doctor"].as_slice(), 1), (&["state", "inspect", "--source", "none"], 3)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(told(&home, command, writer).code, code, "{command:?}");
    }
}
