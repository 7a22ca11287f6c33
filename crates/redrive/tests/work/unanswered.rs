//! A PostgreSQL that does not answer: frozen, behind another session's lock, or behind connections that hang. Workers, daemons
//! and commands hear signals meanwhile, end in bounded time, and go on over new connections.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use redrive_fixture::{Durability, Postgres, Proxy, TestDatabase, until_within};

use crate::home::{Home, TestProgram};
use crate::rig::{Process, TestProcesses};

const RUNNING: &str = "SELECT count(*) FROM runs WHERE state = 'running'";
const RETRY: &str = "state retry --source slow --force --allow-missing-raw";

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

/// The code it ends with, which must not take longer.
fn ends_within(seconds: u64, process: &mut Process, rig: &TestProcesses) -> Option<i32> {
    let (begun, mut ended) = (Instant::now(), None);
    until_within(Duration::from_secs(seconds), &format!("{} has ended", rig.log(process)), || {
        ended = process.child.try_wait().unwrap();
        ended.is_some()
    });
    println!("ended after {:?}", begun.elapsed());
    ended.and_then(|status| status.code())
}

/// Waits until a process has a connection to the server, which will not answer.
fn until_connected(process: &Process, port: u16) {
    let sockets = || -> Vec<String> {
        let links = std::fs::read_dir(format!("/proc/{}/fd", process.child.id())).into_iter().flatten().flatten();
        let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned));
        links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
    };
    let server = format!(":{port:04X}");
    until_within(Duration::from_secs(20), "it has a connection", || {
        let (own, table) = (sockets(), std::fs::read_to_string("/proc/net/tcp").unwrap());
        let mut connections = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        connections
            .any(|fields| fields.len() > 9 && fields[2].ends_with(&server) && own.iter().any(|it| it == fields[9]))
    });
}

#[test]
fn a_frozen_server_keeps_no_process_from_ending() {
    let postgres = Postgres::start(Durability::Fast);
    let rig = TestProcesses::new(TestDatabase::of(postgres.fresh_database()).into(), &settings("1h", "2s"));
    rig.want("slow", "c", "q", "2026-01-10");
    let mut patient = rig.spawn("worker");
    until_within(Duration::from_secs(20), "it is at work", || rig.number(RUNNING) == 4);
    let mut daemon = rig.spawn("daemon --interval 100ms");
    let mut hasty_daemon = rig.spawn("daemon --interval 100ms");
    for daemon in [&daemon, &hasty_daemon] {
        until_within(Duration::from_secs(20), "it has ticked", || rig.log(daemon).contains(" tick "));
    }
    let frozen = postgres.freeze();
    let mut change = rig.spawn(RETRY);
    let mut hasty_change = rig.spawn(RETRY);
    let mut look = rig.spawn("state inspect");
    for process in [&change, &hasty_change, &look] {
        until_connected(process, postgres.port());
    }

    look.signal("-INT");
    assert_eq!(ends_within(2, &mut look, &rig), Some(130), "there is nothing to put in order");
    patient.signal("-TERM");
    daemon.signal("-TERM");
    change.signal("-INT");
    for process in [&hasty_daemon, &hasty_change] {
        process.signal("-TERM");
        process.signal("-INT");
    }
    assert_eq!(ends_within(2, &mut hasty_daemon, &rig), Some(130));
    assert_eq!(ends_within(2, &mut hasty_change, &rig), Some(130));
    assert_eq!(ends_within(6, &mut change, &rig), Some(130), "{}", rig.log(&change));
    assert!(rig.log(&change).contains("nothing of it was changed"), "{}", rig.log(&change));
    assert_eq!(ends_within(8, &mut daemon, &rig), Some(0), "{}", rig.log(&daemon));
    assert_eq!(ends_within(10, &mut patient, &rig), Some(0), "{}", rig.log(&patient));
    drop(frozen);
    assert_eq!(rig.number(RUNNING), 4, "what could not be given back is left to its leases");
}

/// The second signal does not wait for the grace, whatever hangs.
#[test]
fn the_second_signal_ends_a_worker_on_a_frozen_server() {
    let postgres = Postgres::start(Durability::Fast);
    let rig = TestProcesses::new(TestDatabase::of(postgres.fresh_database()).into(), &settings("1h", "1h"));
    rig.want("slow", "c", "q", "2026-01-03");
    let mut worker = rig.spawn("worker");
    until_within(Duration::from_secs(20), "it is at work", || rig.number(RUNNING) == 3);
    let _frozen = postgres.freeze();
    worker.signal("-TERM");
    until_within(Duration::from_secs(5), "it has heard", || rig.log(&worker).contains("asked to stop"));
    worker.signal("-TERM");
    ends_within(8, &mut worker, &rig);
}

#[test]
fn another_sessions_lock_keeps_no_process_from_ending() {
    let rig = TestProcesses::new(TestProgram::postgres(), &settings("1ms", "2s"));
    rig.want("slow", "c", "q", "2026-01-10");
    let database = rig.subject.database.server.clone().unwrap();
    let held = database.hold("LOCK TABLE partitions, partition_control IN ACCESS EXCLUSIVE MODE");
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let (mut worker, mut daemon) = (rig.spawn("worker"), rig.spawn("daemon --interval 100ms"));
    let (mut change, mut refused) = (rig.spawn(RETRY), rig.spawn(RETRY));
    until_within(Duration::from_secs(20), "all are held up", || rig.number(waiting) >= 4);
    change.signal("-INT");
    assert_eq!(ends_within(5, &mut change, &rig), Some(130), "{}", rig.log(&change));
    worker.signal("-TERM");
    daemon.signal("-TERM");
    assert_eq!(ends_within(8, &mut daemon, &rig), Some(0), "{}", rig.log(&daemon));
    assert_eq!(ends_within(8, &mut worker, &rig), Some(0), "{}", rig.log(&worker));
    assert_eq!(ends_within(12, &mut refused, &rig), Some(6), "{}", rig.log(&refused));
    assert!(rig.log(&refused).contains("is busy: another process has held its lock"), "{}", rig.log(&refused));
    drop(held);
    assert_eq!(rig.number("SELECT count(*) FROM operations WHERE command LIKE '%retry%'"), 0, "nothing was changed");
}

/// How soon all goes on where new connections are served.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn work_goes_on_when_every_old_connection_hangs() {
    let database = TestDatabase::postgres();
    let proxy = Proxy::before(&database.server.as_ref().unwrap().url);
    let home = Home::at(database.path()).env("REDRIVE_STORE__URL", proxy.url());
    let subject = TestProgram { home, url: proxy.url().to_owned(), kind: "postgres", database };
    let rig = TestProcesses::new(subject, &settings("100ms", "2s"));
    rig.want("slow", "c", "q", "2026-01-04");
    let done = |count: i64| rig.number("SELECT count(*) FROM partitions WHERE status = 'success'") >= count;
    let (mut worker, mut daemon) = (rig.spawn("worker"), rig.spawn("daemon --interval 100ms"));
    let mut command = rig.subject.home.command(&["runs", "submit", "--jsonl", "-", "--category", "mail"]);
    let mut submit = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut jobs = submit.stdin.take().unwrap();
    until_within(Duration::from_secs(20), "they are at work", || done(4) && rig.log(&daemon).contains(" tick "));
    until_within(Duration::from_secs(20), "the command has connected", || proxy.connections() >= 6);
    proxy.swallow_present();
    let ticks = rig.log(&daemon).matches(" tick ").count();
    rig.want("slow", "c", "q2", "2026-01-04");
    writeln!(jobs, "{{\"external_id\":\"after\"}}").unwrap();
    drop(jobs);
    until_within(SOON, "the worker goes on", || done(8));
    until_within(SOON, "the daemon goes on", || rig.log(&daemon).matches(" tick ").count() > ticks + 2);
    until_within(SOON, "the command goes on", || submit.try_wait().unwrap().is_some_and(|status| status.success()));
    assert_eq!(rig.number("SELECT count(*) FROM runs WHERE external_id = 'after'"), 1);
    worker.signal("-TERM");
    daemon.signal("-TERM");
    assert_eq!(ends_within(8, &mut worker, &rig), Some(0), "{}", rig.log(&worker));
    assert_eq!(ends_within(8, &mut daemon, &rig), Some(0), "{}", rig.log(&daemon));
    assert_eq!(rig.number("SELECT max(attempt_count) FROM partitions"), 1, "no attempt is burnt");
    rig.redrive("doctor").done();
}
