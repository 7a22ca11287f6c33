//! A worker that is frozen past its lease and comes back: its result is refused, and its directory is never current.

use std::time::Duration;

use redrive_fixture::until_within;

use crate::home::TestProgram;
use crate::rig::TestProcesses;

// The heartbeat is long, so that the worker is not frozen in the middle of one, with SQLite's write lock in its hands.
const SETTINGS: &str = r#"
[worker]
concurrency = 1
lease = "1600ms"
heartbeat = "800ms"
poll = "100ms"
[sources.slow.extract]
kind = "sample"
records = 10
latency = "500ms"
seed = 3
[sources.slow.retry]
base = "100ms"
jitter = "0s"
"#;

/// RP-9.2, RP-9.3, RP-9.4
fn a_worker_that_was_frozen_past_its_lease_changes_nothing(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.want("slow", "c", "q", "2026-01-01");
    let mut frozen = rig.spawn("worker");
    let running = "SELECT count(*) FROM runs WHERE state = 'running'";
    until_within(Duration::from_secs(10), "it is at work", || rig.number(running) == 1);
    frozen.signal("-STOP");
    // Another worker ends the attempt once the lease has passed, and the retry succeeds.
    until_within(Duration::from_secs(20), "its attempt was ended", || {
        rig.redrive("worker --drain").done();
        rig.number("SELECT count(*) FROM run_failures WHERE error_message = 'lease expired'") == 1
    });
    until_within(Duration::from_secs(20), "the retry is a success", || {
        rig.redrive("daemon --once").done();
        rig.redrive("worker --drain").done();
        rig.number("SELECT count(*) FROM partitions WHERE status = 'success'") == 1
    });
    let current = "SELECT count(*) FROM partitions WHERE current_run_id = (SELECT run_id FROM runs WHERE attempt = 2)";
    assert_eq!(rig.number(current), 1);
    frozen.signal("-CONT");
    until_within(Duration::from_secs(10), "it has noticed", || {
        let log = rig.log(&frozen);
        log.contains("lease") && log.contains("lost=1") || log.contains("given up") || log.contains("was lost")
    });
    frozen.signal("-TERM");
    assert_eq!(frozen.code(), Some(0), "{}", rig.log(&frozen));
    assert_eq!(rig.number(current), 1, "the late worker has changed nothing");
    assert_eq!(rig.number("SELECT attempt_count FROM partitions"), 2);
    assert_eq!(rig.number("SELECT count(*) FROM runs WHERE verdict IS NOT NULL"), 2);
    rig.redrive("doctor").done();
}

redrive_fixture::on_both!(a_worker_that_was_frozen_past_its_lease_changes_nothing);
