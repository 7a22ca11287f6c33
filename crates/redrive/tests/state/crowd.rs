//! Daemons and people at the same partitions, with daemons dying at random: each partition is requeued once.

use std::process::Child;

use redrive_fixture::until;
use redrive_store::clock::{Clock, SystemClock};

use crate::world::{HOUR, MigratedProgram, ended};

const ALL: i64 = 5000;
const SEED: u64 = 0x5eed_2026;

fn daemon(world: &MigratedProgram) -> Child {
    let mut command = world.home.command(&["daemon", "--interval", "100ms"]);
    let nowhere = std::process::Stdio::null;
    command.stdin(nowhere()).stdout(nowhere()).stderr(nowhere()).spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// RD-6, RD-7, CP-6.2, CP-6.3, CP-4.2
fn each_partition_is_requeued_exactly_once(world: MigratedProgram) {
    world.failures(u32::try_from(ALL).unwrap(), SystemClock.now().saturating_sub(HOUR));
    let mut daemons = vec![daemon(&world), daemon(&world)];
    let people: Vec<Child> =
        (0..4).map(|_| world.spawn("state retry --source ads --force --allow-missing-raw -q")).collect();
    let people: Vec<_> = people.into_iter().map(|child| std::thread::spawn(move || ended(child))).collect();
    let (mut random, mut next) = (SEED, 0);
    until("all are pending", || {
        let done = world.number("SELECT count(*) FROM operation_changes");
        if done >= next {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unlucky = usize::from(random >> 63 == 1);
            let fresh = daemon(&world);
            end(std::mem::replace(&mut daemons[unlucky], fresh));
            next = done + i64::try_from(random >> 54).unwrap();
        }
        world.number("SELECT count(*) FROM partitions WHERE status = 'pending'") == ALL
    });
    for person in people {
        let told = person.join().unwrap();
        assert_eq!(told.code, 0, "{told}");
    }
    daemons.into_iter().for_each(end);
    assert_eq!(world.json("daemon --once", 0)["requeued"], 0);
    assert_eq!(world.number("SELECT count(*) FROM operation_changes"), ALL);
    let keys = "SELECT count(*) FROM (SELECT DISTINCT series_id, period FROM operation_changes) k";
    assert_eq!(world.number(keys), ALL);
    assert_eq!(world.number("SELECT count(*) FROM partitions WHERE attempt_count = 1 AND version = 2"), ALL);
    world.whole();
}

redrive_fixture::on_both!(each_partition_is_requeued_exactly_once);
