//! What is not there when a worker starts holds its own source or section, and no other.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use redrive_fixture::until_within;

use crate::home::TestProgram;
use crate::rig::TestProcesses;

const PATIENCE: Duration = Duration::from_secs(30);

const SETTINGS: &str = r#"
[worker]
poll = "100ms"
[sources.programless.extract]
kind = "command"
command = ["./extract"]
[sources.secretless.extract]
kind = "command"
command = ["/bin/sh", "-c", "echo '{}'"]
env = { TOKEN = { file = "token" } }
[sources.idle.extract]
kind = "http"
url = "https://api.example.com/"
ca_file = "none.pem"
[sources.schemaless]
extract = { kind = "command", command = ["/bin/sh", "-c", "echo '{}'"] }
validate = { schema = "none.json" }
[sources.well.extract]
kind = "command"
command = ["/bin/sh", "-c", "echo '{}'"]
[process.programless]
categories = ["lost"]
command = ["./handle"]
[process.well]
categories = ["well"]
command = ["/bin/sh", "-c", "echo '{\"verdict\":\"passed\"}'"]
"#;

fn write_program(rig: &TestProcesses, name: &str, text: &str) {
    rig.subject.home.write(name, text);
    std::fs::set_permissions(rig.subject.home.file(name), Permissions::from_mode(0o755)).unwrap();
}

/// OP-5
fn what_is_missing_at_the_start_holds_only_its_source(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    for source in ["programless", "secretless", "schemaless", "well"] {
        rig.want(source, "c", "q", "2026-01-05");
    }
    for category in ["lost", "well"] {
        rig.redrive(&format!("runs submit --category {category} --external-id 1")).done();
    }
    let mut worker = rig.spawn("worker");
    let done = "SELECT count(*) FROM partitions WHERE status = 'success'";
    until_within(PATIENCE, "what is well is done", || {
        rig.number(done) == 5
            && rig.number("SELECT count(*) FROM runs WHERE state = 'done' AND workload = 'process'") == 1
    });
    let held = rig.redrive("state hold list -o json").done().json();
    for (source, part) in
        [("programless", "extract"), ("secretless", "token"), ("idle", "none.pem"), ("schemaless", "none.json")]
    {
        let hold = held["holds"].as_array().unwrap().iter().find(|hold| hold["source"] == source).unwrap();
        let why = hold["why"].as_str().unwrap();
        assert!(why.starts_with("source_unusable: ") && why.contains(part), "{why}");
    }
    let explain = "state explain --source secretless --customer-id c --query-name q --logical-date 2026-01-05 -o json";
    assert_eq!(rig.redrive(explain).done().json()["reason"], "source_unusable");
    assert_eq!(rig.number("SELECT count(*) FROM runs WHERE workload = 'extract'"), 5, "nothing else was started");
    assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), 5, "no attempt was burnt");
    assert_eq!(rig.number("SELECT sum(attempt) FROM runs WHERE workload = 'process'"), 1, "{}", rig.logs());

    rig.subject.home.write("token", "s3cr3t");
    rig.subject.home.write("none.json", "{}");
    write_program(&rig, "extract", "#!/bin/sh\necho '{}'\n");
    write_program(&rig, "handle", "#!/bin/sh\necho '{\"verdict\":\"passed\"}'\n");
    worker.signal("-HUP");
    until_within(PATIENCE, "after a reload all is done", || {
        rig.number(done) == 20
            && rig.number("SELECT count(*) FROM runs WHERE state = 'done' AND workload = 'process'") == 2
    });
    assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), 20, "no attempt was burnt");
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
}

redrive_fixture::on_both!(what_is_missing_at_the_start_holds_only_its_source);
