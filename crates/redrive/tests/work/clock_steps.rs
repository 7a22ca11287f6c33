//! A wall clock that is set by an hour while leases run: no attempt is burnt, and no partition has two programs at once.

use std::time::Duration;

use redrive_fixture::{ForgedClock, Postgres, TestDatabase, skip, until_within};

use crate::home::TestProgram;
use crate::rig::TestProcesses;

/// A program makes a directory for its partition, which fails while another program has it.
const SETTINGS: &str = r#"
[worker]
concurrency = 6
lease = "8s"
heartbeat = "2s"
poll = "200ms"
[sources.slow.extract]
kind = "command"
command = ["/bin/sh", "-c", "mkdir at-$REDRIVE_LOGICAL_DATE || echo $REDRIVE_LOGICAL_DATE >> twice; sleep 5; rmdir at-$REDRIVE_LOGICAL_DATE; echo '{}'"]
"#;

const RUNNING: &str = "SELECT count(*) FROM runs WHERE state = 'running'";
const DONE: &str = "SELECT count(*) FROM partitions WHERE status = 'success' AND attempt_count = 1";

/// Two workers on one database, of which one sees its wall clock set; or, as on SQLite where both are on one host, both.
fn no_lease_is_burnt(subject: TestProgram, both: bool, seconds: i64) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let clock = match ForgedClock::new(rig.subject.database.path()) {
        Ok(clock) => clock,
        Err(why) => return skip(why),
    };
    rig.want("slow", "c", "q", "2026-01-18");
    let mut first = rig.spawn_as("worker", |command| clock.show_to(command));
    let mut second = rig.spawn_as("worker", |command| {
        if both {
            clock.show_to(command);
        }
    });
    until_within(Duration::from_secs(60), "both are at work", || rig.number(RUNNING) == 12);
    clock.set(seconds);
    until_within(Duration::from_secs(120), "all is done by one attempt each", || {
        assert_eq!(rig.number("SELECT count(*) FROM run_failures"), 0, "{}", rig.logs());
        rig.number(DONE) == 18
    });
    for worker in [&mut first, &mut second] {
        worker.signal("-TERM");
        assert_eq!(worker.code(), Some(0), "{}", rig.logs());
    }
    assert!(!rig.subject.home.files().iter().any(|file| file == "twice"), "two programs of one partition");
    assert_eq!(rig.number("SELECT count(*) FROM runs"), 18);
}

fn a_host_whose_clock_is_set_forward_takes_nothing(subject: TestProgram) {
    no_lease_is_burnt(subject, false, 3600);
}

fn a_host_whose_clock_is_set_back_takes_nothing(subject: TestProgram) {
    no_lease_is_burnt(subject, false, -3600);
}

fn hosts_whose_clocks_are_set_forward_lose_nothing(subject: TestProgram) {
    no_lease_is_burnt(subject, true, 3600);
}

fn hosts_whose_clocks_are_set_back_lose_nothing(subject: TestProgram) {
    no_lease_is_burnt(subject, true, -3600);
}

/// The server's own clock is set, and the workers notice it one after the other.
fn no_lease_is_burnt_by_the_server(seconds: i64) {
    let (server, clock) = match Postgres::start_with_clock() {
        Ok(started) => started,
        Err(why) => return skip(why),
    };
    let rig = TestProcesses::new(TestDatabase::of(server.fresh_database()).into(), SETTINGS);
    rig.want("slow", "c", "q", "2026-02-17");
    let mut workers = vec![rig.spawn("worker")];
    until_within(Duration::from_secs(60), "the first is at work", || rig.number(RUNNING) == 6);
    // So that it takes its samples at other moments.
    until_within(Duration::from_secs(60), "the first has done something", || rig.number(DONE) > 0);
    workers.push(rig.spawn("worker"));
    until_within(Duration::from_secs(60), "both are at work", || rig.number(RUNNING) == 12);
    clock.set(seconds);
    until_within(Duration::from_secs(180), "all is done by one attempt each", || {
        assert_eq!(rig.number("SELECT count(*) FROM run_failures"), 0, "{}", rig.logs());
        rig.number(DONE) == 48
    });
    for worker in &mut workers {
        worker.signal("-TERM");
        assert_eq!(worker.code(), Some(0), "{}", rig.logs());
        assert!(rig.log(worker).contains("the database server's clock was set"), "{}", rig.log(worker));
    }
    assert!(!rig.subject.home.files().iter().any(|file| file == "twice"), "two programs of one partition");
    assert_eq!(rig.number("SELECT count(*) FROM runs"), 48);
}

#[test]
fn a_server_whose_clock_is_set_forward_burns_no_lease() {
    no_lease_is_burnt_by_the_server(3600);
}

#[test]
fn a_server_whose_clock_is_set_back_burns_no_lease() {
    no_lease_is_burnt_by_the_server(-3600);
}

redrive_fixture::on_both!(
    a_host_whose_clock_is_set_forward_takes_nothing,
    a_host_whose_clock_is_set_back_takes_nothing,
    hosts_whose_clocks_are_set_forward_lose_nothing,
    hosts_whose_clocks_are_set_back_lose_nothing,
);
