//! The database's file is not where it was: workers and daemons stop and say so, commands refuse, and nothing is made in its place.

use std::fs;
use std::path::PathBuf;

use super::Struck;
use crate::random::Random;
use crate::table::Finding;
use crate::world::World;

const FILES: [&str; 3] = ["redrive.db", "redrive.db-wal", "redrive.db-shm"];

pub fn strike(world: &mut World, random: &mut Random) -> Struck {
    world.until_a_random_moment(random);
    let workloads = world.at_work();
    let places = |prefix: &str| FILES.map(|name| world.rig.subject.home.file(&format!("{prefix}{name}")));
    let (here, away) = (places(""), places("away-"));
    move_all(&here, &away);
    let (workers, daemons) = (world.workers.len(), world.daemons.len());
    let mut findings = Vec::new();
    for process in world.workers.iter_mut().chain(&mut world.daemons) {
        let code = process.code();
        if code != Some(6) {
            let what = format!("without its database, a process ended with {code:?}: {}", world.rig.log(process));
            findings.push(Finding::general(what));
        }
    }
    let mut command = world.spawn("state retry --source flaky --force");
    if command.code() != Some(6) || here.iter().any(|file| file.exists()) {
        findings.push(Finding::general("a database was made in the place of the one that is gone"));
    }
    move_all(&away, &here);
    world.workers.clear();
    world.daemons.clear();
    world.start(workers, daemons);
    world.until_ended(3);
    Struck { workloads, kills: 0, findings }
}

/// The two beside the database are not always there.
fn move_all(from: &[PathBuf; 3], to: &[PathBuf; 3]) {
    for (from, to) in from.iter().zip(to) {
        let _ = fs::rename(from, to);
    }
}
