//! The wall clock is set by an hour while leases run: no lease is burnt, and no work is done twice at once. On SQLite all processes
//! are on one host and see it; on PostgreSQL one host does.

use redrive_fixture::ForgedClock;

use super::Struck;
use crate::random::Random;
use crate::table::Finding;
use crate::world::{Kind, World};

const HOUR: i64 = 3600;
const BURNT: &str = "SELECT count(*) FROM run_failures WHERE error_message = 'lease expired'";

pub fn strike(world: &mut World, random: &mut Random) -> Struck {
    let begun = begin(world);
    world.until_a_random_moment(random);
    let (workloads, burnt) = (world.at_work(), world.reader.number(BURNT));
    // Another than it is now: a step forward or back, of one hour or of two.
    world.clock_at =
        (world.clock_at + HOUR + HOUR * i64::try_from(random.below(2)).unwrap() + HOUR) % (3 * HOUR) - HOUR;
    world.clock.as_ref().expect("it was begun").set(world.clock_at);
    world.until_ended(25);
    let mut findings = [begun, world.replace_the_dead()].concat();
    let more = world.reader.number(BURNT) - burnt;
    if more > 0 {
        findings.push(Finding::general(format!("{more} leases were burnt when the clock was set")));
    }
    Struck { workloads, kills: 0, findings }
}

/// From now on processes see a clock that can be set.
fn begin(world: &mut World) -> Vec<Finding> {
    if world.clock.is_some() {
        return Vec::new();
    }
    world.clock = Some(ForgedClock::new(world.rig.subject.home.path()).unwrap());
    world.is_time_steady = false;
    let (workers, daemons) = (world.workers.len(), world.daemons.len());
    match world.kind {
        Kind::Sqlite => {
            let findings = world.stop();
            world.start(workers, daemons);
            findings
        }
        Kind::Postgres => {
            let last = workers - 1;
            world.workers[last].signal("-TERM");
            let code = world.workers[last].code();
            world.workers[last] = world.worker(last);
            let findings = (code != Some(0)).then(|| Finding::general(format!("told to stop, it ended with {code:?}")));
            findings.into_iter().collect()
        }
    }
}

/// The highest that was ever seen, so that nothing waits for an hour that is still to come.
pub fn end(world: &mut World) {
    if let Some(clock) = &world.clock {
        clock.set(HOUR);
    }
}
