//! A command that changes something is killed on its way. Given again, it finishes what it had begun, and does nothing twice.

use std::time::{Duration, Instant};

use super::Struck;
use crate::random::Random;
use crate::workloads::Workload;
use crate::world::{World, enqueue, submit, upload};

pub fn strike(world: &mut World, random: &mut Random) -> Struck {
    world.keep_busy();
    let (workload, command, codes) = match random.below(5) {
        0 | 1 => (Workload::Extract, enqueue(&world.expected.range()), &[0][..]),
        // Some of what has failed may be past its attempts, which a person's word alone does not change.
        2 => {
            (Workload::Extract, "state retry --source flaky --allow-missing-raw --force -q".to_owned(), &[0, 3, 4][..])
        }
        3 => (Workload::Process, submit(&world.jobs_file()), &[0][..]),
        _ => (Workload::Ingest, upload(&world.archive_file()), &[0][..]),
    };
    let mut process = world.spawn(&command);
    let moment = Instant::now() + world.command_time.mul_f64(share(random));
    while let Some(left) = moment.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
    let was_running = process.child.try_wait().unwrap().is_none();
    process.kill();
    let begun = Instant::now();
    world.command(&command, codes);
    world.command_time = (world.command_time * 3 + begun.elapsed().min(Duration::from_secs(1))) / 4;
    let workloads = if was_running { vec![workload] } else { Vec::new() };
    Struck { workloads, kills: u64::from(was_running), findings: Vec::new() }
}

/// Anywhere between 0 and 1.
fn share(random: &mut Random) -> f64 {
    f64::from(u32::try_from(random.below(1000)).unwrap()) / 1000.0
}
