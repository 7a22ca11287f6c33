//! The doctor on what is as it should be: it finds nothing and leaves no trace.

use std::time::Duration;

use redrive_core::partition::ControlEvent;
use redrive_fixture::{Mount, TestDatabase};
use serde_json::{Value, json};

use crate::scene::{Sink, furnish, text, tree};
use crate::world::{HOUR, MigratedProgram, january};

fn says(report: &Value, check: &str) -> String {
    let all = report["checks"].as_array().unwrap();
    let found = all.iter().find(|finding| finding["check"] == check).unwrap();
    found["says"].as_str().unwrap().to_owned()
}

fn a_world_in_which_all_went_by_the_rules_is_sound(world: MigratedProgram) {
    furnish(&world, &Sink::files(&world));
    let report = world.json("doctor", 0);
    assert_eq!(report["breaches"], json!([]));
    assert_eq!(says(&report, "attempts"), "1 under way");
    assert_eq!(says(&report, "partitions"), "6 with 8 attempts, sound");
    let whole = says(&report, "raw data");
    assert!(whole.starts_with("2 current runs, 2 parts with ") && whole.ends_with("every hash right"), "{whole}");
    let quick = world.json("doctor --quick", 0);
    assert_eq!(says(&quick, "raw data"), "2 current runs, 2 parts there; they were not read (--quick)");
}

/// What an undone backfill leaves is nowhere by intention.
fn a_withdrawn_partition_is_sound(world: MigratedProgram) {
    let enqueue = "state backfill enqueue --source ads --customer-id 111 --query-name daily \
                   --since 2026-01-01 --until 2026-01-03 --yes";
    let report = world.json(enqueue, 0);
    let undo = format!("state undo {} --yes", report["op_id"].as_str().unwrap());
    world.json(&undo, 0);
    let standing = world.read(&january("111", 1)[0]);
    assert!(standing.control.is_empty(), "{standing:?}");
    world.json("doctor", 0);
}

/// A worker that died is told of, and is no damage: the next one ends its run.
fn a_lease_that_has_passed_is_a_note(world: MigratedProgram) {
    let days = furnish(&world, &Sink::files(&world));
    let past = world.ago(HOUR);
    past.put(&days[1..2], ControlEvent::Reprocess);
    // Day 4 was wanted in what is now the future; it is claimed with the other.
    assert_eq!(past.claim().len(), 2);
    let report = world.json("doctor", 0);
    assert_eq!(
        says(&report, "attempts"),
        "3 under way, 2 past their lease: a worker died, and the next worker ends them"
    );
    let now = world.ago(Duration::ZERO);
    let policy = |_: &redrive_core::run::Run| redrive_core::retry::RetryPolicy::partitions();
    let ended =
        world.runtime.block_on(now.store.data().expire(redrive_core::run::Workload::Extract, 10, policy)).unwrap();
    assert_eq!(ended.len(), 2);
    assert_eq!(says(&world.json("doctor", 0), "attempts"), "1 under way");
}

/// Everything that outlives a command, byte for byte; on PostgreSQL the tables' rows.
fn everything(world: &MigratedProgram) -> (std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>, String) {
    let rows = |table: &str| match &world.database.server {
        Some(database) => database.query(&format!("SELECT t::text FROM {table} t ORDER BY 1")),
        None => String::new(),
    };
    let tables = [
        "series",
        "partitions",
        "partition_control",
        "runs",
        "run_specs",
        "run_failures",
        "operations",
        "operation_changes",
    ];
    (tree(world.home.path()), tables.map(rows).join("\n"))
}

/// RP-1.4, RP-9.1
fn looking_changes_nothing(world: MigratedProgram) {
    furnish(&world, &Sink::files(&world));
    let before = everything(&world);
    assert!(before.0.len() > 8, "{:?}", before.0.keys());
    for line in ["doctor", "doctor --quick", "data ls", "data cat --all", "data ls --source nobody"] {
        world.run(line);
        let after = everything(&world);
        assert!(before.0.keys().eq(after.0.keys()), "{line} left {:?}", after.0.keys());
        assert!(before == after, "{line} changed something");
    }
}

/// A backup that is mounted read-only can be read and checked where it is; its name has what a URI would take for its own.
#[test]
fn what_cannot_be_written_can_be_looked_at() {
    let Some(mount) = Mount::of_size("8m") else { return };
    let folder = mount.path().join("100% of #1?");
    std::fs::create_dir(&folder).unwrap();
    let world = MigratedProgram::from(TestDatabase::sqlite_in(&folder));
    let days = furnish(&world, &Sink::files(&world));
    mount.remount("ro");
    world.json("doctor", 0);
    assert_eq!(world.run("data cat --all").done().stdout, text(&days[0], 1) + &text(&days[1], 1));
}

redrive_fixture::on_both!(
    a_world_in_which_all_went_by_the_rules_is_sound,
    a_withdrawn_partition_is_sound,
    a_lease_that_has_passed_is_a_note,
    looking_changes_nothing,
);
