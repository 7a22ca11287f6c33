//! Failure groups of runs, and what people do to many: retry, cancel, prune.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use serde_json::{Value, json};

use crate::jobs::SECTION;
use crate::world::{DAY, HOUR, MigratedProgram, count, reasons};

/// Only what is failed now counts, by cause and not by message.
fn groups_count_what_is_failed_now(world: MigratedProgram) {
    assert_eq!(world.run("runs groups").code, 3);
    let past = world.ago(2 * HOUR);
    past.submit_named(&["a", "a", "b", "b", "b"]);
    for (number, class) in [(17, ErrorClass::Final), (18, ErrorClass::Final)] {
        past.fail(1, class, &format!("replay {number} has no end; request 7f3a2b1c0000400080001234567890a{number}"));
    }
    past.fail(1, ErrorClass::Retryable, "upstream timed out after 30 s");
    past.fail(1, ErrorClass::Retryable, "upstream timed out after 31 s");
    past.complete(1);
    let told = world.json("runs groups", 0);
    let groups = told["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{told}");
    let by =
        |template: &str| groups.iter().find(|group| group["template"] == template).unwrap_or_else(|| panic!("{told}"));
    let first = by("replay <n> has no end; request <id>");
    assert_eq!((&first["count"], &first["final"], &first["waiting"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!((&first["categories"], &first["error_class"]), (&json!(["a"]), &json!("final")));
    let second = by("upstream timed out after <n>");
    assert_eq!(
        (&second["waiting"], &second["exhausted"], &second["categories"]),
        (&json!(2), &json!(0), &json!(["b"]))
    );
    assert!(second["sample"].as_str().unwrap().starts_with("upstream timed out after 3"), "{second}");
    let group = first["group"].as_str().unwrap();
    assert_eq!(world.json(&format!("runs list --group {group}"), 0)["runs"].as_array().unwrap().len(), 2);
    assert_eq!(world.json("runs groups --category b", 0)["groups"].as_array().unwrap().len(), 1);
    let told = world.json(&format!("runs retry --group {group} --yes"), 0);
    assert_eq!(count(&told, "changed"), 2, "{told}");
    assert_eq!(
        world.json("runs groups", 0)["groups"].as_array().unwrap().len(),
        1,
        "what is tried again is not failed now"
    );
    assert!(world.run("runs list --group nonsense").complaint(2).contains("is not twelve hexadecimal digits"));
}

fn a_retry_by_group_takes_those_that_wait_too(world: MigratedProgram) {
    let now = world.ago(Duration::ZERO);
    let ids = now.submit_named(&["a", "a"]);
    now.fail(2, ErrorClass::Retryable, "time-out");
    let groups = world.json("runs groups", 0);
    let group = groups["groups"][0]["group"].as_str().unwrap();
    let report = world.json(&format!("runs retry --group {group} --yes"), 0);
    let changed = |id: &String| json!({"run_id": id, "from": "waiting", "to": "queued"});
    assert_eq!(report["changed"], json!([changed(&ids[1]), changed(&ids[0])]), "the newest first");
    world.json("state undo last --yes", 0);
    assert_eq!(world.number("SELECT count(*) FROM runs WHERE state = 'waiting' AND next_retry_at IS NOT NULL"), 2);
    world.whole();
}

/// AR-5
fn a_retry_starts_a_fresh_count_and_is_undone(world: MigratedProgram) {
    let past = world.ago(2 * HOUR);
    let ids = past.submit_named(&["a", "a", "a"]);
    past.fail(2, ErrorClass::Final, "no such file");
    let told = world.json(&format!("runs retry {} --dry-run", ids[0]), 0);
    assert_eq!((&told["dry_run"], count(&told, "changed"), world.operations()), (&json!(true), 1, 0));
    let refused = world.run("runs retry --state dead").complaint(5);
    assert!(refused.contains("2 runs would change and there is no terminal to ask at"), "{refused}");
    // They were submitted a second apart.
    let told = world.run(&format!("runs retry {}", &ids[0][..13])).done();
    assert!(told.stdout.contains("changed  dead → queued"), "{told}");
    let report = world.json(&format!("runs retry {} {} {} -y --reason mended", ids[0], ids[1], ids[2]), 0);
    assert_eq!((&report["operation"], &report["matched"]), (&json!("retry"), &json!(3)));
    assert_eq!(report["changed"], json!([{"run_id": ids[1], "from": "dead", "to": "queued"}]));
    assert_eq!(reasons(&report), ["already_pending", "already_pending"]);
    let op = report["op_id"].as_str().unwrap();
    let shown = world.json(&format!("state audit show {op}"), 0);
    assert_eq!((&shown["reason"], count(&shown, "changes")), (&json!("mended"), 1));
    assert_eq!(shown["changes"][0]["run_id"], json!(ids[1]));
    assert_eq!(
        (&shown["changes"][0]["before"]["state"], &shown["changes"][0]["after"]["state"]),
        (&json!("dead"), &json!("queued"))
    );
    let undone = world.json(&format!("state undo {op}"), 0);
    assert_eq!(undone["changed"], json!([{"run_id": ids[1], "from": "queued", "to": "dead"}]));
    let shown = world.json(&format!("runs show {}", ids[1]), 0);
    assert_eq!((&shown["state"], &shown["error_message"]), (&json!("dead"), &json!("no such file")));
    let again = world.run(&format!("state undo {op}"));
    assert_eq!(again.code, 4, "{again}");
    assert!(again.stdout.contains("refused  changed_since_plan"), "{again}");
    world.whole();
    assert_eq!(world.run("runs retry ffffffff-ffff-7fff-8fff-ffffffffffff").code, 3);
    assert!(world.run("runs retry").complaint(2).contains("name runs by their ids, or by a filter"));
    assert!(world.run("runs retry --workload extract").complaint(2).contains("`redrive state retry`"));
}

fn many_runs_are_cancelled_behind_the_rails_and_by_plan(world: MigratedProgram) {
    let world = world.configured("[safety]\nconfirm_above = 5\nhard_limit = 30\n");
    world.home.write("jobs.jsonl", &"{\"category\":\"a\"}\n".repeat(40));
    world.run("runs submit --jsonl jobs.jsonl").done();
    let told = world.run("runs cancel --category a --yes").complaint(5);
    assert!(told.contains("cancel would change more than 30 runs, the hard limit"), "{told}");
    let told = world.json("runs cancel --category a --dry-run --save-plan plan.json", 0);
    assert_eq!((count(&told, "changed"), &told["matched"]), (40, &json!(40)));
    world.run("runs submit --category a").done();
    let now = world.ago(Duration::ZERO);
    now.complete(1);
    let told = world.json("state apply plan.json --force --reason spring", 4);
    assert_eq!((count(&told, "changed"), reasons(&told)), (39, vec!["changed_since_plan"]), "what came later stays");
    assert_eq!(world.number("SELECT count(*) FROM run_queue"), 1);
    let told = world.json("runs cancel --category a --state dead", 0);
    assert_eq!(reasons(&told)[..2], ["already_completed", "already_completed"]);
    let told = world.json("state audit list", 0);
    assert_eq!((&told["operations"][0]["changes"], &told["operations"][0]["reason"]), (&json!(39), &json!("spring")));
    let op = told["operations"][0]["op_id"].as_str().unwrap();
    let told = world.json(&format!("state undo {op} --force"), 0);
    assert_eq!(count(&told, "changed"), 39);
    assert_eq!(world.number("SELECT count(*) FROM run_queue"), 40);
    world.whole();
}

fn what_ended_long_ago_is_pruned_and_nothing_else(world: MigratedProgram) {
    let world = world.configured(SECTION);
    let past = world.ago(40 * DAY);
    past.submit_named(&["a", "a", "b", "c", "a"]);
    past.complete(3);
    world.run("runs submit --category a --external-id kept --submitted-at 2026-01-01T00:00:00Z").done();
    let named = world.ago(39 * DAY);
    // The oldest is the one that was named.
    named.complete(1);
    world.run("runs submit --category a --external-id kept").done();
    let told = world.json("runs prune --older-than 30d --dry-run", 0);
    assert_eq!((&told["pruned"], &told["op_id"], world.operations()), (&json!(3), &Value::Null, 0));
    assert_eq!(world.json("runs prune --older-than 30d --category b --reason tidy", 0)["pruned"], json!(1));
    let audit = world.json("state audit list", 0);
    assert_eq!((&audit["operations"][0]["reason"], &audit["operations"][0]["changes"]), (&json!("tidy"), &json!(0)));
    assert_eq!(world.json("daemon --once --dry-run", 0)["pruned"], json!(2));
    assert_eq!(world.json("daemon --once", 0)["pruned"], json!(2));
    assert_eq!(world.json("daemon --once", 0)["pruned"], json!(0));
    assert_eq!(world.number("SELECT count(*) FROM run_specs"), 3, "two are queued, and one is named still");
    assert_eq!(world.number("SELECT count(*) FROM run_ends"), 1);
    world.whole();
}

/// A tick forgets 25,000 of a section at most, so that what is due is looked at in between; the next one follows at once.
fn more_than_a_tick_forgets_is_forgotten_by_the_next(world: MigratedProgram) {
    const ALL: u32 = 25_100;
    let world = world.configured("[process.s]\ncategories = ['a']\nkeep = '1h'\n");
    let past = world.ago(DAY);
    past.submit_named(&vec!["a"; usize::try_from(ALL).unwrap()]);
    past.complete(ALL);
    assert_eq!(world.json("daemon --once", 0)["pruned"], json!(ALL));
    assert_eq!(world.number("SELECT count(*) FROM run_ends"), 0);
}

/// What is forgotten cannot be brought back: it is counted first, and asked for.
fn pruning_goes_behind_the_rails(world: MigratedProgram) {
    let world = world
        .configured("[safety]\nconfirm_above = 5\nhard_limit = 30\n[process.s]\ncategories = ['a']\nkeep = '1h'\n");
    let past = world.ago(DAY);
    past.submit_named(&["a"; 40]);
    past.complete(40);
    let told = world.run("runs prune --older-than 0s").complaint(5);
    assert!(told.contains("forget would change more than 30 jobs, the hard limit"), "{told}");
    let told = world.run("runs prune --older-than 0s --yes").complaint(5);
    assert!(told.contains("the hard limit"), "{told}");
    let past = world.ago(2 * DAY);
    past.submit_named(&["b"; 7]);
    past.complete(7);
    let told = world.run("runs prune --older-than 0s --category b").complaint(5);
    assert!(told.contains("7 jobs would change and there is no terminal to ask at; use --yes or --force"), "{told}");
    assert_eq!((world.number("SELECT count(*) FROM run_ends"), world.operations()), (47, 0));
    assert_eq!(world.json("runs prune --older-than 0s --category b --yes", 0)["pruned"], json!(7));
    let audit = world.json("state audit list", 0);
    let filters = audit["operations"][0]["filters"].to_string();
    assert!(filters.contains("counted") && filters.contains('7'), "{audit}");
    let told = world.run("daemon --once --dry-run").done();
    assert!(told.stdout.contains("would forget 40 jobs that are kept no longer"), "{told}");
    let told = world.run("daemon --once").done();
    assert!(told.stdout.contains("forgot 40 jobs that are kept no longer"), "{told}");
}

redrive_fixture::on_both!(
    groups_count_what_is_failed_now,
    a_retry_by_group_takes_those_that_wait_too,
    a_retry_starts_a_fresh_count_and_is_undone,
    many_runs_are_cancelled_behind_the_rails_and_by_plan,
    what_ended_long_ago_is_pruned_and_nothing_else,
    more_than_a_tick_forgets_is_forgotten_by_the_next,
    pruning_goes_behind_the_rails,
);
