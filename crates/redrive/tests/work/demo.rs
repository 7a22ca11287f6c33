//! `redrive demo`: a new user's first minute.

use std::time::Duration;

use crate::home::Home;
use crate::rig::until;

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
    // What somebody has made his own is not cleared.
    inside.write("notes.txt", "mine");
    assert!(home.run(&["demo"]).complaint(4).contains("redrive-demo holds something else"));
    assert_eq!(inside.read("notes.txt"), "mine");
}

/// An environment that names a store in earnest does not reach the demo; told to stop, it ends at once.
#[test]
fn the_demo_stays_in_its_folder_and_can_be_stopped() {
    let home = Home::new().env("REDRIVE_STORE__URL", "sqlite:earnest.db").env("REDRIVE_RAW__URL", "file:earnest");
    let mut demo = home.command(&["demo", "there"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    until(Duration::from_secs(30), "it is at work", || home.file("there/raw/source=shop").is_dir());
    // One at a time: another would clear what this one is at work on.
    let refused = home.run(&["demo", "there"]).complaint(4);
    assert!(refused.contains("another demo is at work in there; wait for it"), "{refused}");
    let told = std::process::Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(home.files(), ["there"]);
    // It starts over what it has made itself.
    let mut again = home.command(&["demo", "there"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    until(Duration::from_secs(30), "it has begun", || {
        again.try_wait().unwrap().is_some() || home.file("there/redrive.db").exists()
    });
    assert_eq!(again.try_wait().unwrap(), None, "it was refused");
    again.kill().unwrap();
    again.wait().unwrap();
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let home = Home::new();
    std::fs::create_dir(home.file("mine")).unwrap();
    home.write("mine/precious.txt", "x");
    let told = home.run(&["demo", "mine"]).complaint(4);
    let todo = "move it away, or name another folder";
    assert!(told.contains(&format!("mine holds something else (precious.txt); {todo}")), "{told}");
    assert_eq!(home.read("mine/precious.txt"), "x");
}

/// A database and a sink in earnest have the same names as a demo's.
#[test]
fn a_database_and_a_sink_in_earnest_are_left_alone() {
    let home = Home::new();
    let (inside, mine) = (Home::at(&home.file("mine")), "mine/raw/source=ads/precious.jsonl");
    std::fs::create_dir_all(home.file("mine/raw/source=ads")).unwrap();
    home.write(mine, "x");
    assert!(home.run(&["demo", "mine"]).complaint(4).contains("mine holds something else (raw, without"));
    inside.run(&["migrate"]).done();
    inside.sqlite("redrive.db", ADS);
    assert!(home.run(&["demo", "mine"]).complaint(4).contains("without the redrive.toml of a demo"));
    // Nor is a file of this name enough.
    inside.run(&["init", "--force"]).done();
    assert!(home.run(&["demo", "mine"]).complaint(4).contains("redrive.toml that is not a demo's"));
    assert_eq!((home.read(mine).as_str(), count(&inside)), ("x", 1));
}

/// Somebody may have made a demo's folder his own.
#[test]
fn a_demo_that_was_killed_starts_over_where_all_is_its_own() {
    let home = Home::new();
    let inside = Home::at(&home.file("there"));
    play_for_a_while(&home);
    let refused = |what: &str| {
        let told = home.run(&["demo", "there"]).complaint(4);
        assert!(told.contains(&format!("there holds something else ({what}")), "{told}");
    };
    inside.sqlite("redrive.db", ADS);
    refused("a redrive.db with other sources than the demo's");
    assert_eq!(count(&inside), 1);
    inside.sqlite("redrive.db", "DELETE FROM partitions WHERE series_id = 1000");
    std::fs::create_dir(inside.file("raw/source=ads")).unwrap();
    refused("raw/source=ads");
    std::fs::remove_dir(inside.file("raw/source=ads")).unwrap();
    let written = inside.read("redrive.toml");
    inside.write("redrive.toml", &written.replace("max_attempts = 5", "max_attempts = 6"));
    refused("a redrive.toml that is not a demo's");
    inside.write("redrive.toml", &written);
    // A link leads to what no demo has made.
    std::fs::rename(inside.file("raw"), home.file("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.file("elsewhere"), inside.file("raw")).unwrap();
    refused("raw");
    assert!(home.file("elsewhere/source=shop").is_dir());
    std::fs::remove_file(inside.file("raw")).unwrap();
    // What may be left by one that was killed before it had made its tables, or even written its configuration.
    play_for_a_while(&home);
    std::fs::remove_dir_all(inside.file("raw")).unwrap();
    ["redrive.db-wal", "redrive.db-shm"].iter().for_each(|file| drop(std::fs::remove_file(inside.file(file))));
    inside.write("redrive.db", "");
    play_for_a_while(&home);
    std::fs::remove_dir_all(inside.path()).unwrap();
    std::fs::create_dir(inside.path()).unwrap();
    inside.write("redrive.toml", "");
    play_for_a_while(&home);
}

const ADS: &str = "INSERT INTO series VALUES (1000, 'ads', '1', 'daily', 1000, 1000 * 4294967296 + 1000);
                   INSERT INTO partitions (series_id, period, source_no, status, attempt_count, created_at, updated_at) \
                   VALUES (1000, 20454, 1000, 'pending', 0, 1, 1)";

fn count(home: &Home) -> i64 {
    let file = rusqlite::Connection::open(home.file("redrive.db")).unwrap();
    file.query_row("SELECT count(*) FROM partition_state WHERE source = 'ads'", (), |row| row.get(0)).unwrap()
}

/// Begins a demo in the folder `there`, and kills it when it is at work.
fn play_for_a_while(home: &Home) {
    let (raw, earlier) = (home.file("there/raw/source=shop"), home.file("there/raw/source=shop/earlier"));
    if raw.is_dir() {
        std::fs::write(&earlier, "").unwrap();
    }
    let mut demo = home.command(&["demo", "there"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    until(Duration::from_secs(30), "it is at work", || {
        assert_eq!(demo.try_wait().unwrap(), None, "it was refused");
        raw.is_dir() && !earlier.exists()
    });
    demo.kill().unwrap();
    demo.wait().unwrap();
}
