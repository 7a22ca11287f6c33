//! `redrive bench`, at sizes that take no time: what it reports and what it leaves behind.

use std::process::{Command, Stdio};

use redrive_fixture::until;
use serde_json::Value;

use crate::home::{Home, TestProgram, Told};

const QUEUE: [&str; 9] = ["bench", "queue", "--jobs", "200", "--batch", "50", "--pickups", "5", "-q"];
const STATE: [&str; 8] = ["bench", "state", "--partitions", "500", "--due", "100", "--rows", "20000"];

/// The object's fields, sorted.
fn fields(report: &Value) -> Vec<&str> {
    let mut names: Vec<_> = report.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn assert_positive(report: &Value, names: &[&str]) {
    for name in names {
        assert!(report[name].as_f64().is_some_and(|value| value > 0.0 && value.is_finite()), "{name} in {report}");
    }
}

fn the_queue_is_measured_beside_a_bare_loop(subject: TestProgram) {
    let before = subject.inventory();
    let told = subject.home.run(&[QUEUE.as_slice(), &["--baseline", "-o", "json"]].concat()).done();
    assert_eq!(told.stderr, "");
    let report = told.json();
    assert_eq!(
        fields(&report),
        [
            "baseline_drain_per_s",
            "baseline_enqueue_per_s",
            "batch",
            "bench",
            "claim_us",
            "claim_us_beside_history",
            "command_overhead_ms",
            "commands_per_s",
            "drain_per_s",
            "drain_ratio",
            "enqueue_per_s",
            "enqueue_ratio",
            "jobs",
            "limit_drain_per_s",
            "limit_ratio",
            "limit_single_submit_per_s",
            "pickup_p50_ms",
            "pickup_p99_ms",
            "single_submit_per_s",
            "single_submit_ratio",
            "store",
            "worker_drain_per_s",
            "worker_limit_ratio",
            "worker_pickup_p50_ms",
            "worker_pickup_p99_ms",
            "workers",
            "xargs_commands_per_s"
        ]
    );
    assert_eq!((&report["bench"], &report["store"]), (&Value::from("queue"), &Value::from(subject.kind)));
    assert_eq!((&report["jobs"], &report["batch"], &report["workers"]), (&200.into(), &50.into(), &2.into()));
    assert_positive(&report, &["enqueue_per_s", "drain_per_s", "baseline_enqueue_per_s", "baseline_drain_per_s"]);
    assert_positive(&report, &["enqueue_ratio", "drain_ratio", "pickup_p50_ms", "pickup_p99_ms"]);
    assert!(report["pickup_p50_ms"].as_f64() <= report["pickup_p99_ms"].as_f64(), "{report}");
    assert_eq!(subject.inventory(), before);
}

fn without_a_baseline_there_is_nothing_to_compare_with(subject: TestProgram) {
    let report = subject.home.run(&[QUEUE.as_slice(), &["-o", "json", "--workers", "3"]].concat()).done().json();
    for name in ["baseline_enqueue_per_s", "baseline_drain_per_s", "enqueue_ratio", "drain_ratio"] {
        assert_eq!(report[name], Value::Null, "{report}");
    }
    assert_eq!(report["workers"], 3);
}

/// A whole worker, with Rust code and with commands.
fn a_worker_is_measured_beside_a_minimal_queue_and_xargs(subject: TestProgram) {
    let more = ["--baseline", "--worker", "--commands", "20", "-o", "json"];
    let report = subject.home.run(&[QUEUE.as_slice(), &more].concat()).done().json();
    assert_positive(&report, &["limit_drain_per_s", "worker_drain_per_s", "worker_limit_ratio"]);
    assert_positive(&report, &["worker_pickup_p50_ms", "worker_pickup_p99_ms"]);
    assert_positive(&report, &["commands_per_s", "xargs_commands_per_s"]);
    let overhead = report["command_overhead_ms"].as_f64();
    assert!(overhead.is_some_and(f64::is_finite), "{report}");
}

fn the_state_is_measured_beside_plain_sql(subject: TestProgram) {
    let before = subject.inventory();
    let told = subject.home.run(&[STATE.as_slice(), &["-q", "--baseline", "-o", "json"]].concat()).done();
    assert_eq!(told.stderr, "");
    let report = told.json();
    assert_eq!(
        fields(&report),
        [
            "baseline_retry_per_s",
            "bench",
            "due_found",
            "due_ms",
            "due_plan",
            "failed",
            "inspect_key_p50_ms",
            "inspect_page_p50_ms",
            "partitions",
            "retry_per_s",
            "retry_ratio",
            "rows",
            "same_effect_ratio",
            "same_effect_retry_per_s",
            "sequential_scan",
            "store"
        ]
    );
    assert_eq!((&report["bench"], &report["store"]), (&Value::from("state"), &Value::from(subject.kind)));
    assert_eq!((&report["partitions"], &report["due_found"]), (&500.into(), &100.into()));
    assert_positive(&report, &["retry_per_s", "baseline_retry_per_s", "retry_ratio", "due_ms"]);
    assert_positive(&report, &["inspect_key_p50_ms", "inspect_page_p50_ms"]);
    assert_eq!(report["sequential_scan"], false, "{report}");
    let plan = report["due_plan"].as_array().unwrap();
    assert!(plan.iter().any(|line| line.as_str().unwrap().contains("partitions_due")), "{report}");
    assert_eq!(subject.inventory(), before);
}

fn a_database_of_its_own_is_measured_beside_and_left_alone(subject: TestProgram) {
    subject.home.run(&["migrate"]).done();
    let before = subject.inventory();
    subject.home.run(&QUEUE).done();
    assert_eq!(subject.inventory(), before);
}

fn somebody_elses_database_is_measured_only_by_force(subject: TestProgram) {
    subject.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY)");
    let before = subject.inventory();
    for bench in [QUEUE.as_slice(), &STATE] {
        let line = subject.home.run(bench).complaint(4);
        assert!(line.contains("holds another program's tables; use --force"), "{line}");
    }
    assert_eq!(subject.inventory(), before);
    subject.home.run(&[QUEUE.as_slice(), &["--force", "--baseline"]].concat()).done();
    assert_eq!(subject.inventory(), before);
}

fn the_store_can_be_named_on_the_command_line(subject: TestProgram) {
    let home = Home::with_config("[store]\nurl = \"sqlite:no/such/redrive.db\"\n");
    let url = subject.url.replace("sqlite:", &format!("sqlite:{}/", subject.home.path().display()));
    let report = home.run(&[QUEUE.as_slice(), &["--store", &url, "-o", "json"]].concat()).done().json();
    assert_eq!(report["store"], subject.kind);
    assert_eq!(home.files(), ["redrive.toml"]);
    assert!(subject.home.files().is_empty(), "{:?}", subject.home.files());
}

/// A real worker, which writes as durably as ever, beside a loop that makes and syncs the same files.
fn many_small_partitions_are_measured_beside_bare_files(subject: TestProgram) {
    let before = subject.inventory();
    let words = ["bench", "extract", "--partitions", "30", "--concurrency", "4", "-q", "-o", "json"];
    let told = subject.home.run(&[words.as_slice(), &["--baseline"]].concat()).done();
    assert_eq!(told.stderr, "");
    let report = told.json();
    assert_eq!(
        fields(&report),
        [
            "baseline_partitions_per_s",
            "bench",
            "beside_partitions_per_s",
            "beside_ratio",
            "concurrency",
            "partitions",
            "partitions_per_s",
            "ratio",
            "rounds",
            "store"
        ]
    );
    assert_eq!((&report["bench"], &report["store"]), (&"extract_partitions".into(), &Value::from(subject.kind)));
    assert_eq!((&report["partitions"], &report["concurrency"]), (&30.into(), &4.into()));
    assert_positive(&report, &["partitions_per_s", "baseline_partitions_per_s", "ratio"]);
    let report = subject.home.run(&words).done().json();
    assert_eq!((&report["ratio"], &report["beside_ratio"]), (&Value::Null, &Value::Null));
    assert_eq!(subject.inventory(), before);
}

/// Each turn has a database and a folder of its own, which are removed with the others'.
fn two_builds_are_measured_in_turns(subject: TestProgram) {
    let before = subject.inventory();
    let words =
        ["bench", "extract", "--partitions", "5", "-q", "--rounds", "2", "--beside", env!("CARGO_BIN_EXE_redrive")];
    let report = subject.home.run(&[words.as_slice(), &["--baseline", "-o", "json"]].concat()).done().json();
    assert_eq!(report["rounds"], 2);
    assert_positive(&report, &["partitions_per_s", "ratio", "beside_partitions_per_s", "beside_ratio"]);
    let shown = subject.home.run(&words).done().stdout;
    assert!(shown.contains("medians of 2 rounds") && shown.contains("the other program: "), "{shown}");
    assert_eq!(subject.inventory(), before);
}

redrive_fixture::on_both!(
    many_small_partitions_are_measured_beside_bare_files,
    two_builds_are_measured_in_turns,
    the_queue_is_measured_beside_a_bare_loop,
    without_a_baseline_there_is_nothing_to_compare_with,
    a_worker_is_measured_beside_a_minimal_queue_and_xargs,
    the_state_is_measured_beside_plain_sql,
    a_database_of_its_own_is_measured_beside_and_left_alone,
    somebody_elses_database_is_measured_only_by_force,
    the_store_can_be_named_on_the_command_line,
);

#[test]
fn a_table_is_for_people() {
    let told = Home::new().run(&[QUEUE.as_slice(), &["--baseline"]].concat()).done();
    assert!(told.stdout.starts_with("200 no-op runs on sqlite, 2 workers, batches of 50\n"), "{told}");
    for word in ["enqueue", "drain", "pickup p50", "pickup p99", "bare loop", " %"] {
        assert!(told.stdout.contains(word), "{word}\n{told}");
    }
    let told = Home::new().run(&STATE).done();
    for word in ["retry, audited", "inspect one key", "select 100 due", "plan of the selection:"] {
        assert!(told.stdout.contains(word), "{word}\n{told}");
    }
}

#[test]
fn a_program_that_does_not_do_the_work_is_no_figure() {
    let home = Home::new();
    let words = ["bench", "extract", "--partitions", "3", "--program"];
    let line = home.run(&[words.as_slice(), &["/bin/true"]].concat()).complaint(1);
    assert!(line.contains("the worker did not accept 3 partitions"), "{line}");
    let line = home.run(&[words.as_slice(), &["/bin/false"]].concat()).complaint(1);
    assert!(line.contains("`redrive migrate` failed"), "{line}");
    let line = home.run(&[words.as_slice(), &["no-such-program"]].concat()).complaint(6);
    assert!(line.contains("cannot run") && line.contains("no-such-program"), "{line}");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn an_interrupted_bench_says_so_and_leaves_nothing_behind() {
    let home = Home::new();
    let mut command = home.command(&["bench", "queue", "--jobs", "10000000"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = home.file(&format!("redrive_bench_{}.db-wal", child.id()));
    // Well into the measurement, when there is something to leave behind.
    until("the bench has begun", || std::fs::metadata(&log).is_ok_and(|meta| meta.len() >= 1 << 20));
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let told = Told::of(child.wait_with_output().unwrap());
    assert!(home.files().is_empty(), "{:?}", home.files());
    assert!(told.complaint(130).contains("interrupted"));
}

#[test]
fn configuration_files_are_measured_and_a_missing_ksconf_says_how_to_get_it() {
    let home = Home::new();
    let folder = home.path().join("bundles");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("props.conf"), "[a]\nb = 1\nc = 2\n[d]\n").unwrap();
    std::fs::write(folder.join("note.txt"), "no configuration").unwrap();
    let bench = ["bench", "conf", folder.to_str().unwrap(), "-q"];
    let report = home.run(&[bench.as_slice(), &["-o", "json"]].concat()).done().json();
    assert_eq!((&report["files"], &report["stanzas"], &report["settings"]), (&1.into(), &2.into(), &2.into()));
    assert_positive(&report, &["parse_mb_per_s", "settings_per_s"]);

    let line = home.run(&[bench.as_slice(), &["--baseline", "--python", "/nowhere/python"]].concat()).complaint(4);
    assert!(line.contains("pip install ksconf==0.13.10"), "{line}");
}
