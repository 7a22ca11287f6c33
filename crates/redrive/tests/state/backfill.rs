//! `state backfill enqueue`.

use redrive_core::partition::Judgement;
use redrive_fixture::boom;
use serde_json::json;

use crate::world::{HOUR, MigratedProgram, count, january, reasons};

const RANGE: &str =
    "state backfill enqueue --source ads --customer-id 111 --query-name daily --since 2026-01-01 --until 2026-01-05";

/// CP-2.2, CP-3b.1, RP-6.1, CP-7.2
fn what_is_not_there_is_wanted_and_what_is_there_is_kept(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 5);
    past.judged(&days[..1], Judgement::Accepted { records: 7 });
    past.judged(&days[1..2], boom());
    let before = world.read(&days[0]);
    let told = world.json(&format!("{RANGE} --dry-run"), 0);
    assert_eq!((count(&told, "changed"), reasons(&told)), (3, vec!["exists"; 2]));
    assert_eq!((world.operations(), world.number("SELECT count(*) FROM partitions")), (0, 2));
    let told = world.json(&format!("{RANGE} --yes"), 0);
    assert_eq!((&told["operation"], &told["matched"]), (&json!("backfill"), &json!(5)));
    assert_eq!((count(&told, "changed"), reasons(&told)), (3, vec!["exists"; 2]));
    assert_eq!((&told["changed"][0]["from"], &told["changed"][0]["to"]), (&json!(null), &json!("pending")));
    assert_eq!((world.read(&days[0]), world.status(&days[1])), (before, "failed"));
    assert_eq!(world.read(&days[4]).control.wanted.unwrap().lane.as_str(), "backfill");
    assert_eq!(reasons(&world.json(&format!("{RANGE} --yes"), 0)), ["exists"; 5]);
    world.whole();
}

/// CP-3b.1: the blunt tool.
fn force_pending_sets_finished_ones_to_pending(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 5);
    past.judged(&days[..1], Judgement::Accepted { records: 7 });
    past.judged(&days[1..2], boom());
    past.want(&days[2..3]);
    let before = world.read(&days[0]).state;
    let told = world.json(&format!("{RANGE} --yes --force-pending"), 0);
    assert_eq!((count(&told, "changed"), reasons(&told)), (4, vec!["already_pending"]));
    let after = world.read(&days[0]).state;
    assert_eq!((after.status.as_str(), after.current_run_id), ("pending", before.current_run_id));
    assert_eq!((after.record_count, after.attempt_count), (before.record_count, before.attempt_count));
    let trail = world.json("state audit list", 0);
    assert_eq!(trail["operations"][0]["flags"]["force_pending"], true);
    world.whole();
}

/// OP-11: a backfill has a plan as every change has, and what finished meanwhile is not in it.
fn a_forced_backfill_changes_what_its_plan_counted(world: MigratedProgram) {
    let days = january("111", 5);
    let past = world.ago(HOUR);
    past.judged(&days[..1], Judgement::Accepted { records: 7 });
    past.want(&days[1..2]);
    let told = world.json(&format!("{RANGE} --dry-run --force-pending --save-plan plan.json"), 0);
    assert_eq!((count(&told, "changed"), reasons(&told)), (4, vec!["already_pending"]));
    past.claim().iter().for_each(|run| past.judge(run, Judgement::Accepted { records: 7 }));
    let told = world.json("state apply plan.json --yes", 0);
    assert_eq!((&told["operation"], count(&told, "changed")), (&json!("backfill"), 4));
    assert_eq!((world.status(&days[0]), world.status(&days[1])), ("pending", "success"));
    world.whole();
}

/// CP-5.5
fn slips_are_refused(world: MigratedProgram) {
    for (line, why) in [
        (RANGE.replace("--source ads", ""), "needs --source"),
        (RANGE.replace("--until 2026-01-05", ""), "needs --since and --until"),
        (RANGE.replace("2026-01-05", "2999-01-05"), "is after"),
        (RANGE.replace("2026-01-01", "1900-01-01"), "is before"),
        (RANGE.replace("2026-01-05", "2025-01-05"), "upside down"),
        (
            RANGE.replace("--customer-id 111", ""),
            "give --customer-id: the configuration of source ads names no customers",
        ),
        (RANGE.replace("daily", "*"), "wildcard"),
    ] {
        let line = world.run(&format!("{line} --force")).complaint(2);
        assert!(line.contains(why), "{line}");
    }
    let line = world.run(RANGE).complaint(5);
    assert!(line.contains("no terminal to ask at"), "{line}");
    assert_eq!(world.number("SELECT count(*) FROM partitions"), 0);
}

/// CP-2.2: customers and queries come from the configuration.
fn a_source_knows_its_customers_and_queries(world: MigratedProgram) {
    let config = "[sources.ads]\ncustomers = [\"1\", \"2\"]\n[sources.ads.queries.a]\n[sources.ads.queries.b]\n";
    let world = world.configured(config);
    let line = "state backfill enqueue --source ads --since 2026-01-01 --until 2026-01-03 --yes";
    assert_eq!(count(&world.json(line, 0), "changed"), 12);
}

/// CP-3a.2, CP-5.3: a filter is never wider than what was written. A backfill that cannot heed `--status` must say so.
fn a_source_that_nobody_serves_is_pointed_out(world: MigratedProgram) {
    let line = "state backfill enqueue --source adds --customer-id 1 --query-name q --logical-date 2026-01-01";
    assert!(!world.run(line).stderr.contains("sources"), "where no source is configured, none is strange");
    let world = world.configured("[sources.ads]\n");
    let told = world.run(&line.replace("01-01", "01-02"));
    assert_eq!(told.code, 0, "{told}");
    assert!(
        told.stderr.contains("this configuration has no [sources.adds]; no worker that uses it takes these"),
        "{told}"
    );
    assert!(!world.run(&line.replace("adds", "ads")).stderr.contains("sources"));
    let because = world.json(&line.replace("backfill enqueue", "explain"), 0)["because"].to_string();
    assert!(because.contains("this configuration has no [sources.adds]"), "{because}");
}

fn a_filter_that_a_backfill_cannot_heed_is_refused(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 2);
    past.judged(&days[..1], Judgement::Accepted { records: 7 });
    past.judged(&days[1..], boom());
    let told = world.run(&format!("{RANGE} --yes --force-pending --status failed"));
    assert_eq!(world.status(&days[0]), "success", "`--status failed` was given, and a success was changed:\n{told}");
}

redrive_fixture::on_both!(
    what_is_not_there_is_wanted_and_what_is_there_is_kept,
    force_pending_sets_finished_ones_to_pending,
    a_forced_backfill_changes_what_its_plan_counted,
    slips_are_refused,
    a_source_knows_its_customers_and_queries,
    a_filter_that_a_backfill_cannot_heed_is_refused,
    a_source_that_nobody_serves_is_pointed_out,
);
