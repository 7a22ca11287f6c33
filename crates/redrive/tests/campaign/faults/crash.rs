//! The database crashes. PostgreSQL's processes are killed all at once, and the server recovers; workers and daemons stay. SQLite
//! has no process of its own: all processes that have the file open are killed.

use super::Struck;
use crate::random::Random;
use crate::world::World;

pub fn strike(world: &mut World, random: &mut Random) -> Struck {
    world.until_a_random_moment(random);
    let workloads = world.at_work();
    let Some(server) = &mut world.server else { return kill_all(world, workloads) };
    server.crash();
    server.restart();
    world.until_ended(3);
    Struck { workloads, kills: 0, findings: world.replace_the_dead() }
}

fn kill_all(world: &mut World, workloads: Vec<crate::workloads::Workload>) -> Struck {
    let (workers, daemons) = (world.workers.len(), world.daemons.len());
    for process in world.workers.iter_mut().chain(&mut world.daemons) {
        process.kill();
    }
    world.workers.clear();
    world.daemons.clear();
    world.start(workers, daemons);
    world.until_ended(3);
    Struck { workloads, kills: u64::try_from(workers + daemons).unwrap(), findings: Vec::new() }
}
