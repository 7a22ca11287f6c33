//! SIGHUP: a worker and a daemon read their configuration again. A good one is taken up while work goes on, a bad one changes
//! nothing, and the table of processes says which one each follows.

use std::time::Duration;

use redrive_fixture::until_within;

use crate::home::TestProgram;
use crate::rig::TestProcesses;

fn settings(sources: &[&str]) -> String {
    let section = |name: &&str| {
        format!(
            "[sources.{name}]\nmax_in_flight = 2\n[sources.{name}.extract]\nkind = \"command\"\n\
             command = [\"/bin/sh\", \"-c\", \"test {name} = slow && while ! test -e go; do sleep 0.05; done; echo '{{}}'\"]\n"
        )
    };
    let sections: String = sources.iter().map(section).collect();
    format!("[worker]\npoll = \"100ms\"\ngrace = \"1s\"\n{sections}")
}

const PATIENCE: Duration = Duration::from_secs(20);
const SERVING_NEW: &str = "SELECT count(*) FROM processes WHERE kind = 'worker' AND serves LIKE '%quick%'";

/// OP-10
fn a_worker_takes_up_a_good_configuration_and_leaves_a_bad_one(subject: TestProgram) {
    let rig = TestProcesses::new(subject, &settings(&["slow"]));
    rig.want("slow", "c", "q", "2026-01-02");
    rig.want("quick", "c", "q", "2026-01-03");
    let mut worker = rig.spawn("worker");
    until_within(PATIENCE, "it is at work", || rig.number("SELECT count(*) FROM runs WHERE state = 'running'") == 2);
    assert_eq!(rig.number("SELECT count(*) FROM processes WHERE kind = 'worker' AND serves LIKE '%slow%'"), 1);

    // A mistake in the file changes nothing, and the worker lives.
    rig.subject.home.write("redrive.toml", "[sources.quick]\nno_such_key = 1\n");
    worker.signal("-HUP");
    until_within(PATIENCE, "it has said so", || rig.log(&worker).contains("the one before it stays"));
    assert!(worker.child.try_wait().unwrap().is_none(), "it lives");
    assert_eq!(rig.number("SELECT count(*) FROM runs WHERE state = 'running'"), 2, "and works on");
    let changed = format!("{}[raw]\nurl = \"file:elsewhere\"\n", settings(&["quick"]));
    rig.subject.home.write("redrive.toml", &changed);
    worker.signal("-HUP");
    until_within(PATIENCE, "it refuses to move", || rig.log(&worker).contains("raw.url has changed"));
    assert_eq!(rig.number(SERVING_NEW), 0);

    // A good one is taken up at once; what is under way by the old one is finished.
    rig.subject.home.write("redrive.toml", &settings(&["quick"]));
    worker.signal("-HUP");
    until_within(PATIENCE, "the new source is served", || rig.number(SERVING_NEW) == 1);
    let done = "SELECT count(*) FROM partitions WHERE status = 'success'";
    until_within(PATIENCE, "the new source's work is done", || rig.number(done) == 3);
    assert_eq!(rig.number("SELECT count(*) FROM runs WHERE state = 'running'"), 2, "{}", rig.logs());
    rig.subject.home.write("go", "");
    until_within(PATIENCE, "the old source's work is done", || rig.number(done) == 5);
    assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), 5, "no attempt was burnt");
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    assert_eq!(rig.number("SELECT count(*) FROM processes"), 0, "an orderly end takes its row away");
}

/// OP-10
fn a_daemon_takes_up_a_good_configuration_and_leaves_a_bad_one(subject: TestProgram) {
    let rig = TestProcesses::new(subject, "");
    let mut daemon = rig.spawn("daemon --interval 1h");
    until_within(PATIENCE, "it has ticked", || rig.log(&daemon).contains(" tick "));
    let beaten = "SELECT count(*) FROM processes WHERE kind = 'daemon'";
    assert_eq!(rig.number(beaten), 1);
    rig.subject.home.write("redrive.toml", "[daemon]\ninterval = \"soon\"\n");
    daemon.signal("-HUP");
    until_within(PATIENCE, "it has said so", || rig.log(&daemon).contains("the one before it stays"));
    let calendar =
        "[sources.ads]\ncustomers = [\"1\"]\ncalendar = { start = \"2026-01-01\" }\n[sources.ads.queries.daily]\n";
    rig.subject.home.write("redrive.toml", calendar);
    daemon.signal("-HUP");
    let wanted = "SELECT count(*) FROM partitions";
    until_within(PATIENCE, "the new calendar's days are wanted", || rig.number(wanted) > 100);
    daemon.signal("-TERM");
    assert_eq!(daemon.code(), Some(0), "{}", rig.log(&daemon));
    assert_eq!(rig.number(beaten), 0);
}

redrive_fixture::on_both!(
    a_worker_takes_up_a_good_configuration_and_leaves_a_bad_one,
    a_daemon_takes_up_a_good_configuration_and_leaves_a_bad_one,
);
