//! Those who watch over a worker's programs are killed, and the worker itself after them: no program is left.

use std::time::{Duration, Instant};

use super::Struck;
use crate::random::Random;
use crate::system::{Seen, children_called, kill, pids_with_argument};
use crate::table::Finding;
use crate::workloads::Workload;
use crate::world::World;

/// How long programs may take to be gone after their worker was killed.
const PATIENCE: Duration = Duration::from_secs(15);

pub fn strike(world: &mut World, random: &mut Random) -> Struck {
    world.until_a_random_moment(random);
    let workloads = world.at_work().into_iter().filter(|workload| *workload != Workload::Ingest).collect();
    let victim = random.index(world.workers.len());
    let worker = &mut world.workers[victim];
    // One of the two that cover each program; whoever is left must be enough.
    let watchers = match random.below(3) {
        0 => children_called(worker, "redrive-reaper"),
        1 => children_called(worker, "redrive-group"),
        _ => Vec::new(),
    };
    watchers.iter().for_each(|pid| kill(pid));
    worker.kill();
    world.workers[victim] = world.worker(victim);
    let kills = 1 + u64::try_from(watchers.len()).unwrap();
    let begun = Instant::now();
    let mut left = orphans(world);
    while !left.is_empty() && begun.elapsed() < PATIENCE {
        std::thread::park_timeout(Duration::from_millis(20));
        left = orphans(world);
    }
    left.iter().for_each(|pid| kill(pid));
    let findings = left.iter().map(|pid| Finding::general(format!("program {pid} has outlived its worker"))).collect();
    Struck { workloads, kills, findings }
}

/// Programs whose worker is gone.
fn orphans(world: &World) -> Vec<String> {
    let workers: Vec<String> = world.workers.iter().map(|worker| worker.child.id().to_string()).collect();
    let is_orphan = |pid: &String| Seen::of(pid).is_some_and(|seen| !workers.contains(&seen.parent));
    pids_with_argument(&world.mark).into_iter().filter(is_orphan).collect()
}
