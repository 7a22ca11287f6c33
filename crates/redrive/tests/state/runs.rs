//! `redrive runs`: finding them, and what is said about each.

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::retry::{Backoff, RetryPolicy};
use redrive_core::run::{End, Fault, Work, Workload};
use redrive_fixture::LEASE;
use redrive_store::{NewRun, RunClaim};
use serde_json::{Value, json};

use crate::jobs::{SECTION, ids, ids_of};
use crate::world::{HOUR, MINUTE, MigratedProgram};

fn runs_are_listed_newest_first_and_filtered(world: MigratedProgram) {
    assert_eq!(world.run("runs list").code, 3);
    for (category, at) in [("a", "2026-01-01"), ("b", "2026-01-02"), ("a", "2026-01-03")] {
        world.run(&format!("runs submit --category {category} --submitted-at {at}T00:00:00Z")).done();
    }
    let days = |line: &str, code: i32| {
        let told = world.json(line, code);
        let day = |run: &Value| run["submitted_at"].as_str().unwrap()[8..10].to_owned();
        told["runs"].as_array().unwrap().iter().map(day).collect::<Vec<_>>()
    };
    assert_eq!(days("runs list", 0), ["03", "02", "01"]);
    assert_eq!(days("runs list --category a --limit 1", 0), ["03"]);
    assert_eq!(days("runs list --category a --state queued", 0), ["03", "01"]);
    assert_eq!(days("runs list --category c", 3), [""; 0]);
    assert_eq!(days("runs list --workload ingest", 3), [""; 0]);
    let told = world.run("runs list --state gone").complaint(2);
    assert!(told.contains("it is one of storing, queued, running, waiting, done, dead"), "{told}");
}

fn a_run_is_found_by_the_beginning_of_its_id(world: MigratedProgram) {
    let id = ids(&world.json("runs submit --category c", 0))[0].0.clone();
    let fields: Vec<String> = world.json(&format!("runs show {id}"), 0).as_object().unwrap().keys().cloned().collect();
    let expected = [
        "id",
        "workload",
        "category",
        "status",
        "state",
        "task_id",
        "retry_count",
        "next_retry_at",
        "error_class",
        "error_message",
        "error_traceback",
        "submitted_at",
        "started_at",
        "last_heartbeat",
        "completed_at",
        "metrics",
    ];
    let (mut fields, mut expected) = (fields, expected.map(str::to_owned).to_vec());
    fields.sort();
    expected.sort();
    assert_eq!(fields, expected);
    assert_eq!(world.json(&format!("runs show {}", &id[..18]), 0)["id"], json!(id));
    assert_eq!(world.run("runs show ffffffff").code, 3);
    assert_eq!(world.run("runs explain ffffffff-ffff-7fff-8fff-ffffffffffff").code, 3);
    assert!(world.run("runs show nonsense").complaint(2).contains("is no id"));
    world.run("runs submit --category c --submitted-at 2026-01-01T00:00:00Z").done();
    world.run("runs submit --category c --submitted-at 2026-01-01T00:00:00Z").done();
    let found = world.json("runs list --limit 0", 0);
    let found: Vec<&str> = found["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    let shared = found[1].bytes().zip(found[2].bytes()).take_while(|(a, b)| a == b).count();
    if shared >= 8 {
        let told = world.run(&format!("runs show {}", &found[1][..shared])).complaint(2);
        assert!(told.contains("is the beginning of several runs"), "{told}");
    }
}

fn a_category_without_a_section_is_said(world: MigratedProgram) {
    let id = ids(&world.json("runs submit --category c", 0))[0].0.clone();
    let told = world.json(&format!("runs explain {id}"), 0);
    assert_eq!((&told["reason"], &told["state"]), (&json!("unknown_category"), &json!("queued")));
    let because = told["because"].as_str().unwrap();
    assert!(because.starts_with("this configuration has no [process] section for category \"c\""), "{because}");
    let told = world.run(&format!("runs explain {id}")).done();
    assert!(told.stdout.starts_with(&format!("{id} is discovered\nunknown_category: ")), "{told}");
}

fn reason(world: &MigratedProgram, id: &str) -> String {
    let told = world.json(&format!("runs explain {id}"), 0);
    format!("{}: {}", told["reason"].as_str().unwrap(), told["because"].as_str().unwrap())
}

/// AR-2, AR-3, AR-6
fn every_reason_is_explained(world: MigratedProgram) {
    let world = world.configured(SECTION);
    let past = world.ago(2 * HOUR);
    let ids = past.submit_named(&["a", "a", "a", "a"]);
    past.fail(1, ErrorClass::Final, "no such file");
    past.complete(1);
    past.wait(past.claim_jobs(1));
    let has = |id: &str, beginning: &str, part: &str| {
        let told = reason(&world, id);
        assert!(told.starts_with(beginning) && told.contains(part), "{told}");
    };
    has(&ids[0], "final_error: its error is final", "`redrive runs retry` starts a fresh count");
    has(&ids[1], "done: it ended with verdict passed", "");
    has(&ids[2], "lease_expired: ", "the next worker ends that try");
    has(&ids[3], "no_worker: no living worker of [process.replays] asks for it", "`redrive worker` starts one");
    let now = world.ago(Duration::ZERO);
    now.is_asked_for(&["a", "b"]);
    has(&ids[3], "queued: it was submitted at", "a worker of [process.replays] that has room");
    now.wait(now.claim_jobs(1));
    has(&ids[3], "in_flight: ", "with a lease until");
    let more = now.submit_named(&["b"]);
    has(&more[0], "at_limit: 2 of at most 2 runs of [process.replays] are under way", "");
    let later = ids_of(&world.json("runs submit --category a --not-before 1h", 0));
    has(&later[0], "waiting: its submitter wants it started at", "59 min");
    let other = ids_of(&world.json("runs submit --category zzz", 0));
    has(&other[0], "unknown_category: ", "add it to the categories of a [process] section");
    world.run(&format!("runs cancel {}", later[0])).done();
    has(&later[0], "cancelled: cancelled by", "");
}

/// An upload is explained by the delays that are configured for uploads.
fn an_upload_is_explained_by_its_own_policy(world: MigratedProgram) {
    let world = world.configured("[ingest.retry]\ndelays = [\"60s\"]\n");
    let past = world.ago(Duration::ZERO);
    let upload = NewRun::new(Work::Ingest { upload: "etc.tar.gz".to_owned() }, None, past.now());
    let id = past.wait(past.store.control().submit(vec![upload])).unwrap()[0].run_id;
    let policy = RetryPolicy { backoff: Backoff::Fixed(vec![MINUTE]), ..RetryPolicy::ingest() };
    for past in [past, world.ahead(HOUR)] {
        let claim = RunClaim::new(Workload::Ingest, "worker", 1, LEASE);
        let claimed = past.wait(past.store.data().claim_runs(claim)).unwrap().remove(0).run;
        let (class, message) = (ErrorClass::Retryable, "time-out".to_owned());
        let fault = Fault { class, message, trace: None, retry_after: None };
        past.wait(past.report(&claimed, End::Failed { fault, metrics: None, policy: policy.clone() }));
    }
    assert_eq!(world.json(&format!("runs explain {id}"), 0)["max_attempts"], 2);
    let told = reason(&world, &id.to_string());
    assert!(told.starts_with("attempts_exhausted: 2 attempts of at most 2 have failed"), "{told}");
}

fn waiting_and_spent_runs_are_explained(world: MigratedProgram) {
    let world = world.configured(SECTION);
    let past = world.ago(30 * MINUTE);
    let ids = past.submit_named(&["a"]);
    past.fail(1, ErrorClass::Retryable, "time-out");
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("no_worker: "), "{told}");
    let now = world.ago(Duration::ZERO);
    now.is_asked_for(&["a"]);
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("due: its wait is over"), "{told}");
    now.fail(1, ErrorClass::Retryable, "time-out");
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("waiting: attempt 2 of at most 3 failed; the next one is at"), "{told}");
    let later = world.ahead(HOUR);
    later.fail(1, ErrorClass::Retryable, "time-out");
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("attempts_exhausted: 3 attempts of at most 3 have failed"), "{told}");
    let ids = now.submit_named(&["a"]);
    now.fail(1, ErrorClass::RateLimited, "429");
    let told = reason(&world, &ids[0]);
    assert!(
        told.starts_with("waiting: attempt 1 of at most 3 failed; the next one is at"),
        "no hint, no patience: {told}"
    );
    let ids = now.submit_named(&["a"]);
    let limited =
        Fault { class: ErrorClass::RateLimited, message: "429".to_owned(), trace: None, retry_after: Some(HOUR) };
    now.end(1, &End::Failed { fault: limited, metrics: None, policy: RetryPolicy::process() });
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("waiting: the source asked for patience until"), "{told}");
}

/// SV-2: an outside worker is told to drain, and to go on.
fn an_outside_worker_is_told_to_drain(world: MigratedProgram) {
    assert!(world.run("runs drain py").complaint(3).contains("redrive status"));
    let now = world.ago(Duration::ZERO);
    now.is_asked_for(&["a"]);
    let drains = || world.json("status", 0)["processes"][0]["drain"].clone();
    world.run("runs drain py --reason moving").done();
    assert_eq!(drains(), json!(true));
    assert!(world.json("state audit show last", 0)["command"].as_str().unwrap().contains("runs drain py"));
    world.run("runs drain py --resume").done();
    assert_eq!(drains(), Value::Null);
}

/// What happened to a run is shown where it is asked for.
fn a_runs_history_is_shown(world: MigratedProgram) {
    let now = world.ago(Duration::ZERO);
    let ids = now.submit_named(&["a"]);
    now.fail(1, ErrorClass::Retryable, "time-out");
    let told = world.json(&format!("runs show {} --history", ids[0]), 0);
    assert_eq!((&told["history"][0]["event"], &told["history"][0]["attempt"]), (&json!("failed"), &json!(1)));
    assert_eq!(world.json(&format!("runs show {}", ids[0]), 0)["history"], Value::Null);
    let shown = world.run(&format!("runs show {} --history", ids[0])).done();
    assert!(shown.stdout.lines().last().unwrap().contains("failed attempt 1 by"), "{shown}");
}

fn doctor_names_categories_that_no_section_serves(world: MigratedProgram) {
    let world = world.configured(SECTION);
    world.run("runs submit --category a").done();
    let told = world.run("doctor --quick");
    assert!(!told.stdout.contains("no [process] section"), "{told}");
    world.run("runs submit --category zzz").done();
    let told = world.run("doctor --quick");
    assert!(told.stdout.contains("no [process] section here serves \"zzz\" (1 queued)"), "{told}");
}

redrive_fixture::on_both!(
    runs_are_listed_newest_first_and_filtered,
    a_run_is_found_by_the_beginning_of_its_id,
    a_category_without_a_section_is_said,
    every_reason_is_explained,
    an_upload_is_explained_by_its_own_policy,
    waiting_and_spent_runs_are_explained,
    an_outside_worker_is_told_to_drain,
    a_runs_history_is_shown,
    doctor_names_categories_that_no_section_serves,
);
