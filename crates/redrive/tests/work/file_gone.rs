//! A SQLite file that is deleted or replaced under a running worker and daemon: they notice, stop and say so, and leave the
//! other file alone.

use std::fs;
use std::time::Duration;

use redrive_fixture::{TestDatabase, until_within};

use crate::rig::{Process, TestProcesses};

const SETTINGS: &str = r#"
[worker]
concurrency = 2
poll = "100ms"
grace = "100ms"
[sources.slow.extract]
kind = "sample"
records = 10
latency = "1h"
"#;

fn at_work() -> (TestProcesses, [Process; 2]) {
    let rig = TestProcesses::new(TestDatabase::sqlite().into(), SETTINGS);
    rig.want("slow", "c", "q", "2026-01-01");
    let processes = [rig.spawn("worker"), rig.spawn("daemon --interval 100ms")];
    let running = "SELECT count(*) FROM runs WHERE state = 'running'";
    until_within(Duration::from_secs(20), "the worker is at work", || rig.number(running) == 1);
    until_within(Duration::from_secs(20), "the daemon has ticked", || rig.log(&processes[1]).contains(" tick "));
    (rig, processes)
}

/// Asserts that both have ended by themselves and say why.
fn assert_noticed(rig: &TestProcesses, processes: &mut [Process]) {
    for process in processes {
        assert_eq!(process.code(), Some(6), "{}", rig.log(process));
        assert!(rig.log(process).contains("redrive.db was deleted or replaced"), "{}", rig.log(process));
    }
}

#[test]
fn a_deleted_database_stops_worker_and_daemon() {
    let (rig, mut processes) = at_work();
    for name in ["redrive.db", "redrive.db-wal", "redrive.db-shm"] {
        fs::remove_file(rig.subject.home.file(name)).unwrap();
    }
    assert_noticed(&rig, &mut processes);
    assert!(!rig.subject.home.file("redrive.db").exists(), "nothing was made in its place");
    let told = rig.redrive("state retry --source slow --force");
    assert!(told.code == 6 && told.stderr.contains("makes it (`redrive migrate`)"), "{told}");
}

#[test]
fn a_replaced_database_stops_worker_and_daemon_and_is_left_alone() {
    let (rig, mut processes) = at_work();
    let home = &rig.subject.home;
    for name in ["redrive.db", "redrive.db-wal", "redrive.db-shm"] {
        fs::rename(home.file(name), home.file(&format!("old-{name}"))).unwrap();
    }
    // Another database takes its place, with changes that stand only in its log.
    let other = rusqlite::Connection::open(home.file("redrive.db")).unwrap();
    other
        .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('x')")
        .unwrap();
    let log = fs::read(home.file("redrive.db-wal")).unwrap();
    assert_noticed(&rig, &mut processes);
    assert!(fs::read(home.file("redrive.db-wal")).unwrap() == log, "the other file's log was touched");
    let tables: i64 = other.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}
