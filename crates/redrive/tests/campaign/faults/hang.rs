//! The database does not answer: PostgreSQL's processes stand still, or another program keeps SQLite's write lock. Workers and daemons
//! that are told to stop meanwhile end in bounded time; the others go on when the database does.

use std::time::{Duration, Instant};

use super::Struck;
use crate::random::Random;
use crate::rig::Process;
use crate::table::Finding;
use crate::world::World;

/// The grace is 2 s; then a call has 2 s more, and giving back takes a few.
const WORKER_ENDS: Duration = Duration::from_secs(12);
const DAEMON_ENDS: Duration = Duration::from_secs(10);

pub fn strike(world: &mut World, random: &mut Random) -> Struck {
    world.until_a_random_moment(random);
    let workloads = world.at_work();
    let (worker, daemon) = (random.index(world.workers.len()), random.index(world.daemons.len()));
    let is_impatient = random.below(2) == 0;
    let server = world.server.take();
    let lock = server.is_none().then(|| locked(world));
    let frozen = server.as_ref().map(redrive_fixture::Postgres::freeze);
    let findings = stop(world, worker, daemon, is_impatient);
    drop(frozen);
    drop(lock);
    world.server = server;
    world.workers[worker] = world.worker(worker);
    world.daemons[daemon] = world.daemon();
    world.until_ended(3);
    Struck { workloads, kills: 0, findings: [findings, world.replace_the_dead()].concat() }
}

/// A session that holds the write lock.
fn locked(world: &World) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(world.rig.subject.home.file("redrive.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

fn stop(world: &mut World, worker: usize, daemon: usize, is_impatient: bool) -> Vec<Finding> {
    let World { workers, daemons, rig, .. } = world;
    let (worker, daemon) = (&mut workers[worker], &mut daemons[daemon]);
    worker.signal("-TERM");
    daemon.signal("-TERM");
    if is_impatient {
        worker.signal("-INT");
    }
    let begun = Instant::now();
    let mut findings = Vec::new();
    for (process, limit, what) in [(daemon, DAEMON_ENDS, "daemon"), (worker, WORKER_ENDS, "worker")] {
        if !ends(process, begun + limit) {
            let log = rig.log(process);
            findings.push(Finding::general(format!("a {what} that was told to stop is there after {limit:?}: {log}")));
            process.kill();
        }
    }
    findings
}

fn ends(process: &mut Process, by: Instant) -> bool {
    while process.child.try_wait().unwrap().is_none() {
        if Instant::now() > by {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    true
}
