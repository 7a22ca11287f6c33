//! Jobs through the program: found by `discover`, handled by commands.

use std::time::Duration;

use redrive_fixture::until_within;

use crate::home::TestProgram;
use crate::rig::TestProcesses;

/// `find` lists jobs; `verify` does with each what its payload says.
const SETTINGS: &str = r#"
[worker]
poll = "100ms"
[process.replays]
categories = ["any%", "100%"]
command = ["sh", "./verify"]
discover = { command = ["cat", "jobs"], interval = "1h" }
[process.replays.retry]
base = "100ms"
max_attempts = 3
"#;

const VERIFY: &str = r#"
read -r job
echo "$job" >> seen
case "$job" in
    *'"payload":"pass"'*) echo working; echo '{"verdict":"passed","metrics":{"frames":7}}' ;;
    *'"payload":"review"'*) echo '{"verdict":"needs_review"}' ;;
    *'"payload":"damaged"'*) echo 'cannot be read' >&2; exit 65 ;;
    *'"payload":"flaky"'*) test "$REDRIVE_ATTEMPT" = 2 || exit 75; echo '{"verdict":"failed"}' ;;
    *'"payload":"silent"'*) ;;
    *'"payload":"odd"'*) echo '{"verdict":"maybe"}' ;;
esac
"#;

fn lines(payloads: &[&str]) -> String {
    let line = |payload: &&str| format!(r#"{{"external_id":"{payload}","category":"any%","payload":"{payload}"}}"#);
    payloads.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn jobs_are_found_and_handled_until_nothing_is_due(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.subject.home.write("verify", VERIFY);
    rig.subject.home.write("jobs", &lines(&["pass", "review", "damaged", "flaky", "silent", "odd"]));
    rig.redrive("worker --drain").done();
    let mut worker = rig.spawn("worker");
    let unsettled = "SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting')";
    until_within(Duration::from_secs(60), "all is settled", || rig.number(unsettled) == 0);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0));
    let count = |condition: &str| rig.number(&format!("SELECT count(*) FROM runs WHERE {condition}"));
    assert_eq!(count("1 = 1"), 6, "nothing was submitted twice");
    assert_eq!(count("external_id = 'pass' AND verdict = 'passed' AND metrics LIKE '%\"frames\":7%'"), 1);
    assert_eq!(count("external_id = 'review' AND verdict = 'needs_review'"), 1);
    assert_eq!(count("external_id = 'flaky' AND verdict = 'failed' AND attempt = 2 AND error_class IS NULL"), 1);
    let damaged = "error_class = 'final' AND attempt = 1 AND error_traceback LIKE '%cannot be read%'";
    assert_eq!(count(&format!("external_id = 'damaged' AND state = 'dead' AND {damaged}")), 1);
    for odd in ["silent", "odd"] {
        let exhausted =
            "state = 'dead' AND attempt = 3 AND error_class = 'retryable' AND error_message LIKE '%verdict%'";
        assert_eq!(count(&format!("external_id = '{odd}' AND {exhausted}")), 1, "{odd}");
    }
}

/// AR-11: first attempt or retry, retry scheduled with its delay, attempts exhausted, retry succeeded.
fn the_log_says_what_becomes_of_every_attempt(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.subject.home.write("verify", VERIFY);
    rig.subject.home.write("jobs", &lines(&["flaky", "silent", "damaged"]));
    let mut worker = rig.spawn("worker");
    let settled = "SELECT count(*) FROM runs WHERE state IN ('done', 'dead')";
    until_within(Duration::from_secs(60), "all is settled", || rig.number(settled) == 3);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0));
    let log = rig.log(&worker);
    let count = |texts: &[&str]| log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count();
    assert_eq!(count(&["first attempt started", "attempt=1"]), 3, "{log}");
    assert_eq!((count(&["retry started", "attempt=2"]), count(&["retry started", "attempt=3"])), (2, 1), "{log}");
    assert_eq!(count(&["retry scheduled", "attempt=1", "delay_s=0.1", "retryable"]), 2, "{log}");
    assert_eq!(count(&["retry scheduled", "attempt=2", "delay_s=0.2"]), 1, "{log}");
    assert_eq!(count(&["attempts exhausted", "attempt=3"]), 1, "{log}");
    assert_eq!(count(&["retry succeeded", "attempt=2", "failed"]), 1, "{log}");
    assert_eq!(count(&["final error", "attempt=1", "cannot be read"]), 1, "{log}");
}

/// AR-11: also of attempts whose worker has died.
fn the_log_says_what_becomes_of_a_dead_workers_attempts(subject: TestProgram) {
    let rig = TestProcesses::new(
        subject,
        "[worker]\npoll = '100ms'\nlease = '3s'\nheartbeat = '1s'\n[process.s]\ncategories = ['s']\ncommand = ['sleep', '600']\n",
    );
    rig.redrive("runs submit --category s --external-id again").done();
    rig.redrive("runs submit --category s --external-id last --max-attempts 1").done();
    let mut worker = rig.spawn("worker");
    let running = "SELECT count(*) FROM run_claims";
    until_within(Duration::from_secs(60), "both run", || rig.number(running) == 2);
    worker.kill();
    let mut other = rig.spawn("worker");
    let ended = "SELECT count(*) FROM runs WHERE state IN ('waiting', 'dead')";
    until_within(Duration::from_secs(60), "their leases have passed", || rig.number(ended) == 2);
    other.signal("-TERM");
    assert_eq!(other.code(), Some(0));
    let log = rig.log(&other);
    let count = |texts: &[&str]| log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count();
    assert_eq!(count(&["lease expired; retry scheduled", "again", "attempt=1", "delay_s="]), 1, "{log}");
    assert_eq!(count(&["lease expired; attempts exhausted", "last", "attempt=1"]), 1, "{log}");
}

/// On SQLite, where another process's cancel is not announced, too: long before the next heartbeat.
fn a_cancel_by_another_process_reaches_the_program_at_once(subject: TestProgram) {
    let settings = "[worker]\npoll = '100ms'\nlease = '2h'\nheartbeat = '30m'\n\
                    [process.s]\ncategories = ['s']\ncommand = ['sh', '-c', 'echo $$ > begun; exec sleep 600']\n";
    let rig = TestProcesses::new(subject, settings);
    let worker = rig.spawn("worker");
    rig.redrive("runs submit --category s").done();
    let has_begun = || std::fs::read_to_string(rig.subject.home.file("begun")).is_ok_and(|pid| pid.ends_with('\n'));
    until_within(Duration::from_secs(60), "the program has begun", has_begun);
    let program = rig.subject.home.read("begun");
    rig.redrive("runs cancel --category s --yes").done();
    let is_there = || std::path::Path::new("/proc").join(program.trim()).exists();
    until_within(Duration::from_secs(60), "the program is gone", || !is_there());
    drop(worker);
}

/// Sections are asked while others are worked on, and one that cannot be asked is told.
fn a_drain_asks_all_sections_at_once_and_says_which_failed(subject: TestProgram) {
    // Each listing waits for the job that the other one brings.
    let finds = |own: &str, other: &str| {
        format!(
            "[process.{own}]\ncategories = ['{own}']\ncommand = ['sh', './done', '{own}']\n\
             discover = {{ command = ['sh', './find', '{own}', '{other}'], timeout = '60s' }}\n"
        )
    };
    let broken = "[process.c]\ncategories = ['c']\ncommand = ['true']\ndiscover = { command = ['false'] }\n";
    let rig = TestProcesses::new(subject, &format!("{}{}{broken}", finds("a", "b"), finds("b", "a")));
    rig.subject
        .home
        .write("find", "echo '{\"external_id\":\"1\"}'; touch found-$1; while ! test -e found-$2; do sleep 0.05; done");
    rig.subject.home.write("done", "echo '{\"verdict\":\"passed\"}'");
    let told = rig.redrive("worker --drain -o json");
    assert_eq!(told.code, 1, "{told}");
    let counts = told.json();
    assert_eq!((&counts["accepted"], &counts["discover_failed"]), (&2.into(), &1.into()), "{told}");
    let told = rig.redrive("worker --drain");
    assert!(told.code == 1 && told.stdout.contains("the discover of one section failed"), "{told}");
}

/// What is asked for must be there; what is wrong is named.
fn a_worker_refuses_what_it_cannot_serve(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let told = rig.redrive("worker --drain --category any").complaint(2);
    assert!(told.contains("no process section names the category \"any\"; known: 100%, any%"), "{told}");
    let told = rig.redrive("worker --drain --workload extract").complaint(2);
    assert!(told.contains("there is no source that a worker could extract"), "{told}");
    rig.subject.home.write("redrive.toml", "[process.a]\ncategories = ['x']\n[process.b]\ncategories = ['y', 'x']\n");
    for command in ["worker --drain", "runs list", "daemon --once"] {
        let told = rig.redrive(command).complaint(2);
        let twice = "redrive.toml:4: process.b.categories: the category \"x\" is in process.a and in process.b";
        assert!(told.contains(twice), "{told}");
    }
    rig.subject.home.write("redrive.toml", "[process.a]\ncategories = ['x']\n");
    let told = rig.redrive("worker --drain --category x").complaint(2);
    assert!(told.contains("process.a has no handler"), "{told}");
}

redrive_fixture::on_both!(
    a_cancel_by_another_process_reaches_the_program_at_once,
    the_log_says_what_becomes_of_a_dead_workers_attempts,
    a_drain_asks_all_sections_at_once_and_says_which_failed,
    the_log_says_what_becomes_of_every_attempt,
    a_worker_refuses_what_it_cannot_serve,
    jobs_are_found_and_handled_until_nothing_is_due
);
