//! `reprocess`, `mark-terminal`, `clear-terminal`, `pause`, `resume`.

use redrive_core::partition::{ControlEvent, Judgement};
use redrive_fixture::boom;
use serde_json::json;

use crate::world::{HOUR, MigratedProgram, count, january, reasons};

const ONE: &str = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-01";

/// RP-2.6, CP-7.1, CP-7.3
fn a_reprocessed_success_stays_until_a_new_run_is_accepted(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 2);
    past.judged(&days[..1], Judgement::Accepted { records: 7 });
    past.judged(&days[1..], boom());
    let before = world.read(&days[0]).state;
    let told = world.json("state reprocess --source ads", 0);
    assert_eq!((&told["changed"][0]["from"], &told["changed"][0]["to"]), (&json!("success"), &json!("reprocess")));
    assert_eq!(count(&told, "changed"), 1, "what failed is not meant");
    let wanted = world.read(&days[0]);
    assert_eq!(
        (wanted.state.status, wanted.state.current_run_id, wanted.state.attempt_count),
        (before.status, before.current_run_id, before.attempt_count)
    );
    assert!(wanted.control.reprocess.is_some() && wanted.control.wanted.is_some());
    assert_eq!(reasons(&world.json(&format!("state reprocess {ONE}"), 0)), ["already_pending"]);
    past.claim().iter().for_each(|run| past.judge(run, boom()));
    let rejected = world.read(&days[0]).state;
    assert_eq!((rejected.status, rejected.current_run_id), (before.status, before.current_run_id));
    let told = world.json(&format!("state explain {ONE}"), 0);
    let because = told["because"].to_string();
    assert!(because.contains("its reprocess was rejected at"), "{because}");
    assert_eq!((&told["error_class"], &told["error_message"]), (&json!("retryable"), &json!("boom")));
    assert_eq!(
        told["reason"], "no_daemon",
        "an hour ago is longer than its backoff, and no daemon lives to requeue it"
    );
    let shown = world.json(&format!("state inspect {ONE}"), 0);
    assert_eq!(shown["partitions"][0]["next_retry_at"], told["next_retry_at"]);
    assert!(told["next_retry_at"].is_string(), "{told}");
    world.json(&format!("state reprocess {ONE}"), 0);
    past.claim().iter().for_each(|run| past.judge(run, Judgement::Accepted { records: 9 }));
    let replaced = world.read(&days[0]).state;
    assert_eq!((replaced.record_count, replaced.attempt_count), (Some(9), 3));
    assert_ne!(replaced.current_run_id, before.current_run_id);
    let line = ONE.replace("01-01", "01-02");
    assert_eq!(reasons(&world.json(&format!("state reprocess {line}"), 0)), ["not_success"]);
}

/// CP-2.3, CP-3c.1, CP-2.4
fn a_mark_needs_the_threshold_and_comes_off_again(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 2);
    past.failed(&days[..1], 2);
    past.judged(&days[1..], Judgement::Accepted { records: 7 });
    assert_eq!(reasons(&world.json(&format!("state mark-terminal {ONE}"), 4)), ["below_threshold"]);
    assert_eq!(world.operations(), 1, "the preparation's own");
    let world = world.configured("[sources.ads]\nterminal_after = 2\n");
    let told = world.json(&format!("state mark-terminal {ONE} --reason hopeless"), 0);
    assert_eq!((&told["changed"][0]["from"], &told["changed"][0]["to"]), (&json!("failed"), &json!("terminal")));
    let marked = world.read(&days[0]);
    assert_eq!((marked.state.status.as_str(), marked.state.attempt_count), ("failed", 2));
    assert_eq!(marked.state.error_message.as_deref(), Some("[terminal] boom"));
    let mark = marked.control.terminal.unwrap();
    assert!(mark.by.contains('@') && mark.why.as_deref() == Some("hopeless"), "{mark:?}");
    assert_eq!(reasons(&world.json(&format!("state mark-terminal {ONE}"), 0)), ["terminal"], "it is so already");
    let success = ONE.replace("01-01", "01-02");
    assert_eq!(reasons(&world.json(&format!("state mark-terminal {success}"), 0)), ["not_failed"]);
    assert_eq!(count(&world.json("state clear-terminal --source ads", 0), "changed"), 1);
    let cleared = world.read(&days[0]);
    assert_eq!((cleared.state.status.as_str(), cleared.control.terminal), ("failed", None));
    assert_eq!(cleared.state.error_message.as_deref(), Some("boom"));
    assert_eq!(cleared.state.updated_at, marked.state.updated_at, "backoff counts from the failure");
    assert_eq!(reasons(&world.json(&format!("state clear-terminal {ONE}"), 0)), ["not_terminal"]);
    world.whole();
}

/// CP-3c.1: without `terminal_after`, `max_attempts` is the threshold.
fn the_threshold_is_the_policys_limit(world: MigratedProgram) {
    let world = world.configured("[sources.ads.retry]\nmax_attempts = 3\n");
    let days = january("111", 2);
    let past = world.ago(HOUR);
    past.failed(&days[..1], 3);
    past.failed(&days[1..], 2);
    let told = world.json("state mark-terminal --source ads --yes", 4);
    assert_eq!((count(&told, "changed"), reasons(&told)), (1, vec!["below_threshold"]));
    assert_eq!(told["changed"][0]["logical_date"], "2026-01-01");
}

/// CP-2.5, CP-6.2
fn a_paused_partition_is_left_alone_until_resumed(world: MigratedProgram) {
    let past = world.ago(HOUR);
    let days = january("111", 2);
    past.judged(&days[..1], boom());
    past.want(&days[1..]);
    let before = world.read(&days[0]);
    let told = world.json("state pause --source ads --yes --reason audit", 0);
    assert_eq!(count(&told, "changed"), 2);
    assert!(past.claim().is_empty(), "a paused partition is not claimed");
    let paused = world.read(&days[0]);
    assert_eq!((&paused.state.status, paused.state.updated_at), (&before.state.status, before.state.updated_at));
    assert_eq!(paused.control.paused.unwrap().why.as_deref(), Some("audit"));
    assert_eq!(reasons(&world.json("state pause --source ads --yes", 0)), ["paused"; 2]);
    assert_eq!(reasons(&world.json(&format!("state retry {ONE}"), 0)), ["paused"]);
    let tick = world.json("daemon --once", 0);
    assert_eq!((&tick["requeued"], world.status(&days[0])), (&json!(0), "failed"));
    assert_eq!(count(&world.json("state resume --source ads --yes", 0), "changed"), 2);
    assert_eq!(reasons(&world.json(&format!("state resume {ONE}"), 0)), ["not_paused"]);
    assert_eq!(world.read(&days[0]).control, before.control);
    assert_eq!(past.claim().len(), 1);
    world.whole();
}

/// A request is taken back whether it is queued or was rejected, and not while a worker is at it; an undo asks for it again.
fn a_request_to_reprocess_is_withdrawn(world: MigratedProgram) {
    let days = january("111", 4);
    let past = world.ago(HOUR);
    past.judged(&days, Judgement::Accepted { records: 7 });
    let before: Vec<_> = days.iter().map(|key| world.read(key).state).collect();
    past.put(&days[2..3], ControlEvent::Reprocess);
    past.claim().iter().for_each(|run| past.judge(run, boom()));
    past.put(&days[1..2], ControlEvent::Reprocess);
    let running = past.claim();
    assert_eq!(running.len(), 1);
    past.put(&days[..1], ControlEvent::Reprocess);
    let told = world.json("state reprocess --source ads --withdraw --yes", 4);
    assert_eq!((&told["operation"], reasons(&told)), (&json!("withdraw"), vec!["in_flight"]));
    let words: Vec<_> = told["changed"].as_array().unwrap().iter().map(|changed| &changed["from"]).collect();
    assert_eq!(words, ["reprocess", "reprocess_rejected"], "the fourth day was never asked for again");
    for nth in [0, 2] {
        let after = world.read(&days[nth]);
        assert!(after.control.is_empty(), "{after:?}");
        assert_eq!((after.state.status, after.state.current_run_id), (before[nth].status, before[nth].current_run_id));
    }
    let one = "state reprocess --source ads --customer-id 111 --query-name daily --logical-date 2026-01-04 --withdraw";
    assert_eq!(reasons(&world.json(one, 0)), ["not_queued"]);
    assert_eq!(count(&world.json("state undo last --yes", 0), "changed"), 2);
    assert!(world.read(&days[0]).control.wanted.is_some());
    assert!(world.read(&days[2]).control.reprocess_rejected());
    let file = world.home.file("plan.json");
    world.run(&format!("state reprocess --source ads --withdraw --dry-run --save-plan {}", file.display()));
    assert_eq!(count(&world.json(&format!("state apply {} --yes", file.display()), 0), "changed"), 2);
    world.whole();
}

redrive_fixture::on_both!(
    a_request_to_reprocess_is_withdrawn,
    a_reprocessed_success_stays_until_a_new_run_is_accepted,
    a_mark_needs_the_threshold_and_comes_off_again,
    the_threshold_is_the_policys_limit,
    a_paused_partition_is_left_alone_until_resumed,
);
