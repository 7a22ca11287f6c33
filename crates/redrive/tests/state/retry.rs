//! `state retry`: failed becomes pending, and nothing else becomes anything.

use redrive_core::key::PartitionKey;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_core::retry::RetryPolicy;
use redrive_fixture::boom;
use serde_json::json;

use crate::home::Told;
use crate::world::{DAY, HOUR, MINUTE, MigratedProgram, count, january, key, reasons};

const ONE: &str = "state retry --source ads --customer-id 111 --query-name daily --logical-date 2026-01-01";

/// CP-2.1, CP-3a.1, CP-6.2, CP-7.3, RP-3.1
fn failed_becomes_pending_and_keeps_the_rest(world: MigratedProgram) {
    let days = january("111", 1);
    let past = world.ago(HOUR);
    past.judged(&days, Judgement::Accepted { records: 7 });
    past.put(&days, ControlEvent::Backfill { policy: &RetryPolicy::partitions(), force_pending: true });
    past.claim().iter().for_each(|run| past.judge(run, boom()));
    let before = world.read(&days[0]).state;
    assert_eq!((before.status.as_str(), before.record_count, before.attempt_count), ("failed", Some(7), 2));
    let told = world.json(ONE, 0);
    assert_eq!((&told["operation"], &told["matched"], &told["dry_run"]), (&json!("retry"), &json!(1), &json!(false)));
    let changed = json!([{"source": "ads", "customer_id": "111", "query_name": "daily", "logical_date": "2026-01-01",
        "from": "failed", "to": "pending"}]);
    assert_eq!(told["changed"], changed);
    let after = world.read(&days[0]);
    assert_eq!(after.state.status.as_str(), "pending");
    assert_eq!(
        (after.state.attempt_count, after.state.current_run_id, after.state.record_count, after.state.created_at),
        (before.attempt_count, before.current_run_id, before.record_count, before.created_at)
    );
    assert_eq!(after.control.wanted.unwrap().lane.as_str(), "retry");
    let again = world.json(ONE, 0);
    assert_eq!((reasons(&again), &again["op_id"]), (vec!["already_pending"], &json!(null)));
    assert_eq!(world.read(&days[0]), after, "a no-op changes nothing");
    assert_eq!(world.number("SELECT count(*) FROM runs"), 2, "history stays");
    world.whole();
}

/// How often the program put a key to the rules, and listed the raw sink, by its own log.
fn effort(world: &MigratedProgram, line: &str, keys: &[PartitionKey]) -> (Vec<usize>, usize) {
    let words: Vec<_> = line.split_whitespace().collect();
    let mut command = world.home.command(&words);
    let told = Told::of(command.env("RUST_LOG", "redrive_control=trace,redrive_store=trace").output().unwrap());
    assert!([0, 4].contains(&told.code), "{told}");
    let lines = |text: &str| told.stderr.lines().filter(|line| line.ends_with(text)).count();
    let applied = keys.iter().map(|key| lines(&format!(" applied key={key}"))).collect();
    (applied, told.stderr.matches(" raw sink listed ").count())
}

/// Counted once and done once: no partition is decided about more than twice, and the sink is listed once.
fn a_retry_looks_no_more_often_than_it_must(world: MigratedProgram) {
    let days = january("111", 6);
    let failed = || {
        let past = world.ago(HOUR);
        past.claim().iter().for_each(|run| past.judge(run, boom()));
    };
    world.ago(HOUR).judged(&days, boom());
    assert_eq!(effort(&world, "state retry --source ads --yes", &days), (vec![2; 6], 1));
    failed();
    assert_eq!(effort(&world, "state retry --source ads --force", &days), (vec![2; 6], 1));
    failed();
    let line = "state retry --source ads --force --allow-missing-raw";
    assert_eq!(effort(&world, line, &days), (vec![1; 6], 0));
    failed();
    let line = format!("{ONE} --allow-missing-raw");
    assert_eq!(effort(&world, &line, &days[..1]), (vec![1], 0), "one partition needs no count");
}

/// With a limit too: what has left nothing behind is passed over without another look, and the next query is not listed.
fn the_first_few_are_looked_for_no_more_often(world: MigratedProgram) {
    let (days, others) = (january("111", 6), january("222", 6));
    let past = world.ago(HOUR);
    past.judged_without_raw(&days[..2], boom());
    past.judged(&days[2..], boom());
    past.judged(&others, boom());
    let all = [days, others].concat();
    let (applied, listed) = effort(&world, "state retry --source ads --yes --limit 2", &all);
    assert_eq!((&applied[..6], &applied[6..], listed), (&[1, 1, 2, 2, 1, 1][..], &[1; 6][..], 1));
    assert_eq!(all.iter().filter(|key| world.status(key) == "pending").count(), 2);
}

/// CP-3c.2, RP-2.5
fn terminal_needs_clear_terminal(world: MigratedProgram) {
    let days = january("111", 2);
    let past = world.ago(DAY);
    past.failed(&days[..1], 8);
    past.failed(&days[1..], 1);
    past.put(&days[1..], ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 });
    let refused = world.json("state retry --source ads --yes", 4);
    assert_eq!((reasons(&refused), count(&refused, "changed")), (vec!["terminal", "terminal"], 0));
    let told = world.json("state retry --source ads --yes --clear-terminal", 0);
    let from: Vec<_> = told["changed"].as_array().unwrap().iter().map(|change| change["from"].clone()).collect();
    assert_eq!(from, [json!("failed"), json!("terminal")]);
    let cleared = world.read(&days[1]);
    assert_eq!((cleared.state.status.as_str(), &cleared.control.terminal), ("pending", &None));
    assert_eq!(cleared.state.error_message.as_deref(), Some("boom"));
    let trail = world.json("state audit list", 0);
    assert_eq!(trail["operations"][0]["flags"]["clear_terminal"], true);
}

/// OP-9: what is granted is what there is, seen by `explain`, `state groups`, the trail, a plan and an undo alike.
fn a_grant_gives_further_attempts(world: MigratedProgram) {
    let days = january("111", 2);
    world.ago(DAY).failed(&days, 9);
    let exhausted = || world.json("state groups", 0)["groups"][0]["exhausted"].clone();
    let explain = "state explain --source ads --customer-id 111 --query-name daily --logical-date 2026-01-01";
    assert_eq!(exhausted(), 2);
    assert_eq!(reasons(&world.json("state retry --source ads --yes", 4)), ["terminal"; 2]);
    let told = world.json("state retry --source ads --yes --grant 2", 0);
    assert_eq!(count(&told, "changed"), 2);
    let granted = world.read(&days[0]);
    assert_eq!((granted.state.attempt_count, granted.control.granted), (9, 3), "one past the limit is forgiven");
    let shown = world.json("state audit show last", 0);
    assert_eq!((&shown["flags"]["grant"], &shown["changes"][0]["after"]["granted"]), (&json!("2"), &json!(3)));

    assert_eq!(count(&world.json("state undo last --yes", 0), "changed"), 2);
    assert_eq!((world.read(&days[0]).control.granted, exhausted()), (0, json!(2)));

    let file = world.home.file("plan.json");
    world.run(&format!("state retry --source ads --dry-run --grant full --save-plan {}", file.display())).done();
    assert_eq!(count(&world.json(&format!("state apply {} --yes", file.display()), 0), "changed"), 2);
    assert_eq!(
        world.read(&days[0]).control.granted,
        9,
        "a plan keeps what it grants: eight, and the one past the limit"
    );
    let now = world.ago(MINUTE);
    now.claim().iter().for_each(|run| now.judge(run, boom()));
    assert_eq!(world.json("state groups", 0)["groups"][0]["waiting"], 2);
    let told = world.json(explain, 0);
    assert_eq!(
        (&told["reason"], &told["attempt_count"], &told["granted"], &told["max_attempts"]),
        (&json!("waiting"), &json!(10), &json!(9), &json!(8))
    );
    let because = told["because"].as_str().unwrap();
    assert!(because.contains("attempt 10, counted as 1 because 9 were granted, waits 5 min"), "{because}");
    let shown = world.json("state inspect --source ads", 0);
    assert_eq!(shown["partitions"][0]["granted"], 9);
    let wrong = world.run("state retry --source ads --grant 0");
    assert!(wrong.code == 2 && wrong.stderr.contains("number of attempts from 1 on"), "{wrong}");
    world.whole();
}

/// A canary takes the first in key order, asks the sink about no other, and says what is left.
fn a_canary_takes_the_first_and_counts_the_rest(world: MigratedProgram) {
    let days = january("111", 9);
    let past = world.ago(HOUR);
    past.judged_without_raw(&days[1..2], boom());
    past.judged(&days[2..], boom());
    past.want(&days[..1]);
    let line = "state retry --source ads --limit 2";
    let told = world.json(&format!("{line} --dry-run"), 4);
    assert_eq!(
        (count(&told, "changed"), &told["beyond_limit"], reasons(&told)),
        (2, &json!(5), vec!["already_pending", "no_raw_partition"])
    );
    let refused = world.run(line).complaint(5);
    assert!(refused.contains("2 partitions would change"), "{refused}");
    let told = world.run(&format!("{line} --reason canary --yes"));
    assert_eq!(told.code, 4, "{told}");
    let rest = "2 of 7 changed; the rest: redrive state retry --source ads --reason canary --yes";
    assert!(told.stderr.lines().any(|said| said == rest), "{told}");
    let pending: Vec<_> = days.iter().filter(|key| world.status(key) == "pending").collect();
    assert_eq!(pending, [&days[0], &days[2], &days[3]], "the first was pending before, the second has no raw data");
    let forced = world.json("state retry --source ads --limit=3 --force --allow-missing-raw", 0);
    assert_eq!((count(&forced, "changed"), &forced["beyond_limit"]), (3, &json!(3)));
    let all = world.json("state retry --source ads --limit 50 --force --allow-missing-raw", 0);
    assert_eq!((count(&all, "changed"), &all["beyond_limit"]), (3, &json!(0)));
    assert_eq!(world.run("state retry --source ads --limit 0").code, 2);
}

/// RP-8.4, RP-8.5: by one query in detail and by several days at once.
fn nothing_in_the_raw_sink_blocks_a_retry(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 6);
    past.judged(&days[..2], boom());
    past.judged_without_raw(&days[2..], boom());
    let told = world.json("state retry --source ads --yes", 4);
    assert_eq!((count(&told, "changed"), reasons(&told)), (2, vec!["no_raw_partition"; 4]));
    let one = "state retry --source ads --customer-id 111 --query-name daily --logical-date 2026-01-06";
    assert_eq!(reasons(&world.json(one, 4)), ["no_raw_partition"]);
    assert_eq!(world.operations(), 1);
    let told = world.json(&format!("{one} --allow-missing-raw"), 0);
    assert_eq!(count(&told, "changed"), 1);
    let shown = world.json(&format!("state audit show {}", told["op_id"].as_str().unwrap()), 0);
    assert_eq!(shown["flags"]["allow_missing_raw"], true);
    assert_eq!(reasons(&world.json(&one.replace("06", "01"), 0)), ["already_pending"], "nothing to be blocked");
}

/// CP-3a.3, CP-5.4
fn a_dry_run_changes_nothing(world: MigratedProgram) {
    let days = january("111", 30);
    world.ago(HOUR).judged(&days, boom());
    let before: Vec<_> = days.iter().take(2).map(|key| world.read(key)).collect();
    let told = world.json("state retry --source ads --dry-run", 0);
    assert_eq!((count(&told, "changed"), &told["dry_run"], &told["op_id"]), (30, &json!(true), &json!(null)));
    assert_eq!(days.iter().take(2).map(|key| world.read(key)).collect::<Vec<_>>(), before);
    assert_eq!(world.operations(), 0);
    assert_eq!(world.number("SELECT count(*) FROM partitions WHERE status = 'failed'"), 30);
}

/// CP-3a.2, CP-5.5
fn slips_in_a_filter_are_refused(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 2), boom());
    for (filter, why) in [
        ("--source ads*", "wildcard"),
        ("--source ads --customer-id %", "wildcard"),
        ("--source ads --query-name da?ly", "wildcard"),
        ("--source ads --since 1900-01-01", "is before 2015-01-01"),
        ("--source ads --since 1900", "is not a date"),
        ("--source ads --since 2026-02-01 --until 2026-01-01", "upside down"),
        ("--source ads --until 2999-01-01", "is after"),
        ("--source ads --logical-date 2026-02-30", "--logical-date"),
        ("--source ads --status open", "--status"),
        ("--source ads --error-class odd", "--error-class"),
        ("", "the filter is empty"),
    ] {
        for verb in ["retry", "reprocess", "mark-terminal", "clear-terminal", "pause", "resume"] {
            let line = world.run(&format!("state {verb} --force {filter}")).complaint(2);
            assert!(line.contains(why), "{verb} {filter}: {line}");
        }
    }
    assert_eq!(world.operations(), 0);
    let told = world.run("state retry --source ads --logical-date 2026-01-01 --since 2026-01-01");
    assert_eq!((told.code, told.stdout.as_str()), (2, ""));
}

/// CP-3a.2: exact matches only.
fn a_filter_means_exactly_what_it_says(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let mut all = january("111", 3);
    all.extend(january("1111", 3));
    all.push(key("111", "daily_2", "2026-01-01"));
    past.judged(&all, boom());
    let line = "state retry --customer-id 111 --query-name daily --since 2026-01-02 --until 2026-01-03 --yes";
    assert_eq!(count(&world.json(line, 0), "changed"), 2);
    let pending: Vec<_> = all.iter().filter(|key| world.status(key) == "pending").collect();
    assert_eq!(pending, [&all[1], &all[2]]);
}

/// Several values of one option are all meant, in every command that takes a filter; the trail and a plan keep them.
fn several_values_of_an_option_are_all_meant(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let of =
        |source: &str, customer: &str, query: &str| PartitionKey::new(source, customer, query, "2026-01-01").unwrap();
    let mut all = Vec::new();
    for source in ["ads", "crm", "web"] {
        for customer in ["1", "2", "3"] {
            all.extend(["daily", "weekly"].map(|query| of(source, customer, query)));
        }
    }
    past.judged(&all, boom());
    let filter = "--source web --source ads --customer-id 3 --customer-id 1 --query-name daily";
    let meant = [of("ads", "1", "daily"), of("ads", "3", "daily"), of("web", "1", "daily"), of("web", "3", "daily")];
    let keys = |told: &serde_json::Value, list: &str| -> Vec<PartitionKey> {
        told[list].as_array().unwrap().iter().map(|row| serde_json::from_value(row.clone()).unwrap()).collect()
    };
    assert_eq!(keys(&world.json(&format!("state inspect {filter}"), 0), "partitions"), meant, "in key order");
    assert_eq!(world.json(&format!("state groups {filter}"), 0)["groups"][0]["count"], 4);
    let file = world.home.file("plan.json");
    world.run(&format!("state retry {filter} --dry-run --save-plan {}", file.display())).done();
    assert_eq!(keys(&world.json(&format!("state apply {} -y", file.display()), 0), "changed"), meant);
    world.json("state undo last -y", 0);
    assert_eq!(keys(&world.json(&format!("state retry {filter} -y"), 0), "changed"), meant);
    let kept = &world.json("state audit show last", 0)["filters"];
    let expected = json!({"source": ["ads", "web"], "customer_id": ["1", "3"], "query_name": "daily"});
    assert_eq!(*kept, expected);
    for verb in ["pause", "resume"] {
        assert_eq!(keys(&world.json(&format!("state {verb} {filter} -y"), 0), "changed"), meant, "{verb}");
    }
    let days = "--since 2026-01-02 --until 2026-01-03 --yes";
    let told = world.json(&format!("state backfill enqueue {filter} {days}"), 0);
    assert_eq!(count(&told, "changed"), 8);
    assert_eq!(world.run("data ls --source ads --source crm").code, 3, "nothing of these has succeeded");
    let refused = world.run("state retry --source ads --source c* --force").complaint(2);
    assert!(refused.contains("wildcard"), "{refused}");
}

/// CP-3a.4, CP-5.1, CP-5.2, RP-8.3
fn many_partitions_need_a_yes_or_force(world: MigratedProgram) {
    let world = world.configured("[safety]\nconfirm_above = 3\nhard_limit = 5\n");
    let past = world.ago(HOUR);
    past.judged(&january("one", 1), boom());
    past.judged(&january("five", 5), boom());
    past.judged(&january("six", 6), boom());
    assert_eq!(count(&world.json("state retry --customer-id one", 0), "changed"), 1, "one needs no yes");
    let line = world.run("state retry --customer-id five").complaint(5);
    assert!(line.contains("5 partitions would change and there is no terminal to ask at"), "{line}");
    assert_eq!(world.number("SELECT count(*) FROM partitions WHERE status = 'failed'"), 11);
    assert_eq!(world.operations(), 1);
    assert_eq!(count(&world.json("state retry --customer-id five -y", 0), "changed"), 5);
    let line = world.run("state retry --customer-id six --yes").complaint(5);
    assert!(line.contains("more than 5 partitions, the hard limit"), "{line}");
    assert_eq!(world.number("SELECT count(*) FROM partitions WHERE status = 'failed'"), 6);
    assert_eq!(count(&world.json("state retry --customer-id six --force", 0), "changed"), 6);
    let trail = world.json("state audit list", 0);
    assert_eq!(trail["operations"][0]["flags"]["force"], true);
    assert_eq!(trail["operations"][1]["flags"]["yes"], true);
    assert_eq!(world.run("state retry --customer-id six").code, 0, "nothing would change, so nothing is asked");
}

/// CP-5.3, CP-4.3
fn quiet_gives_counts_only(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("nobody-configured", 2), boom());
    let told = world.run("-q state retry --customer-id nobody-configured --yes").done();
    assert_eq!(told.stdout.lines().count(), 1, "{told}");
    assert!(told.stdout.starts_with("retry: 2 matched, 2 changed, 0 skipped, 0 failed; operation "), "{told}");
    assert_eq!(told.stderr, "");
    let told = world.run("state retry --customer-id nobody-configured --yes").done();
    assert!(told.stdout.contains("already_pending"), "{told}");
}

/// CP-2.1, RP-9.4: only what is not in flight, and only if asked for.
fn stale_pending_ones_are_requeued_on_demand(world: MigratedProgram) {
    let days = january("111", 2);
    let past = world.ago(HOUR);
    past.want(&days[..1]);
    assert_eq!(past.claim().len(), 1);
    past.want(&days[1..]);
    assert_eq!(reasons(&world.json("state retry --source ads --yes", 0)), ["already_pending"; 2]);
    let told = world.json("state retry --source ads --yes --stale --allow-missing-raw", 4);
    assert_eq!((count(&told, "changed"), reasons(&told)), (1, vec!["in_flight"]));
}

redrive_fixture::on_both!(
    failed_becomes_pending_and_keeps_the_rest,
    a_retry_looks_no_more_often_than_it_must,
    the_first_few_are_looked_for_no_more_often,
    terminal_needs_clear_terminal,
    a_grant_gives_further_attempts,
    a_canary_takes_the_first_and_counts_the_rest,
    nothing_in_the_raw_sink_blocks_a_retry,
    a_dry_run_changes_nothing,
    slips_in_a_filter_are_refused,
    a_filter_means_exactly_what_it_says,
    several_values_of_an_option_are_all_meant,
    many_partitions_need_a_yes_or_force,
    quiet_gives_counts_only,
    stale_pending_ones_are_requeued_on_demand,
);
