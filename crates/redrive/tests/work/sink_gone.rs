//! A raw sink that vanishes under its workers, as an unmounted volume does: they rest, say so, and burn nothing.

use std::path::PathBuf;
use std::time::Duration;

use redrive_fixture::{S3, until_within};

use crate::home::{Home, TestProgram};
use crate::rig::TestProcesses;

const SETTINGS: &str = r#"
[worker]
concurrency = 2
poll = "100ms"
[sources.slow.extract]
kind = "sample"
records = 10
latency = "200ms"
"#;

const DONE: &str = "SELECT count(*) FROM partitions WHERE status = 'success' AND attempt_count = 1";
const NOT_THERE: &str = "the raw sink is not at";

fn refused(rig: &TestProcesses, command: &str, why: &str) {
    let told = rig.redrive(command);
    assert!(told.code == 6 && told.stderr.contains(why), "{told}");
}

fn a_sink_that_vanishes_is_waited_for(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let raw = rig.subject.home.file("raw");
    let away: PathBuf = rig.subject.home.file("away");
    rig.want("slow", "c", "q", "2026-01-30");
    let mut worker = rig.spawn("worker");
    until_within(Duration::from_secs(60), "it is at work", || rig.number(DONE) >= 2);
    std::fs::rename(&raw, &away).unwrap();
    std::fs::create_dir(&raw).unwrap();
    until_within(Duration::from_secs(60), "it has noticed", || rig.log(&worker).contains(NOT_THERE));
    let line = rig.redrive("data ls").complaint(6);
    assert!(line.contains(NOT_THERE) && line.contains("redrive init --adopt-sink"), "{line}");
    let told = rig.redrive("doctor");
    assert!(told.code == 6 && told.stdout.contains(NOT_THERE), "{told}");
    refused(&rig, "worker --drain", NOT_THERE);
    assert_eq!(std::fs::read_dir(&raw).unwrap().count(), 0, "nothing is written beside the sink");
    std::fs::remove_dir(&raw).unwrap();
    std::fs::rename(&away, &raw).unwrap();
    until_within(Duration::from_secs(120), "all is done by one attempt each", || rig.number(DONE) == 30);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.logs());
    assert_eq!(rig.number("SELECT count(*) FROM run_failures"), 0);
    rig.redrive("doctor").done();
}

fn another_place_is_refused_until_it_is_adopted(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.want("slow", "c", "q", "2026-01-02");
    rig.redrive("worker --drain").done();
    std::fs::rename(rig.subject.home.file("raw"), rig.subject.home.file("before")).unwrap();
    rig.want("slow", "c", "p", "2026-01-02");
    refused(&rig, "worker --drain", "redrive init --adopt-sink");
    rig.subject.home.write("app.tgz", "");
    refused(&rig, "ingest upload app.tgz", NOT_THERE);
    rig.redrive("init --adopt-sink").done();
    rig.redrive("worker --drain").done();
    assert_eq!(rig.number(DONE), 4);
}

#[test]
fn on_s3_another_prefix_is_refused_until_it_is_adopted() {
    let bucket = S3::shared().fresh_bucket();
    let settings = [
        ("AWS_ACCESS_KEY_ID", bucket.access_key.as_str()),
        ("AWS_SECRET_ACCESS_KEY", &bucket.secret_key),
        ("AWS_REGION", &bucket.region),
        ("AWS_ENDPOINT_URL", &bucket.endpoint),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let mut rig = TestProcesses::new(redrive_fixture::TestDatabase::sqlite().into(), SETTINGS);
    let at = |rig: &mut TestProcesses, prefix: &str| {
        let url = format!("s3://{}/{prefix}", bucket.name);
        let home = Home::at(rig.subject.home.path()).env("REDRIVE_RAW__URL", &url);
        rig.subject.home = settings.iter().fold(home, |home, (name, value)| home.env(name, value));
    };
    at(&mut rig, "one");
    rig.want("slow", "c", "q", "2026-01-02");
    rig.redrive("worker --drain").done();
    at(&mut rig, "two");
    rig.want("slow", "c", "p", "2026-01-02");
    refused(&rig, "worker --drain", NOT_THERE);
    rig.redrive("init --adopt-sink").done();
    rig.redrive("worker --drain").done();
    at(&mut rig, "one");
    refused(&rig, "worker --drain", "another raw sink");
}

redrive_fixture::on_both!(a_sink_that_vanishes_is_waited_for, another_place_is_refused_until_it_is_adopted);
