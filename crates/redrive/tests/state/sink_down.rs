//! The raw sink cannot be opened: who only looks, withholds or wants is served, just then.

use redrive_fixture::boom;
use serde_json::json;

use crate::world::{HOUR, MigratedProgram, count, january};

/// Only a retry asks the sink anything.
fn only_a_retry_needs_the_sink(world: MigratedProgram) {
    let days = january("111", 3);
    world.ago(HOUR).judged_without_raw(&days, boom());
    world.home.write("raw", "a file where a directory should be");
    assert_eq!(count(&world.json("state inspect --source ads", 0), "partitions"), 3);
    let key = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-01";
    world.json(&format!("state explain {key}"), 0);
    assert_eq!(count(&world.json(&format!("state pause {key}"), 0), "changed"), 1);
    assert_eq!(count(&world.json(&format!("state resume {key}"), 0), "changed"), 1);
    let told = world.run(&format!("state retry {key}")).complaint(6);
    assert!(told.contains("a file stands where a directory should be"), "{told}");
    assert_eq!(world.status(&days[0]), "failed");
    assert_eq!(count(&world.json(&format!("state retry {key} --allow-missing-raw"), 0), "changed"), 1);
    assert_eq!(world.json("daemon --once", 0)["requeued"], json!(2));
}

redrive_fixture::on_both!(only_a_retry_needs_the_sink);
