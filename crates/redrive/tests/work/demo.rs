//! `redrive demo`: a new user's first minute.

use std::time::Duration;

use redrive_fixture::until_within;

use crate::home::Home;

#[test]
fn the_demo_ends_with_every_invariant_held() {
    let home = Home::new();
    let told = home.run(&["demo", "-o", "json"]).done();
    let summary = told.json();
    assert_eq!(summary["partitions"]["partitions"], 360, "{told}");
    let jobs = &summary["jobs"];
    assert_eq!(jobs["jobs"], 300, "{told}");
    assert!(jobs["retried"].as_u64().unwrap() > 0 && jobs["verdicts"]["needs_review"].as_u64().unwrap() > 0, "{told}");
    let stopped: Vec<&String> = jobs["stopped"].as_object().unwrap().keys().collect();
    for why in ["final: ", "attempts_exhausted: "] {
        assert!(stopped.iter().any(|reason| reason.starts_with(why)), "{why} {told}");
    }
    assert!(summary["worker"]["rate_limited"].as_u64().unwrap() > 0, "{told}");
    assert!(summary["partitions"]["retried"].as_u64().unwrap() > 0, "{told}");
    assert!(!summary["partitions"]["stopped"].as_object().unwrap().is_empty(), "{told}");
    assert!(summary["seconds"].as_f64().unwrap() < 60.0, "{told}");
    assert!(summary["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{told}");
    let uploads = summary["uploads"].as_array().unwrap();
    assert_eq!((&uploads[0]["status"], &uploads[1]["status"]), (&"COMPLETE".into(), &"FAILED".into()), "{told}");
    // What it leaves behind can be looked at.
    let inside = Home::at(&home.file("redrive-demo"));
    inside.run(&["doctor"]).done();
    inside.run(&["state", "inspect", "--status", "failed"]).done();
    inside.run(&["ingest", "search", "--word", "failed_orders"]).done();
}

/// An environment that names a store in earnest does not reach the demo; told to stop, it ends at once.
#[test]
fn the_demo_stays_in_its_folder_and_can_be_stopped() {
    let home = Home::new().env("REDRIVE_STORE__URL", "sqlite:earnest.db").env("REDRIVE_RAW__URL", "file:earnest");
    let mut demo = home.command(&["demo", "there"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    until_within(Duration::from_secs(30), "it is at work", || home.file("there/raw/source=shop").is_dir());
    // Another one does not touch what this one works on.
    let refused = home.run(&["demo", "there"]).complaint(4);
    assert!(refused.contains("there is not empty; move it away, or name another folder"), "{refused}");
    let told = std::process::Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(home.files(), ["there"]);
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let home = Home::new();
    std::fs::create_dir(home.file("mine")).unwrap();
    home.write("mine/precious.txt", "x");
    let told = home.run(&["demo", "mine"]).complaint(4);
    assert!(told.contains("mine is not empty; move it away, or name another folder"), "{told}");
    assert_eq!(home.files(), ["mine"]);
    assert_eq!(home.read("mine/precious.txt"), "x");
    assert_eq!(Home::at(&home.file("mine")).files(), ["precious.txt"]);
}

/// Without a name, each demo takes a folder of its own, also beside one that is still at work.
#[test]
fn demos_run_side_by_side() {
    let home = Home::new();
    let start = || home.command(&["demo"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut demos = [start(), start()];
    for folder in ["redrive-demo", "redrive-demo-2"] {
        let raw = home.file(&format!("{folder}/raw/source=shop"));
        until_within(Duration::from_secs(30), "both are at work", || raw.is_dir());
    }
    for demo in &mut demos {
        assert_eq!(demo.try_wait().unwrap(), None, "it was refused");
        demo.kill().unwrap();
        demo.wait().unwrap();
    }
    assert_eq!(home.files(), ["redrive-demo", "redrive-demo-2"]);
}
