//! `state explain`: one reason code for every way in which a partition is not running.

use redrive_core::failure::ErrorClass;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_fixture::{boom, rejected};
use redrive_store::Cooldown;
use serde_json::json;

use crate::world::{DAY, HOUR, MINUTE, MigratedProgram, key};

fn explained(world: &MigratedProgram, customer: &str) -> (String, String) {
    let line =
        format!("state explain --source ads --customer-id {customer} --query-name daily --logical-date 2026-01-01");
    let told = world.json(&line, 0);
    (told["reason"].as_str().unwrap().to_owned(), told["because"].as_str().unwrap().to_owned())
}

/// RP-8.2, RP-2.5, RD-2
fn every_reason_has_its_word_and_its_arithmetic(world: MigratedProgram) {
    let of = |customer: &str| vec![key(customer, "daily", "2026-01-01")];
    let now = world.ago(MINUTE);
    now.judged(&of("done"), Judgement::Accepted { records: 1 });
    now.judged(&of("waiting"), boom());
    now.judged(&of("final"), rejected(ErrorClass::Final, "no such account"));
    now.judged(&of("paused"), boom());
    now.put(&of("paused"), ControlEvent::Pause { by: "bob", why: Some("audit") });
    now.judged(&of("marked"), boom());
    now.put(&of("marked"), ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 });
    let hint = redrive_store::clock::Clock::now(&now.clock).saturating_add(HOUR);
    let hinted =
        Judgement::Rejected { class: ErrorClass::RateLimited, message: "429".to_owned(), not_before: Some(hint) };
    now.judged(&of("hinted"), hinted);
    world.ago(HOUR).judged(&of("due"), boom());
    world.ago(HOUR).judged(&of("cooling"), boom());
    let cooldown = Cooldown {
        source: "ads".parse().unwrap(),
        customer_id: Some("cooling".parse().unwrap()),
        until: hint,
        why: None,
    };
    world.runtime.block_on(now.store.data().cool_down(cooldown)).unwrap();
    world.ago(31 * DAY).judged(&of("old"), boom());
    world.ago(DAY).failed(&of("exhausted"), 8);
    now.want(&of("running"));
    assert_eq!(now.claim().len(), 1);
    now.want(&of("queued"));
    let backfill =
        "state backfill enqueue --source ads --customer-id withdrawn --query-name daily --logical-date 2026-01-01";
    let made = world.json(backfill, 0);
    world.json(&format!("state undo {}", made["op_id"].as_str().unwrap()), 0);
    for (customer, reason, because) in [
        ("done", "done", "is current, and no operator asked for another"),
        ("waiting", "waiting", "attempt 1 waits 5 min ± 30 s"),
        ("hinted", "waiting", "its source said to come back at"),
        ("final", "final_error", "its error is final"),
        ("paused", "paused", "paused by bob at"),
        ("marked", "terminal", "marked terminal by ada at"),
        ("old", "terminal", "(31 days), and the policy stops at 30 days; `state retry --clear-terminal`"),
        ("exhausted", "terminal", "8 attempts of at most 8"),
        ("due", "no_daemon", "no daemon lives that would take it; start `redrive daemon`"),
        ("cooling", "cooling_down", "asked to be left alone until"),
        ("running", "in_flight", "is at work on it, with a lease until"),
        ("queued", "unknown_source", "it waits in lane fresh since"),
        ("withdrawn", "not_queued", "withdrawn from the queue"),
    ] {
        let (found, text) = explained(&world, customer);
        assert!(found == reason && text.contains(because), "{customer}: {found}: {text}");
    }
}

/// OP-7: a key without an entry is explained too, and the exit code says that there is none.
fn an_absent_key_is_explained(world: MigratedProgram) {
    let line = "state explain --source ads --customer-id 1 --query-name daily --logical-date 2026-01-01";
    let told = world.json(line, 3);
    assert_eq!((&told["status"], &told["reason"]), (&json!(null), &json!("unknown_source")));
    let told = world.run(line);
    assert!(told.code == 3 && told.stdout.contains("ads/1/daily/2026-01-01 has no entry"), "{told}");
}

redrive_fixture::on_both!(an_absent_key_is_explained, every_reason_has_its_word_and_its_arithmetic);
