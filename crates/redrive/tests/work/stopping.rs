//! A worker that is told to stop ends in order: what it cannot finish it gives back, and no attempt is burnt.

use std::time::Duration;

use redrive_fixture::until_within;

use crate::home::TestProgram;
use crate::rig::TestProcesses;

fn settings(latency: &str, grace: &str) -> String {
    format!(
        r#"
[worker]
concurrency = 4
poll = "100ms"
grace = "{grace}"
[sources.slow.extract]
kind = "sample"
records = 10
latency = "{latency}"
"#
    )
}

const RUNNING: &str = "SELECT count(*) FROM runs WHERE state = 'running'";

fn what_cannot_be_finished_is_given_back(subject: TestProgram) {
    let rig = TestProcesses::new(subject, &settings("1h", "100ms"));
    rig.want("slow", "c", "q", "2026-01-10");
    for signal in ["-TERM", "-INT"] {
        let mut worker = rig.spawn("worker");
        until_within(Duration::from_secs(10), "it is at work", || rig.number(RUNNING) == 4);
        worker.signal(signal);
        assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
        assert_eq!(rig.number(RUNNING), 0, "{signal}");
        assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), 0, "no attempt is burnt");
        let free = "SELECT count(*) FROM partition_control WHERE lane IS NOT NULL AND active_run_id IS NULL";
        assert_eq!(rig.number(free), 10, "all can be claimed again");
    }
    rig.redrive("doctor").done();
}

fn a_second_signal_does_not_wait_for_the_grace(subject: TestProgram) {
    let rig = TestProcesses::new(subject, &settings("1h", "1h"));
    rig.want("slow", "c", "q", "2026-01-02");
    let mut worker = rig.spawn("worker");
    until_within(Duration::from_secs(10), "it is at work", || rig.number(RUNNING) == 2);
    worker.signal("-TERM");
    until_within(Duration::from_secs(10), "it has heard", || rig.log(&worker).contains("asked to stop"));
    assert!(worker.child.try_wait().unwrap().is_none(), "it waits for its work");
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    assert_eq!(rig.number(RUNNING), 0);
}

fn work_that_ends_within_the_grace_is_finished(subject: TestProgram) {
    let rig = TestProcesses::new(subject, &settings("300ms", "1m"));
    rig.want("slow", "c", "q", "2026-01-04");
    let mut worker = rig.spawn("worker");
    until_within(Duration::from_secs(10), "it is at work", || rig.number("SELECT count(*) FROM runs") == 4);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    assert_eq!(rig.number("SELECT count(*) FROM partitions WHERE status = 'success'"), 4);
}

/// Programs that do not heed a polite signal are gone before the worker is, and before their partition is given back.
fn no_program_outlives_its_worker(subject: TestProgram) {
    let settings = r#"
[worker]
grace = "100ms"
[sources.stubborn.extract]
kind = "command"
command = ["/bin/sh", "-c", "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done"]
"#;
    let rig = TestProcesses::new(subject, settings);
    rig.want("stubborn", "c", "q", "2026-01-03");
    let mut worker = rig.spawn("worker");
    let pids = || std::fs::read_to_string(rig.subject.home.file("pids")).unwrap_or_default();
    until_within(Duration::from_secs(20), "they are at work", || pids().lines().count() == 3);
    worker.signal("-TERM");
    until_within(Duration::from_secs(30), "all is given back", || rig.number(RUNNING) == 0);
    for pid in pids().lines() {
        let there = std::process::Command::new("kill").args(["-0", pid]).stderr(std::process::Stdio::null()).status();
        assert!(!there.unwrap().success(), "{pid} is still there");
    }
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), 0);
}

/// `worker --drain && publish` must not publish.
fn a_drain_that_is_stopped_says_so(subject: TestProgram) {
    let rig = TestProcesses::new(subject, &settings("1h", "100ms"));
    rig.want("slow", "c", "q", "2026-01-02");
    let mut worker = rig.spawn("worker --drain");
    until_within(Duration::from_secs(10), "it is at work", || rig.number(RUNNING) == 2);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(130), "{}", rig.log(&worker));
}

fn a_draining_worker_ends_when_nothing_is_due(subject: TestProgram) {
    let rig = TestProcesses::new(subject, &settings("1ms", "1m"));
    rig.want("slow", "c", "q", "2026-01-31");
    let told = rig.redrive("worker --drain").done();
    assert_eq!(told.stdout, "31 attempts: 31 accepted with 310 records, 0 rejected, 0 given back, 0 lost\n");
    assert_eq!(rig.redrive("worker --drain -o json").done().json()["claimed"], 0);
}

/// The lease of a dead worker fills the source's limit; whoever drains waits until it has run out.
fn a_draining_worker_outstays_a_dead_ones_lease(subject: TestProgram) {
    let settings = r#"
[worker]
lease = "1500ms"
heartbeat = "300ms"
poll = "100ms"
[sources.one]
max_in_flight = 1
[sources.one.extract]
kind = "command"
command = ["/bin/sh", "-c", "test -e go || exec sleep 600; echo '{}'"]
"#;
    let rig = TestProcesses::new(subject, settings);
    rig.want("one", "c", "q", "2026-01-03");
    let mut dead = rig.spawn("worker");
    until_within(Duration::from_secs(20), "it is at work", || rig.number(RUNNING) == 1);
    dead.kill();
    rig.subject.home.write("go", "");
    let told = rig.redrive("worker --drain").done();
    let summary = "2 attempts: 2 accepted with 2 records, 0 rejected, 0 given back, 0 lost; 1 of workers that fell \
                   silent ended as `lease expired`\n";
    assert_eq!(told.stdout, summary);
    let key = "one/c/q/2026-01-01";
    assert!(told.stderr.lines().any(|line| line.contains("lease expired") && line.contains(key)), "{told}");
}

redrive_fixture::on_both!(
    a_draining_worker_outstays_a_dead_ones_lease,
    no_program_outlives_its_worker,
    a_drain_that_is_stopped_says_so,
    what_cannot_be_finished_is_given_back,
    a_second_signal_does_not_wait_for_the_grace,
    work_that_ends_within_the_grace_is_finished,
    a_draining_worker_ends_when_nothing_is_due,
);
