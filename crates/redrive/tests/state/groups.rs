//! `state groups`, and `--group` on the commands that take a filter: from a cause to all its partitions.

use std::collections::BTreeSet;

use redrive_core::failure::ErrorClass;
use redrive_core::partition::ControlEvent;
use redrive_fixture::rejected;
use serde_json::json;

use crate::world::{HOUR, MigratedProgram, count, january};

/// Five partitions of customer 111 with an expired token, three of 222 with a time-out.
fn furnish(world: &MigratedProgram) {
    let past = world.ago(HOUR);
    for day in january("111", 5) {
        let message = format!(
            "HTTP 401: token expired; request 7f3a2b1c-0000-4000-8000-1234567890{}",
            &day.logical_date.to_string()[8..]
        );
        past.judged(&[day], rejected(ErrorClass::Final, &message));
    }
    past.judged(&january("222", 3), rejected(ErrorClass::Retryable, "timed out after 30 s"));
}

/// OP-2
fn a_cause_is_one_group_and_one_command(world: MigratedProgram) {
    assert_eq!(world.run("state groups").code, 3);
    furnish(&world);
    let told = world.json("state groups", 0);
    let groups = told["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{told}");
    let (first, second) = (&groups[0], &groups[1]);
    assert_eq!((&first["count"], &first["final"], &first["waiting"]), (&json!(5), &json!(5), &json!(0)));
    assert_eq!((&first["sources"], &first["customers"]), (&json!(["ads"]), &json!(["111"])));
    assert_eq!((&second["count"], &second["waiting"], &second["exhausted"]), (&json!(3), &json!(3), &json!(0)));
    assert_eq!(second["template"], json!("timed out after <n>"));
    let keys: BTreeSet<&str> = first.as_object().unwrap().keys().map(String::as_str).collect();
    let documented = BTreeSet::from([
        "group",
        "count",
        "error_class",
        "template",
        "sample",
        "sources",
        "customers",
        "customer_count",
        "first_seen",
        "last_seen",
        "waiting",
        "final",
        "exhausted",
    ]);
    assert_eq!(keys, documented);

    let id = first["group"].as_str().unwrap();
    let begun = &id[..6];
    let inspected = world.json(&format!("state inspect --group {begun}"), 0);
    assert_eq!(count(&inspected, "partitions"), 5);
    assert_eq!(world.json("state groups --customer-id 222", 0)["groups"].as_array().unwrap().len(), 1);
    let told = world.json(&format!("state pause --group {begun} --logical-date 2026-01-01 --yes"), 0);
    assert_eq!(count(&told, "changed"), 1);
    let told = world.json(&format!("state retry --group {begun} --yes --reason mended"), 0);
    assert_eq!((count(&told, "changed"), count(&told, "skipped")), (4, 1), "{told}");
    let told = world.json("state groups", 0);
    assert_eq!((&told["groups"][1]["count"], &told["groups"][1]["final"]), (&json!(1), &json!(0)), "{told}");
    let told = world.json("state audit list", 0);
    assert!(told["operations"][0]["filters"].to_string().contains(id), "{told}");
}

/// OP-2
fn a_mark_splits_no_group(world: MigratedProgram) {
    furnish(&world);
    let past = world.ago(HOUR);
    past.put(&january("111", 2), ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 });
    let told = world.json("state groups", 0);
    assert_eq!(told["groups"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!((&told["groups"][0]["count"], &told["groups"][0]["final"]), (&json!(5), &json!(3)));
}

fn a_group_that_is_not_there_is_a_slip(world: MigratedProgram) {
    furnish(&world);
    assert!(world.run("state retry --group ffffffffffff").complaint(3).contains("there is no failure group"));
    assert!(world.run("state inspect --group xyz").complaint(2).contains("--group: failure group \"xyz\" is not"));
    assert!(world.run("data ls --group f").code != 0);
    let id = world.json("state groups", 0)["groups"][0]["group"].as_str().unwrap().to_owned();
    let told =
        world.run(&format!("state backfill enqueue --source ads --since 2026-01-01 --until 2026-01-02 --group {id}"));
    assert!(told.complaint(2).contains("leave --group out"));
    let told = world.run(&format!("data ls --group {id}"));
    assert!(told.complaint(2).contains("--group asks for what is no success"));
}

redrive_fixture::on_both!(
    a_cause_is_one_group_and_one_command,
    a_mark_splits_no_group,
    a_group_that_is_not_there_is_a_slip,
);
