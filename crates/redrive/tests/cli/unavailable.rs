//! A database that cannot be used: one line on stderr, nothing on stdout, exit 6, and nothing half-done.

use std::net::TcpListener;

use crate::home::{Home, TestProgram};
use redrive_fixture::Mount;

/// The commands that cannot go on without the database.
const NEEDY: [&[&str]; 3] =
    [&["migrate"], &["bench", "queue", "--jobs", "10"], &["bench", "state", "--partitions", "10"]];

/// A port on loopback that nobody listens on, below those that the system gives to clients.
fn closed_port() -> u16 {
    (21_000..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let url = format!("postgres://u:hunter2@127.0.0.1:{}/db", closed_port());
    let home = Home::new().env("REDRIVE_STORE__URL", &url);
    for command in NEEDY {
        let line = home.run(command).complaint(6);
        assert!(line.contains("cannot open postgres://u:***@127.0.0.1:") && line.contains("refused"), "{line}");
    }
    let told = home.run(&["doctor"]);
    assert_eq!(told.code, 6, "{told}");
    assert!(told.stdout.contains("fail  store"), "{told}");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn force_does_not_make_a_lost_server_another_kind_of_error() {
    let url = format!("postgres://u:hunter2@127.0.0.1:{}/db", closed_port());
    for bench in ["queue", "state"] {
        let line = Home::new().run(&["bench", bench, "--force", "--store", &url]).complaint(6);
        assert!(line.contains("127.0.0.1"), "{line}");
    }
}

#[test]
fn a_database_that_is_not_there_is_told() {
    let subject = TestProgram::postgres();
    let name = subject.url.rsplit('/').next().unwrap();
    let home = Home::new().env("REDRIVE_STORE__URL", &subject.url.replace(name, "no_such_database"));
    for command in NEEDY {
        let line = home.run(command).complaint(6);
        assert!(line.contains("\"no_such_database\" does not exist"), "{line}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let home = Home::new().env("REDRIVE_STORE__URL", "sqlite:no/such/redrive.db");
    for command in NEEDY {
        let line = home.run(command).complaint(6);
        assert!(line.contains("no/such"), "{line}");
    }
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn a_file_that_is_no_database_is_told_and_left_alone() {
    let home = Home::new();
    let notes = "these are notes of mine\n".repeat(100);
    home.write("redrive.db", &notes);
    for command in NEEDY {
        let line = home.run(command).complaint(6);
        assert!(line.contains("redrive.db") && line.contains("not a database"), "{line}");
    }
    assert_eq!(home.read("redrive.db"), notes);
    assert_eq!(home.files(), ["redrive.db"]);
}

/// The same words from everybody who meets it.
#[test]
fn a_file_in_place_of_the_raw_sink_is_told() {
    let home = Home::with_config("[sources.ads.extract]\nkind = \"sample\"\n");
    home.run(&["migrate"]).done();
    home.write("raw", "notes of mine");
    let why = "a file stands where a directory should be; move it or choose another directory";
    let line = home.run(&["worker", "--drain"]).complaint(6);
    assert!(line.contains("file:raw") && line.contains(why), "{line}");
    let told = home.run(&["doctor"]);
    assert_eq!(told.code, 6, "{told}");
    assert!(told.stdout.contains(why), "{told}");
    assert_eq!(home.read("raw"), "notes of mine");
}

fn a_schema_from_the_future_is_refused_with_both_versions(subject: TestProgram) {
    subject.home.run(&["migrate"]).done();
    subject.execute(match subject.kind {
        "sqlite" => "PRAGMA journal_mode = delete; PRAGMA user_version = 99",
        _ => "INSERT INTO redrive_schema VALUES (99)",
    });
    let before = subject.inventory();
    let line = subject.home.run(&["migrate"]).complaint(6);
    assert!(line.contains("version 99") && line.contains("up to 1; upgrade redrive"), "{line}");
    let line = subject.home.run(&["init", "--store", &subject.url]).complaint(6);
    assert!(line.contains("upgrade redrive"), "{line}");
    assert_eq!(subject.inventory(), before);
}

redrive_fixture::on_both!(a_schema_from_the_future_is_refused_with_both_versions);

#[test]
fn a_read_only_folder_is_told_and_nothing_is_touched() {
    let Some(mount) = Mount::of_size("8m") else { return };
    let home = Home::at(mount.path());
    home.run(&["init"]).done();
    // Closes the file properly, whatever the program left open when it ended.
    home.sqlite("redrive.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    let files = home.files();
    mount.remount("ro");
    for command in
        NEEDY.into_iter().chain([["init", "--force"].as_slice(), &["init", "--store", "sqlite:new.db", "--force"]])
    {
        let line = home.run(command).complaint(6);
        assert!(
            ["readonly", "read-only", "Read-only", "unable to open", "cannot be written"]
                .iter()
                .any(|word| line.contains(word)),
            "{line}"
        );
    }
    assert_eq!(home.files(), files);
    mount.remount("rw");
    home.run(&["doctor"]).done();
}

#[test]
fn a_configuration_that_cannot_be_written_is_told() {
    let Some(mount) = Mount::of_size("8m") else { return };
    let (subject, home) = (TestProgram::postgres(), Home::at(mount.path()));
    mount.remount("ro");
    let line = home.run(&["init", "--store", &subject.url]).complaint(6);
    assert!(line.contains("redrive.toml") && line.contains("ead-only"), "{line}");
    let line = home.run(&["init", "sub", "--store", &subject.url]).complaint(6);
    assert!(line.contains("sub") && line.contains("ead-only"), "{line}");
}

#[test]
fn a_full_disk_is_told_and_the_command_works_once_there_is_room() {
    let Some(mount) = Mount::of_size("128k") else { return };
    let home = Home::at(mount.path());
    for command in [["init"].as_slice(), &["migrate"]] {
        let line = home.run(command).complaint(6);
        assert!(line.contains("no space left for") && line.contains("redrive.db"), "{line}");
    }
    assert!(!home.file("redrive.toml").exists(), "{:?}", home.files());
    mount.remount("size=8m");
    home.run(&["init"]).done();
    home.run(&["doctor"]).done();
}

#[test]
fn a_bench_that_fills_the_disk_is_told_and_leaves_nothing_behind() {
    let Some(mount) = Mount::of_size("2m") else { return };
    let home = Home::at(mount.path());
    for bench in [
        ["bench", "queue", "--jobs", "100000"].as_slice(),
        &["bench", "queue", "--baseline", "--jobs", "100000"],
        &["bench", "state"],
    ] {
        let told = home.run(bench);
        assert!(home.files().is_empty(), "{bench:?} left {:?}\n{told}", home.files());
        let line = told.complaint(6);
        assert!(line.contains("no space left") || line.contains("full"), "{line}");
    }
}
