//! The sink's folder is not there for a while, as an unmounted volume; sometimes an empty one is in its place. Workers notice and
//! rest, nothing is written beside the sink, and no attempt is burnt.

use std::fs;
use std::time::{Duration, Instant};

use super::Struck;
use crate::random::Random;
use crate::table::Finding;
use crate::world::World;

const NOTICED: &str = "the raw sink is not at";
/// Workers look every five seconds, and after trouble.
const PATIENCE: Duration = Duration::from_secs(30);
/// Jobs have nothing in the sink.
const BLAMED: &str = "
    SELECT count(*)
    FROM run_failures f
    JOIN run_specs s ON s.run_id = f.run_id
    WHERE s.workload IN ('extract', 'ingest')
      AND (f.error_message LIKE '%raw sink%'
        OR f.error_message LIKE '%does not exist%'
        OR f.error_message LIKE '%is not there%'
        OR f.error_message LIKE '%manifest%')";

pub fn strike(world: &mut World, random: &mut Random) -> Struck {
    world.until_a_random_moment(random);
    let workloads = world.at_work();
    let (raw, away) = (world.rig.subject.home.file("raw"), world.rig.subject.home.file("away"));
    let notices = |world: &World| -> usize {
        world.workers.iter().map(|worker| world.rig.log(worker).matches(NOTICED).count()).sum()
    };
    let (before, is_empty) = (notices(world), random.below(2) == 0);
    fs::rename(&raw, &away).unwrap();
    if is_empty {
        fs::create_dir(&raw).unwrap();
    }
    let begun = Instant::now();
    while notices(world) == before && begun.elapsed() < PATIENCE {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let mut findings = Vec::new();
    if notices(world) == before {
        findings.push(Finding::general("no worker has noticed that the sink is gone"));
    }
    let beside = fs::read_dir(&raw).map_or(0, Iterator::count);
    if beside > 0 || (!is_empty && raw.exists()) {
        findings.push(Finding::general(format!("{beside} things were written beside the sink")));
        let _ = fs::remove_dir_all(&raw);
    }
    let _ = fs::remove_dir(&raw);
    fs::rename(&away, &raw).unwrap();
    world.until_ended(3);
    let blamed = world.reader.number(BLAMED);
    if blamed > 0 {
        findings.push(Finding::general(format!("{blamed} attempts were burnt because the sink was gone")));
    }
    Struck { workloads, kills: 0, findings: [findings, world.replace_the_dead()].concat() }
}
