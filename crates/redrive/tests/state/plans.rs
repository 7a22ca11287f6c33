//! Plans that are applied to what they saw, and operations that are undone where nothing happened since.

use redrive_core::partition::{ControlEvent, Judgement, PartitionState};
use redrive_fixture::{boom, until};
use serde_json::json;

use crate::world::{HOUR, MigratedProgram, count, ended, january, reasons};

const SAVE: &str = "state retry --source ads --dry-run --save-plan plan.json";

fn op(report: &serde_json::Value) -> String {
    report["op_id"].as_str().unwrap().to_owned()
}

/// CP-4.2, CP-5.3
fn a_plan_leaves_out_what_changed_since(world: MigratedProgram) {
    let days = january("111", 4);
    world.ago(HOUR).judged(&days, boom());
    assert_eq!(count(&world.json(SAVE, 0), "changed"), 4);
    world.json("state pause --source ads --logical-date 2026-01-02", 0);
    world.json("state resume --source ads --logical-date 2026-01-02", 0);
    world.ago(HOUR).judged(&january("late", 1), boom());
    assert_eq!(world.run("state apply plan.json").complaint(5).matches("4 partitions").count(), 1);
    let told = world.json("state apply plan.json --yes", 4);
    assert_eq!((count(&told, "changed"), reasons(&told)), (3, vec!["changed_since_plan"]));
    assert_eq!((world.status(&days[1]), world.status(&january("late", 1)[0])), ("failed", "failed"));
    let again = world.json("state apply plan.json --yes", 4);
    assert_eq!((count(&again, "changed"), reasons(&again)), (0, vec!["changed_since_plan"; 4]));
    world.whole();
}

/// SV-5: a plan that the database keeps is applied by its id, once, and leaves out what changed since.
fn a_kept_plan_is_applied_by_its_id(world: MigratedProgram) {
    let days = january("111", 4);
    world.ago(HOUR).judged(&days, boom());
    let told = world.run("state retry --source ads --dry-run --keep-plan --reason mended -o json").done();
    assert_eq!(count(&told.json(), "changed"), 4);
    let id = told.stderr.split_whitespace().last().unwrap().to_owned();
    assert!(told.stderr.contains(&format!("plan {id} is kept until")), "{told}");
    assert_eq!(world.operations(), 0, "the trail hears of no dry run");
    world.json("state pause --source ads --logical-date 2026-01-02", 0);
    assert_eq!(count(&world.json(&format!("state apply {id} --dry-run"), 4), "changed"), 3);
    assert_eq!(world.run(&format!("state apply {id}")).complaint(5).matches("4 partitions").count(), 1);
    let told = world.json(&format!("state apply {} --yes", &id[..23]), 4);
    assert_eq!((count(&told, "changed"), reasons(&told)), (3, vec!["changed_since_plan"]));
    assert_eq!((world.status(&days[0]), world.status(&days[1])), ("pending", "failed"));
    let shown = world.json(&format!("state audit show {}", op(&told)), 0);
    assert_eq!((&shown["reason"], count(&shown, "changes")), (&json!("mended"), 3));
    assert!(world.run(&format!("state apply {id} --yes")).complaint(4).contains(&op(&told)));
    let undone = world.json(&format!("state undo {} --yes", op(&told)), 0);
    assert_eq!(count(&undone, "changed"), 3);
    let absent = "019a0000-0000-7000-8000-000000000000";
    assert!(world.run(&format!("state apply {absent}")).complaint(3).contains(absent));
    world.whole();
}

/// CP-5.4: why it is done was said when the plan was made.
fn a_plan_keeps_its_reason(world: MigratedProgram) {
    let world = world.configured("[sources.ads]\nterminal_after = 1\n");
    let days = january("111", 1);
    world.ago(HOUR).judged(&days, boom());
    world.json("state mark-terminal --source ads --reason hopeless --dry-run --save-plan plan.json", 0);
    world.json("state apply plan.json", 0);
    assert_eq!(world.read(&days[0]).control.terminal.unwrap().why.as_deref(), Some("hopeless"));
}

/// CP-5.5
fn a_file_that_is_no_plan_is_refused(world: MigratedProgram) {
    assert!(world.run("state apply nowhere.json").complaint(2).contains("nowhere.json"));
    world.home.write("bad.json", "{}");
    assert!(world.run("state apply bad.json").complaint(2).contains("not a plan"));
    assert_eq!(world.run("state retry --source ads --save-plan plan.json").code, 2, "a plan comes of a dry run");
    world.ago(HOUR).judged(&january("111", 1), boom());
    world.json(SAVE, 0);
    let later = world.home.read("plan.json").replace("\"format\": 1", "\"format\": 2");
    world.home.write("plan.json", &later);
    assert!(world.run("state apply plan.json").complaint(2).contains("format 2"));
}

/// RP-8.5, CP-5.4
fn an_undo_puts_back_only_what_nothing_touched(world: MigratedProgram) {
    let days = january("111", 3);
    world.ago(HOUR).judged(&days, boom());
    let before = world.read(&days[0]);
    let done = op(&world.json("state retry --source ads --yes", 0));
    world.json("state pause --source ads --logical-date 2026-01-03", 0);
    let told = world.json(&format!("state undo {done} --yes"), 4);
    assert_eq!((&told["operation"], count(&told, "changed")), (&json!("undo"), 2));
    assert_eq!(reasons(&told), ["changed_since_plan"]);
    let after = world.read(&days[0]);
    assert_eq!((after.state.status, after.state.updated_at), (before.state.status, before.state.updated_at));
    assert_eq!(after.control, before.control);
    let twice = world.json(&format!("state undo {done} --yes"), 4);
    assert_eq!((count(&twice, "changed"), reasons(&twice)), (0, vec!["changed_since_plan"; 3]));
    let redo = world.json(&format!("state undo {} --yes", op(&told)), 0);
    assert_eq!((count(&redo, "changed"), world.status(&days[0])), (2, "pending"));
    world.whole();
}

/// CP-7.2: nothing is deleted; what was made leaves the queue.
fn an_undone_backfill_is_withdrawn(world: MigratedProgram) {
    let line = "state backfill enqueue --source ads --customer-id 111 --query-name daily --since 2026-01-01 \
                --until 2026-01-03 --yes";
    let made = op(&world.json(line, 0));
    assert_eq!(count(&world.json(&format!("state undo {made} --dry-run"), 0), "changed"), 3);
    assert_eq!(world.operations(), 1);
    assert_eq!(count(&world.json(&format!("state undo {made} --yes"), 0), "changed"), 3);
    assert_eq!(world.number("SELECT count(*) FROM partitions"), 3);
    assert!(world.ago(HOUR).claim().is_empty(), "nobody works on it");
    let told = world.json("state retry --source ads --yes --stale --allow-missing-raw", 0);
    assert_eq!(count(&told, "changed"), 3);
    world.whole();
}

/// RP-9.4
fn an_undo_leaves_alone_what_is_at_work(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 1), boom());
    let done = op(&world.json("state retry --source ads", 0));
    assert_eq!(world.ago(HOUR).claim().len(), 1);
    assert_eq!(reasons(&world.json(&format!("state undo {done}"), 4)), ["in_flight"]);
}

/// RP-8.5, CP-7.3: whatever was done, its undo leaves nothing behind but the trail.
fn every_kind_of_operation_can_be_undone(world: MigratedProgram) {
    let world = world.configured("[sources.ads]\nterminal_after = 1\n");
    let days = january("111", 3);
    let past = world.ago(HOUR);
    let hint = redrive_store::clock::Clock::now(&past.clock).saturating_add(2 * HOUR);
    let (class, message) = (redrive_core::failure::ErrorClass::RateLimited, "429".to_owned());
    past.judged(&days[..1], Judgement::Rejected { class, message, not_before: Some(hint) });
    past.judged(&days[1..2], Judgement::Accepted { records: 7 });
    past.judged(&days[2..], boom());
    past.put(&days[2..], ControlEvent::MarkTerminal { by: "ada", why: Some("hopeless"), threshold: 1 });
    let all = || {
        let read = days.iter().map(|key| world.read(key));
        read.map(|partition| (PartitionState { version: 0, ..partition.state }, partition.control)).collect::<Vec<_>>()
    };
    let before = all();
    let backfill = "backfill enqueue --source ads --customer-id 111 --query-name daily --since 2026-01-01 \
                    --until 2026-01-02 --force-pending";
    for (line, changes) in [
        ("retry --source ads --clear-terminal", 2),
        ("retry --source ads --logical-date 2026-01-01", 1),
        ("reprocess --source ads", 1),
        ("mark-terminal --source ads", 1),
        ("clear-terminal --source ads", 1),
        ("pause --source ads", 3),
        (backfill, 2),
    ] {
        let told = world.json(&format!("state {line} --yes"), 0);
        assert_eq!(count(&told, "changed"), changes, "{line}: {told}");
        assert_ne!(all(), before, "{line}");
        let undone = world.json(&format!("state undo {} --yes", op(&told)), 0);
        assert_eq!(count(&undone, "changed"), changes, "{line}: {undone}");
        assert_eq!(all(), before, "{line}");
    }
    world.whole();
}

fn an_operation_must_be_named_rightly(world: MigratedProgram) {
    let absent = "019a0000-0000-7000-8000-000000000000";
    for verb in ["undo", "audit show"] {
        assert!(world.run(&format!("state {verb} {absent}")).complaint(3).contains(absent));
        assert!(world.run(&format!("state {verb} nonsense")).complaint(2).contains("nonsense"));
    }
}

redrive_fixture::on_both!(
    a_plan_leaves_out_what_changed_since,
    a_kept_plan_is_applied_by_its_id,
    a_plan_keeps_its_reason,
    a_file_that_is_no_plan_is_refused,
    an_undo_puts_back_only_what_nothing_touched,
    an_undone_backfill_is_withdrawn,
    an_undo_leaves_alone_what_is_at_work,
    every_kind_of_operation_can_be_undone,
    an_operation_must_be_named_rightly,
);

/// CP-4.2, CP-5.3: the partition changes after `apply` has read it and before `apply` writes it.
#[test]
fn a_plan_leaves_out_what_changes_while_it_is_applied() {
    let world = MigratedProgram::postgres();
    let days = january("111", 1);
    world.ago(HOUR).judged(&days, boom());
    world.json(SAVE, 0);
    let url = world.database.server.as_ref().unwrap().url.clone();
    let child = world.runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("BEGIN; UPDATE partitions SET version = version + 1, error_message = 'other'")
            .await
            .unwrap();
        let child = world.spawn("state apply plan.json -o json");
        until("the apply waits for the row", || {
            let waiting =
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            world.number(waiting) > 0
        });
        client.batch_execute("COMMIT").await.unwrap();
        child
    });
    let told = ended(child);
    assert_eq!((told.code, world.status(&days[0])), (4, "failed"), "{told}");
    assert_eq!(reasons(&told.json()), ["changed_since_plan"]);
}
