//! SIGKILL at a random moment; another process takes the place.

use super::Struck;
use crate::random::Random;
use crate::world::World;

pub fn worker(world: &mut World, random: &mut Random) -> Struck {
    world.until_a_random_moment(random);
    let workloads = world.at_work();
    let victim = random.index(world.workers.len());
    world.workers[victim].kill();
    world.workers[victim] = world.worker(victim);
    Struck { workloads, kills: 1, findings: Vec::new() }
}

/// A daemon acts on partitions, jobs and uploads alike: it retries, and forgets.
pub fn daemon(world: &mut World, random: &mut Random) -> Struck {
    world.until_a_random_moment(random);
    let workloads = world.at_work();
    let victim = random.index(world.daemons.len());
    world.daemons[victim].kill();
    world.daemons[victim] = world.daemon();
    Struck { workloads, kills: 1, findings: Vec::new() }
}
