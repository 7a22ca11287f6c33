//! `redrive daemon --once`: what is due, that alone, and what calendars expect.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_fixture::{boom, rejected};
use redrive_store::Cooldown;
use redrive_store::clock::{Clock, SystemClock};
use serde_json::json;

use crate::world::{DAY, HOUR, MINUTE, MigratedProgram, count, january, key};

fn of(customer: &str) -> Vec<PartitionKey> {
    vec![key(customer, "daily", "2026-01-01")]
}

/// RD-1, RD-2, RD-3, RD-4, RD-5, RD-9, RD-10, RP-4.1, RP-5.1
fn what_is_due_is_requeued_and_nothing_else(world: MigratedProgram) {
    let second = Duration::from_secs(1);
    // The first failure waits 5 min ± 30 s, the third 20 min ± 30 s.
    world.ago(5 * MINUTE + 40 * second).judged(&of("due-1"), boom());
    world.ago(4 * MINUTE).judged(&of("early-1"), boom());
    world.ago(20 * MINUTE + 40 * second).failed(&of("due-3"), 3);
    world.ago(19 * MINUTE).failed(&of("early-3"), 3);
    let past = world.ago(DAY);
    past.failed(&of("exhausted"), 8);
    past.judged(&of("final"), rejected(ErrorClass::Final, "no"));
    past.judged(&of("terminal"), boom());
    past.put(&of("terminal"), ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 });
    past.judged(&of("paused"), boom());
    past.put(&of("paused"), ControlEvent::Pause { by: "ada", why: None });
    past.judged(&of("cooling"), boom());
    past.judged(&of("success"), Judgement::Accepted { records: 1 });
    let until = SystemClock.now().saturating_add(HOUR);
    let (source, customer_id) = ("ads".parse().unwrap(), Some("cooling".parse().unwrap()));
    let cooldown = Cooldown { source, customer_id, until, why: None };
    world.runtime.block_on(past.store.data().cool_down(cooldown)).unwrap();
    let hint =
        Judgement::Rejected { class: ErrorClass::RateLimited, message: "429".to_owned(), not_before: Some(until) };
    past.judged(&of("hinted"), hint);
    world.ago(31 * DAY).judged(&of("old"), boom());
    let prepared = world.operations();
    let before: Vec<_> = ["due-1", "due-3"].map(|customer| world.read(&of(customer)[0]).state).into();

    let dry = world.json("daemon --once --dry-run", 0);
    assert_eq!((&dry["requeued"], world.operations()), (&json!(2), prepared));
    let would: Vec<_> = dry["would"].as_array().unwrap().iter().map(|action| action["customer_id"].clone()).collect();
    assert_eq!(would, [json!("due-1"), json!("due-3")]);
    assert_eq!(world.status(&of("due-1")[0]), "failed");

    let told = world.run("daemon --once -o json").done();
    assert_eq!((&told.json()["requeued"], &told.json()["enqueued"]), (&json!(2), &json!(0)));
    let pending = "SELECT count(*) FROM partition_state WHERE status = 'pending' AND customer_id LIKE 'due-%'";
    assert_eq!(
        (world.number(pending), world.number("SELECT count(*) FROM partitions WHERE status = 'pending'")),
        (2, 2)
    );
    for (before, customer) in before.iter().zip(["due-1", "due-3"]) {
        let after = world.read(&of(customer)[0]).state;
        assert_eq!((after.attempt_count, after.current_run_id), (before.attempt_count, before.current_run_id));
        let line = told.stderr.lines().find(|line| line.contains(&format!("key=ads/{customer}/daily/2026-01-01")));
        let line = line.unwrap_or_else(|| panic!("no line of {customer}: {told}"));
        assert!(line.starts_with("20") && line.contains(&format!("attempt_count={}", before.attempt_count)), "{line}");
        assert!(line.contains("delay_s="), "{line}");
    }
    assert!(world.read(&of("terminal")[0]).control.terminal.is_some());
    assert_eq!(world.json("daemon --once", 0)["requeued"], 0, "a second look finds nothing");
    assert_eq!(world.operations(), prepared + 2);
    world.whole();
}

/// RD-8, CP-6.1: an operation for each customer and query, by the daemon.
fn requeues_are_grouped_by_customer_and_query(world: MigratedProgram) {
    let mut days = january("111", 3);
    days.extend(january("222", 2));
    days.push(key("111", "weekly", "2026-01-01"));
    world.ago(HOUR).judged_without_raw(&days, boom());
    assert_eq!(world.json("daemon --once", 0)["requeued"], 6);
    let trail = world.json("state audit list", 0);
    let mut changes: Vec<_> = trail["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| operation["changes"].as_u64().unwrap())
        .collect();
    changes.sort_unstable();
    assert_eq!(changes, [1, 2, 3, 6], "the last is the preparation's own");
    let actor = trail["operations"][0]["actor"].as_str().unwrap();
    assert!(actor.starts_with("daemon ") && actor.contains(" pid "), "{actor}");
    assert_eq!(trail["operations"][0]["command"], "daemon");
    world.whole();
}

/// RD-1, RP-6.3, CP-2.2: recent days are fresh, older ones history; a day is wanted once it is ready.
fn expected_partitions_are_wanted_when_ready(world: MigratedProgram) {
    let now = jiff::Timestamp::from_microsecond(SystemClock.now().micros()).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
    let day = |back: i32| now.date().checked_sub(jiff::Span::new().days(back)).unwrap().to_string();
    let config = |start: i32, ready: &str| {
        let calendar = format!("calendar = {{ start = \"{}\", ready_at = \"{ready}\" }}", day(start));
        format!("[sources.ads]\ncustomers = [\"1\", \"2\"]\n{calendar}\n[sources.ads.queries.daily]\n")
    };
    // Yesterday is ready a second before midnight.
    let world = world.configured(&config(1, "23:59:59"));
    if now.hour() < 23 {
        assert_eq!(world.json("daemon --once", 0)["enqueued"], 0, "yesterday is not ready");
    }
    let world = world.configured(&config(10, "00:00"));
    assert_eq!(world.json("daemon --once --dry-run", 0)["enqueued"], 20);
    assert_eq!((world.operations(), world.number("SELECT count(*) FROM partitions")), (0, 0));
    assert_eq!(world.json("daemon --once", 0)["enqueued"], 20);
    let lanes = |lane: &str| world.number(&format!("SELECT count(*) FROM partition_control WHERE lane = '{lane}'"));
    assert_eq!((lanes("fresh"), lanes("backfill")), (14, 6));
    assert_eq!(world.operations(), 2, "one for each customer");
    let trail = world.json("state audit list", 0);
    assert_eq!(trail["operations"][0]["flags"], json!({"expected": true}));
    assert_eq!(
        count(
            &world.json(&format!("state audit show {}", trail["operations"][0]["op_id"].as_str().unwrap()), 0),
            "changes"
        ),
        10
    );
    assert_eq!(world.json("daemon --once", 0)["enqueued"], 0);
    world.whole();
}

/// RD-6: the daemon keeps nothing, so a policy that changed is heeded by the next tick.
fn a_changed_policy_is_heeded_at_once(world: MigratedProgram) {
    world.ago(10 * MINUTE).judged(&of("111"), boom());
    let world = world.configured("[sources.ads.retry]\nbase = \"1h\"\n");
    assert_eq!(world.json("daemon --once", 0)["requeued"], 0);
    let world = world.configured("[sources.ads.retry]\nbase = \"1m\"\njitter = \"0s\"\n");
    assert_eq!(world.json("daemon --once", 0)["requeued"], 1);
}

redrive_fixture::on_both!(
    what_is_due_is_requeued_and_nothing_else,
    requeues_are_grouped_by_customer_and_query,
    expected_partitions_are_wanted_when_ready,
    a_changed_policy_is_heeded_at_once,
);
