//! `state inspect` and `state terminal`: what is so now, nothing guessed.

use std::collections::BTreeSet;

use redrive_core::failure::ErrorClass;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_fixture::{boom, rejected};
use serde_json::{Value, json};

use crate::world::{DAY, HOUR, MINUTE, MigratedProgram, january, key};

fn dates(told: &Value) -> Vec<&str> {
    told["partitions"].as_array().unwrap().iter().map(|row| row["logical_date"].as_str().unwrap()).collect()
}

fn fields(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// CP-3d.2
fn an_absent_partition_is_no_entry_found(world: MigratedProgram) {
    let exact = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-01";
    let told = world.run(&format!("state inspect {exact}"));
    assert_eq!((told.code, told.stdout.as_str()), (3, "no entry found\n"), "{told}");
    assert_eq!(world.json(&format!("state inspect {exact}"), 3), json!({"partitions": []}));
    assert_eq!(world.run("state inspect --terminal").code, 3);
    assert_eq!(world.run("state inspect --group-by error").code, 3);
}

/// CP-3d.1, RP-8.2: the fields that are promised, and no others.
fn json_has_the_promised_fields(world: MigratedProgram) {
    let past = world.ago(HOUR);
    past.failed(&january("111", 1), 2);
    past.judged(&[key("222", "daily", "2026-01-01")], Judgement::Accepted { records: 7 });
    let told = world.json("state inspect --source ads --history", 0);
    let promised = BTreeSet::from([
        "source",
        "customer_id",
        "query_name",
        "logical_date",
        "status",
        "current_run_id",
        "record_count",
        "attempt_count",
        "error_class",
        "error_message",
        "terminal",
        "paused",
        "lane",
        "next_retry_at",
        "active_run_id",
        "created_at",
        "updated_at",
        "history",
    ]);
    let rows = told["partitions"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(fields(row), promised);
    }
    let (failed, success) = (&rows[0], &rows[1]);
    assert_eq!((&failed["status"], &failed["attempt_count"]), (&json!("failed"), &json!(2)));
    assert_eq!((&failed["current_run_id"], &failed["error_class"]), (&Value::Null, &json!("retryable")));
    assert!(failed["next_retry_at"].is_string() && success["next_retry_at"].is_null());
    assert_eq!((&success["record_count"], &success["status"]), (&json!(7), &json!("success")));
    let history = failed["history"].as_array().unwrap();
    let of_attempt = BTreeSet::from([
        "run_id",
        "attempt",
        "outcome",
        "error_class",
        "error_message",
        "record_count",
        "started_at",
        "finished_at",
    ]);
    assert_eq!(history.iter().map(|attempt| attempt["attempt"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for attempt in history {
        assert_eq!(fields(attempt), of_attempt);
        assert_eq!(attempt["outcome"], "failed");
        assert!(attempt["finished_at"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(success["history"][0]["outcome"], "success");
    assert_eq!(success["history"][0]["run_id"], success["current_run_id"]);
    let bare = world.json("state inspect --customer-id 222", 0);
    assert!(bare["partitions"][0].get("history").is_none());
}

/// CP-3d.1, CP-2.5, RP-2.5, RP-8.1
fn flags_are_shown_and_searched_for(world: MigratedProgram) {
    let world = world.configured("[sources.ads.retry]\nmax_attempts = 2\n[sources.old.retry]\nmax_age = \"2d\"\n");
    let days = january("111", 4);
    let past = world.ago(3 * DAY);
    past.failed(&days[..1], 2);
    past.failed(&days[1..], 1);
    past.put(&days[1..2], ControlEvent::MarkTerminal { by: "ada", why: Some("hopeless"), threshold: 1 });
    past.put(&days[2..3], ControlEvent::Pause { by: "bob", why: Some("audit") });
    let old = redrive_core::key::PartitionKey::new("old", "9", "daily", "2026-01-01").unwrap();
    past.judged(std::slice::from_ref(&old), boom());
    let told = world.json("state inspect --terminal", 0);
    assert_eq!(dates(&told), ["2026-01-01", "2026-01-02", "2026-01-01"]);
    let rows = &told["partitions"];
    assert_eq!(rows[0]["terminal"], json!({"why": null, "by": null, "at": null, "policy": "attempts_exhausted"}));
    assert_eq!((&rows[1]["terminal"]["why"], &rows[1]["terminal"]["by"]), (&json!("hopeless"), &json!("ada")));
    assert_eq!(rows[1]["terminal"]["policy"], Value::Null);
    assert!(rows[1]["error_message"].as_str().unwrap().starts_with("[terminal]"));
    assert_eq!((&rows[2]["source"], &rows[2]["terminal"]["policy"]), (&json!("old"), &json!("too_old")));
    assert_eq!(world.json("state terminal", 0), told, "the listing is the same");
    let paused = world.json("state inspect --paused", 0);
    assert_eq!(dates(&paused), ["2026-01-03"]);
    assert_eq!(
        (&paused["partitions"][0]["paused"]["why"], &paused["partitions"][0]["terminal"]),
        (&json!("audit"), &Value::Null)
    );
    assert_eq!(world.json("state terminal --customer-id 111 --limit 1", 0)["partitions"].as_array().unwrap().len(), 1);
}

/// RP-8.1: what is terminal by policy stays so while it is paused.
fn a_pause_does_not_hide_that_a_policy_has_stopped_it(world: MigratedProgram) {
    let world = world.configured("[sources.ads.retry]\nmax_attempts = 2\n");
    let days = january("111", 2);
    let past = world.ago(HOUR);
    past.failed(&days, 2);
    past.put(&days[..1], ControlEvent::Pause { by: "bob", why: Some("audit") });
    let told = world.json("state terminal", 0);
    assert_eq!(dates(&told), ["2026-01-01", "2026-01-02"]);
    assert_eq!(told["partitions"][0]["terminal"]["policy"], "attempts_exhausted");
    assert_eq!(told["partitions"][0]["paused"]["why"], "audit");
    let paused = world.json("state inspect --paused", 0);
    assert_eq!(paused["partitions"][0]["terminal"]["policy"], "attempts_exhausted");
    let told = world.run("state terminal").done();
    assert!(told.stdout.contains("paused; terminal: attempts_exhausted"), "{told}");
}

/// RP-8.2
fn errors_are_counted(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 5);
    past.judged(&days[..3], rejected(ErrorClass::Retryable, "time-out"));
    past.judged(&days[3..], rejected(ErrorClass::Final, "no such account"));
    let told = world.json("state inspect --group-by error --limit 1", 0);
    let groups = json!({"groups": [
        {"error_class": "retryable", "error_message": "time-out", "count": 3},
        {"error_class": "final", "error_message": "no such account", "count": 2},
    ]});
    assert_eq!(told, groups);
    assert_eq!(dates(&world.json("state inspect --error-class final", 0)), ["2026-01-04", "2026-01-05"]);
}

/// RP-6.2, CP-2.2
fn what_is_missing_is_said(world: MigratedProgram) {
    let today = jiff::Timestamp::from_microsecond(
        redrive_store::clock::Clock::now(&redrive_store::clock::SystemClock).micros(),
    );
    let today = today.unwrap().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |back: i32| today.checked_sub(jiff::Span::new().days(back)).unwrap().to_string();
    let config = format!(
        "[sources.ads]\ncustomers = [\"111\"]\ncalendar = {{ start = \"{}\" }}\n[sources.ads.queries.daily]\n",
        day(3)
    );
    let world = world.configured(&config);
    world.ago(MINUTE).judged(&[key("111", "daily", &day(2))], boom());
    let told = world.json("state inspect --missing", 0);
    let found: Vec<_> = told["missing"].as_array().unwrap().iter().map(|key| key["logical_date"].clone()).collect();
    assert_eq!(found, [json!(day(3)), json!(day(1))]);
    world.ago(MINUTE).want(&[key("111", "daily", &day(3)), key("111", "daily", &day(1))]);
    let told = world.run("state inspect --missing");
    assert_eq!((told.code, told.stdout.as_str()), (3, "nothing is missing\n"));
}

/// CP-5.5: a relative date is echoed once, on stderr, and not with `-q`.
fn relative_dates_are_echoed(world: MigratedProgram) {
    let told = world.run("state inspect --since 7d --until yesterday");
    let lines: Vec<_> = told.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("--since 7d is 20") && lines[1].starts_with("--until yesterday is 20"), "{told}");
    assert_eq!(world.run("-q state inspect --since 7d").stderr, "");
    let told = world.run("state retry --since 7d --dry-run");
    assert_eq!(told.stderr.matches("--since 7d is").count(), 1, "{told}");
    assert_eq!(world.run("state inspect --since yesteryear").complaint(2).matches("YYYY-MM-DD").count(), 1);
}

/// CP-4.1
fn rows_come_in_key_order_up_to_the_limit(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let (mut days, more) = (january("222", 3), january("111", 3));
    days.extend(more);
    past.judged(&days, boom());
    let told = world.run("state inspect --limit 4 -o csv");
    let rows: Vec<_> = told.stdout.lines().skip(1).map(|row| row.split(",failed").next().unwrap()).collect();
    assert_eq!(
        rows,
        [
            "ads,111,daily,2026-01-01",
            "ads,111,daily,2026-01-02",
            "ads,111,daily,2026-01-03",
            "ads,222,daily,2026-01-01",
        ]
    );
    assert_eq!(told.stderr, "the first 4 are shown; --limit gives more\n");
    assert_eq!(world.run("state inspect --limit 0 -o jsonl").stdout.lines().count(), 6);
}

redrive_fixture::on_both!(
    an_absent_partition_is_no_entry_found,
    json_has_the_promised_fields,
    flags_are_shown_and_searched_for,
    a_pause_does_not_hide_that_a_policy_has_stopped_it,
    errors_are_counted,
    what_is_missing_is_said,
    relative_dates_are_echoed,
    rows_come_in_key_order_up_to_the_limit,
);
