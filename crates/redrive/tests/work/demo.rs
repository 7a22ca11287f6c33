//! `redrive demo`: a new user's first minute.

use crate::home::Home;

#[test]
fn the_demo_ends_with_every_invariant_held() {
    let home = Home::new();
    let told = home.run(&["demo", "-o", "json"]).done();
    let summary = told.json();
    assert_eq!(summary["partitions"]["partitions"], 360, "{told}");
    assert!(summary["worker"]["rate_limited"].as_u64().unwrap() > 0, "{told}");
    assert!(summary["partitions"]["retried"].as_u64().unwrap() > 0, "{told}");
    assert!(!summary["partitions"]["stopped"].as_object().unwrap().is_empty(), "{told}");
    assert!(summary["seconds"].as_f64().unwrap() < 60.0, "{told}");
    assert!(summary["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{told}");
    // What it leaves behind can be looked at.
    let inside = Home::at(&home.file("redrive-demo"));
    inside.run(&["doctor"]).done();
    inside.run(&["state", "inspect", "--status", "failed"]).done();
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let home = Home::new();
    std::fs::create_dir(home.file("mine")).unwrap();
    home.write("mine/precious.txt", "x");
    let told = home.run(&["demo", "mine"]).complaint(4);
    assert!(told.contains("mine holds something else; move it away, or name another folder"), "{told}");
    assert_eq!(home.read("mine/precious.txt"), "x");
}
