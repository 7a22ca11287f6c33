//! `redrive runs submit`: one job, many, and bad ones.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use redrive_fixture::until_within;
use serde_json::json;

use crate::home::Told;
use crate::jobs::{SECTION, ids};
use crate::world::{MigratedProgram, ended};

/// Runs the program with this on stdin.
fn fed(world: &MigratedProgram, line: &str, input: &[u8]) -> Told {
    let mut command = world.home.command(&line.split_whitespace().collect::<Vec<_>>());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may stop reading at a line that it does not like.
    let _ = stdin.write_all(input);
    drop(stdin);
    ended(child)
}

fn a_job_is_submitted_once_by_its_external_id(world: MigratedProgram) {
    let submit = "runs submit --category any% --external-id 4711 --payload {\"run\":4711}";
    let first = ids(&world.json(submit, 0));
    assert_eq!(first.len(), 1);
    assert!(!first[0].1);
    assert_eq!(ids(&world.json(submit, 0)), [(first[0].0.clone(), true)]);
    let other = ids(&world.json("runs submit --category 100% --external-id 4711", 0));
    assert!(!other[0].1, "an external id belongs to its category");
    let unnamed = ids(&world.json("runs submit --category any%", 0));
    assert!(!unnamed[0].1);
    let shown = world.json(&format!("runs show {}", first[0].0), 0);
    assert_eq!((&shown["status"], &shown["state"]), (&json!("discovered"), &json!("queued")));
    assert_eq!((&shown["workload"], &shown["category"]), (&json!("process"), &json!("any%")));
    assert_eq!(world.number("SELECT count(*) FROM runs WHERE payload = '{\"run\":4711}'"), 1);
}

fn flags_of_one_job_are_checked(world: MigratedProgram) {
    for (flags, told) in [
        ("--category c --payload {", "--payload is not JSON"),
        ("--category c --submitted-at soon", "--submitted-at: \"soon\" is no time"),
        ("--category c --not-before soon", "--not-before: \"soon\" is no time"),
        ("--category c --max-attempts 0", "max_attempts is 0"),
        ("--category c --external-id=", "its external_id is empty"),
        ("--category=", "its category is empty"),
    ] {
        let complaint = world.run(&format!("runs submit {flags}")).complaint(2);
        assert!(complaint.contains(told), "{flags}: {complaint}");
    }
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    world.home.write("large.jsonl", &format!("{{\"category\":\"c\",\"payload\":{large}}}\n"));
    let complaint = world.run("runs submit --jsonl large.jsonl").complaint(2);
    assert!(complaint.contains("line 1 of large.jsonl is no job: its payload is larger than 1 MiB"), "{complaint}");
    assert_eq!(world.number("SELECT count(*) FROM runs"), 0);
}

fn many_jobs_are_streamed(world: MigratedProgram) {
    let lines: String = (0..2500)
        .map(|n| format!("{{\"category\":\"c{}\",\"external_id\":\"{n}\",\"payload\":{{\"n\":{n}}}}}\n", n % 3))
        .collect();
    world.home.write("jobs.jsonl", &lines);
    let told = world.run("runs submit --jsonl jobs.jsonl").done();
    assert_eq!(told.stdout, "2500 submitted, 0 were there already\n");
    let again = ids(&world.json("runs submit --jsonl jobs.jsonl", 0));
    assert_eq!((again.len(), again.iter().filter(|(_, existing)| *existing).count()), (2500, 2500));
    let told = fed(
        &world,
        "runs submit --jsonl - --category d -o jsonl",
        b"{\"external_id\":\"1\"}\n{}\n\n{\"category\":\"e\"}",
    );
    assert_eq!(told.code, 0, "{told}");
    assert_eq!(told.stdout.lines().count(), 3);
    assert!(told.stdout.lines().all(|line| line.ends_with("\"existing\":false}")), "{told}");
    assert_eq!(world.number("SELECT count(*) FROM runs WHERE category = 'd'"), 2);
    assert_eq!(world.number("SELECT count(*) FROM runs"), 2503);
    assert_eq!(world.json("runs submit --jsonl /dev/null", 0), json!({"runs": []}));
}

/// The most memory that a process has used so far, in KiB.
fn most_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// However many lines there are.
fn memory_stays_flat_while_jobs_are_streamed(world: MigratedProgram) {
    let mut command = world.home.command(&["runs", "submit", "--jsonl", "-", "-q"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let batch = format!("{{\"category\":\"c\",\"payload\":\"{}\"}}\n", "x".repeat(4000)).repeat(1000);
    let mut most_after = |batches: i64, in_all: i64| {
        (0..batches).for_each(|_| stdin.write_all(batch.as_bytes()).unwrap());
        let taken = || world.number("SELECT count(*) FROM run_specs") == in_all * 1000;
        until_within(Duration::from_secs(120), "all lines are taken", taken);
        most_memory(child.id())
    };
    // Until then the database's own cache fills.
    let (early, late) = (most_after(25, 25), most_after(25, 50));
    drop(stdin);
    assert_eq!(ended(child).code, 0);
    assert!(late < early + 16 * 1024, "{early} KiB after 100 MB, {late} KiB after 200 MB");
}

fn a_bad_line_is_named_with_how_many_were_taken(world: MigratedProgram) {
    let mut lines = "{\"category\":\"c\"}\n".repeat(1203);
    lines.push_str("{\"category\":\"c\",\"priority\":1}\n{\"category\":\"c\"}\n");
    let told = fed(&world, "runs submit --jsonl - -o json", lines.as_bytes());
    assert_eq!(told.code, 2, "{told}");
    assert_eq!(ids(&told.json()).len(), 1203, "what was taken is listed whole");
    let expected = "line 1204 of stdin is no job: unknown field `priority`";
    assert!(told.stderr.contains(expected), "{}", told.stderr);
    assert!(told.stderr.contains("the 1203 jobs before it were taken (1203 new, 0 there already)"), "{}", told.stderr);
    assert_eq!(world.number("SELECT count(*) FROM runs"), 1203);
    let long = "x".repeat(1025);
    for (bad, why) in [
        (format!("{{\"category\":\"{long}\"}}"), "its category is longer than 1,024 bytes"),
        (format!("{{\"category\":\"c\",\"external_id\":\"{long}\"}}"), "its external_id is longer than 1,024 bytes"),
        ("{\"category\":\"a\\u0000b\"}".to_owned(), "its category holds a NUL character"),
        (
            "{\"category\":\"c\",\"submitted_at\":\"1969-12-31T00:00:00Z\"}".to_owned(),
            "its submitted_at is before 1970",
        ),
    ] {
        let told = fed(&world, "runs submit --jsonl -", format!("{{\"category\":\"d\"}}\n{bad}\n").as_bytes());
        assert_eq!(told.code, 2, "{told}");
        assert!(told.stderr.contains(&format!("line 2 of stdin is no job: {why}")), "{}", told.stderr);
        assert!(told.stderr.contains("(1 new, 0 there already)"), "{}", told.stderr);
    }
    assert_eq!(
        world.number("SELECT count(*) FROM runs WHERE category = 'd'"),
        4,
        "the good ones before them are taken"
    );
    let complaint = world.run("runs submit --jsonl nowhere.jsonl").complaint(2);
    assert!(complaint.contains("cannot read nowhere.jsonl"), "{complaint}");
}

/// It is taken all the same: another machine's configuration may serve it.
fn a_submitter_hears_of_a_category_that_no_section_serves(world: MigratedProgram) {
    let world = world.configured(SECTION);
    let told = world.run("runs submit --category zzz").done();
    assert!(told.stderr.contains("no [process] section of this configuration serves \"zzz\"; the jobs wait"), "{told}");
    assert_eq!(world.run("runs submit --category a").done().stderr, "");
    let lines: String = (0..12).map(|nth| format!("{{\"category\":\"z{nth}\"}}\n")).collect();
    let told = fed(&world, "runs submit --jsonl -", lines.as_bytes());
    assert_eq!(told.code, 0, "{told}");
    assert!(told.stderr.contains("and others; the jobs wait"), "{told}");
    assert_eq!(world.number("SELECT count(*) FROM runs"), 14);
}

redrive_fixture::on_both!(
    a_job_is_submitted_once_by_its_external_id,
    flags_of_one_job_are_checked,
    many_jobs_are_streamed,
    memory_stays_flat_while_jobs_are_streamed,
    a_bad_line_is_named_with_how_many_were_taken,
    a_submitter_hears_of_a_category_that_no_section_serves,
);
