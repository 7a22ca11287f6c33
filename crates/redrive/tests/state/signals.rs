//! Signals to the daemon: asleep or at work, it ends in order.

use std::io::Read as _;
use std::process::Child;

use redrive_fixture::{boom, until};

use crate::world::{HOUR, MigratedProgram, january, signal};

/// The code it ends with, after a bounded wait; it is taken down if it does not end.
fn code(mut child: Child) -> Result<i32, String> {
    let started = std::time::Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().ok_or_else(|| format!("{status}"));
        }
        if started.elapsed().as_secs() >= 10 {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err("it did not end within 10 s".to_owned());
        }
        std::thread::yield_now();
    }
}

/// RD-1, RD-6
fn a_sleeping_daemon_ends_when_told_to(world: MigratedProgram) {
    let days = january("111", 3);
    world.ago(HOUR).judged_without_raw(&days, boom());
    for name in ["-TERM", "-INT"] {
        let mut child = world.spawn("daemon --interval 1h");
        let mut log = String::new();
        let mut stderr = child.stderr.take().unwrap();
        until("it has ticked", || {
            let mut piece = [0; 4096];
            let read = stderr.read(&mut piece).unwrap();
            log.push_str(&String::from_utf8_lossy(&piece[..read]));
            log.contains(" tick ")
        });
        signal(&child, name);
        assert_eq!(code(child), Ok(0), "{name}: {log}");
    }
    assert!(days.iter().all(|key| world.status(key) == "pending"));
}

redrive_fixture::on_both!(a_sleeping_daemon_ends_when_told_to);

/// RD-6: the signal comes while a tick is held up by a lock.
fn told_to_end_while_at_work(ticked_before: bool) -> Result<i32, String> {
    let world = MigratedProgram::postgres();
    let url = world.database.server.as_ref().unwrap().url.clone();
    let mut child = None;
    if ticked_before {
        let mut daemon = world.spawn("daemon --interval 100ms");
        let mut stderr = daemon.stderr.take().unwrap();
        let mut log = String::new();
        until("it has ticked twice", || {
            let mut piece = [0; 4096];
            let read = stderr.read(&mut piece).unwrap();
            log.push_str(&String::from_utf8_lossy(&piece[..read]));
            log.matches(" tick ").count() >= 2
        });
        std::thread::spawn(move || drop(stderr.read_to_end(&mut Vec::new())));
        child = Some(daemon);
    }
    world.runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("BEGIN; LOCK TABLE partitions IN ACCESS EXCLUSIVE MODE").await.unwrap();
        let child = child.unwrap_or_else(|| world.spawn("daemon --interval 100ms"));
        until("a tick is held up", || {
            let waiting =
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            world.number(waiting) > 0
        });
        signal(&child, "-TERM");
        // Only a process that has heard the signal, or has died of it, is let go on.
        until("the signal has arrived", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let pending = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0").trim();
                u64::from_str_radix(line, 16).unwrap() != 0
            };
            let dead = status.contains("State:\tZ");
            dead || !pending("ShdPnd:") && !pending("SigPnd:")
        });
        client.batch_execute("COMMIT").await.unwrap();
        code(child)
    })
}

#[test]
fn a_daemon_told_to_end_in_a_later_tick_ends_after_it() {
    assert_eq!(told_to_end_while_at_work(true), Ok(0));
}

#[test]
fn a_daemon_told_to_end_in_its_first_tick_ends_after_it() {
    assert_eq!(told_to_end_while_at_work(false), Ok(0));
}

/// RD-1: ticks without a pause between them would only heat the database.
#[test]
fn an_interval_of_nothing_is_refused() {
    let world = MigratedProgram::sqlite();
    assert_eq!(code(world.spawn("daemon --interval 0s")), Ok(2));
}

/// RD-6: whoever read the daemon's log may go away; the work goes on.
#[test]
fn a_daemon_outlives_the_reader_of_its_log() {
    let world = MigratedProgram::sqlite();
    let mut child = world.spawn("daemon --interval 100ms");
    let mut stderr = child.stderr.take().unwrap();
    assert!(stderr.read(&mut [0; 4096]).unwrap() > 0);
    drop(stderr);
    let days = january("111", 1);
    world.ago(HOUR).judged_without_raw(&days, boom());
    until("it is requeued", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the daemon is gone: {ended:?}");
        world.status(&days[0]) == "pending"
    });
    signal(&child, "-TERM");
    assert_eq!(code(child), Ok(0));
}
