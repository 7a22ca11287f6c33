//! `redrive runs`: submitting jobs, finding them, and what is said about each.

use std::io::Write as _;
use std::process::Stdio;

use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{End, Fault, Run, Verdict};
use redrive_fixture::until_within;
use redrive_store::{OutsideCall, Recorded};
use serde_json::{Value, json};

use crate::home::Told;
use crate::world::{DAY, HOUR, MINUTE, MigratedProgram, Past, count, ended, reasons};

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

fn ids(submitted: &Value) -> Vec<(String, bool)> {
    let run = |run: &Value| (run["id"].as_str().unwrap().to_owned(), run["existing"].as_bool().unwrap());
    submitted["runs"].as_array().unwrap().iter().map(run).collect()
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

fn runs_are_listed_newest_first_and_filtered(world: MigratedProgram) {
    assert_eq!(world.run("runs list").code, 3);
    for (category, at) in [("a", "2026-01-01"), ("b", "2026-01-02"), ("a", "2026-01-03")] {
        world.run(&format!("runs submit --category {category} --submitted-at {at}T00:00:00Z")).done();
    }
    let days = |line: &str, code: i32| {
        let told = world.json(line, code);
        let day = |run: &Value| run["submitted_at"].as_str().unwrap()[8..10].to_owned();
        told["runs"].as_array().unwrap().iter().map(day).collect::<Vec<_>>()
    };
    assert_eq!(days("runs list", 0), ["03", "02", "01"]);
    assert_eq!(days("runs list --category a --limit 1", 0), ["03"]);
    assert_eq!(days("runs list --category a --state queued", 0), ["03", "01"]);
    assert_eq!(days("runs list --category c", 3), [""; 0]);
    assert_eq!(days("runs list --workload ingest", 3), [""; 0]);
    let told = world.run("runs list --state gone").complaint(2);
    assert!(told.contains("it is one of storing, queued, running, waiting, done, dead"), "{told}");
}

fn a_run_is_found_by_the_beginning_of_its_id(world: MigratedProgram) {
    let id = ids(&world.json("runs submit --category c", 0))[0].0.clone();
    let fields: Vec<String> = world.json(&format!("runs show {id}"), 0).as_object().unwrap().keys().cloned().collect();
    let expected = [
        "id",
        "workload",
        "category",
        "status",
        "state",
        "task_id",
        "retry_count",
        "next_retry_at",
        "error_class",
        "error_message",
        "error_traceback",
        "submitted_at",
        "started_at",
        "last_heartbeat",
        "completed_at",
        "metrics",
    ];
    let (mut fields, mut expected) = (fields, expected.map(str::to_owned).to_vec());
    fields.sort();
    expected.sort();
    assert_eq!(fields, expected);
    assert_eq!(world.json(&format!("runs show {}", &id[..18]), 0)["id"], json!(id));
    assert_eq!(world.run("runs show ffffffff").code, 3);
    assert_eq!(world.run("runs explain ffffffff-ffff-7fff-8fff-ffffffffffff").code, 3);
    assert!(world.run("runs show nonsense").complaint(2).contains("is no id"));
    world.run("runs submit --category c --submitted-at 2026-01-01T00:00:00Z").done();
    world.run("runs submit --category c --submitted-at 2026-01-01T00:00:00Z").done();
    let found = world.json("runs list --limit 0", 0);
    let found: Vec<&str> = found["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    let shared = found[1].bytes().zip(found[2].bytes()).take_while(|(a, b)| a == b).count();
    if shared >= 8 {
        let told = world.run(&format!("runs show {}", &found[1][..shared])).complaint(2);
        assert!(told.contains("is the beginning of several runs"), "{told}");
    }
}

fn a_category_without_a_section_is_said(world: MigratedProgram) {
    let id = ids(&world.json("runs submit --category c", 0))[0].0.clone();
    let told = world.json(&format!("runs explain {id}"), 0);
    assert_eq!((&told["reason"], &told["state"]), (&json!("unknown_category"), &json!("queued")));
    let because = told["because"].as_str().unwrap();
    assert!(because.starts_with("this configuration has no [process] section for category \"c\""), "{because}");
    let told = world.run(&format!("runs explain {id}")).done();
    assert!(told.stdout.starts_with(&format!("{id} is discovered\nunknown_category: ")), "{told}");
}

const SECTION: &str = "[process.replays]\ncategories = [\"a\", \"b\"]\nmax_in_flight = 2\nkeep = \"30d\"\n\
    [process.replays.retry]\nmax_attempts = 3\n";

impl Past<'_> {
    /// Claims the oldest jobs and fails them.
    fn fail(&self, count: u32, class: ErrorClass, message: &str) -> Vec<Run> {
        let policy = RetryPolicy { max_attempts: Some(3), ..RetryPolicy::process() };
        let fault = Fault { class, message: message.to_owned(), trace: None, retry_after: None };
        let end = End::Failed { fault, metrics: None, policy };
        self.end(count, &end)
    }

    fn complete(&self, count: u32) -> Vec<Run> {
        self.end(count, &End::Completed { verdict: Verdict::Passed, metrics: Some("{\"rows\":7}".to_owned()) })
    }

    fn end(&self, count: u32, end: &End) -> Vec<Run> {
        let claimed = self.wait(self.claim_jobs(count));
        assert_eq!(claimed.len(), usize::try_from(count).unwrap());
        claimed.iter().for_each(|run| drop(recorded(self.wait(self.report(run, end.clone())))));
        claimed
    }

    /// A worker of somebody else's making asks for jobs of these categories.
    fn is_asked_for(&self, categories: &[&str]) {
        let asks_for = Some(categories.iter().map(|&category| category.to_owned()).collect());
        let call = OutsideCall { worker: "py".to_owned(), host: "here".to_owned(), asks_for };
        self.wait(self.store.data().meet(call)).unwrap();
    }

    fn submit_named(&self, categories: &[&str]) -> Vec<String> {
        self.wait(self.submit(categories)).iter().map(ToString::to_string).collect()
    }
}

fn recorded(recorded: Recorded) -> Run {
    match recorded {
        Recorded::As(run) => *run,
        other @ (Recorded::Refused(_) | Recorded::Lost) => panic!("{other:?}"),
    }
}

fn reason(world: &MigratedProgram, id: &str) -> String {
    let told = world.json(&format!("runs explain {id}"), 0);
    format!("{}: {}", told["reason"].as_str().unwrap(), told["because"].as_str().unwrap())
}

/// AR-2, AR-3, AR-6
fn every_reason_is_explained(world: MigratedProgram) {
    let world = world.configured(SECTION);
    let past = world.ago(2 * HOUR);
    let ids = past.submit_named(&["a", "a", "a", "a"]);
    past.fail(1, ErrorClass::Final, "no such file");
    past.complete(1);
    past.wait(past.claim_jobs(1));
    let has = |id: &str, beginning: &str, part: &str| {
        let told = reason(&world, id);
        assert!(told.starts_with(beginning) && told.contains(part), "{told}");
    };
    has(&ids[0], "final_error: its error is final", "`redrive runs retry` starts a fresh count");
    has(&ids[1], "done: it ended with verdict passed", "");
    has(&ids[2], "lease_expired: ", "the next worker ends that try");
    has(&ids[3], "no_worker: no living worker of [process.replays] asks for it", "`redrive worker` starts one");
    let now = world.ago(Duration::ZERO);
    now.is_asked_for(&["a", "b"]);
    has(&ids[3], "queued: it was submitted at", "a worker of [process.replays] that has room");
    now.wait(now.claim_jobs(1));
    has(&ids[3], "in_flight: ", "with a lease until");
    let more = now.submit_named(&["b"]);
    has(&more[0], "at_limit: 2 of at most 2 runs of [process.replays] are under way", "");
    let later = ids_of(&world.json("runs submit --category a --not-before 1h", 0));
    has(&later[0], "waiting: its submitter wants it started at", "59 min");
    let other = ids_of(&world.json("runs submit --category zzz", 0));
    has(&other[0], "unknown_category: ", "add it to the categories of a [process] section");
    world.run(&format!("runs cancel {}", later[0])).done();
    has(&later[0], "cancelled: cancelled by", "");
}

fn waiting_and_spent_runs_are_explained(world: MigratedProgram) {
    let world = world.configured(SECTION);
    let past = world.ago(30 * MINUTE);
    let ids = past.submit_named(&["a"]);
    past.fail(1, ErrorClass::Retryable, "time-out");
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("no_worker: "), "{told}");
    let now = world.ago(Duration::ZERO);
    now.is_asked_for(&["a"]);
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("due: its wait is over"), "{told}");
    now.fail(1, ErrorClass::Retryable, "time-out");
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("waiting: attempt 2 of at most 3 failed; the next one is at"), "{told}");
    let later = world.ahead(HOUR);
    later.fail(1, ErrorClass::Retryable, "time-out");
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("attempts_exhausted: 3 attempts of at most 3 have failed"), "{told}");
    let ids = now.submit_named(&["a"]);
    now.fail(1, ErrorClass::RateLimited, "429");
    let told = reason(&world, &ids[0]);
    assert!(
        told.starts_with("waiting: attempt 1 of at most 3 failed; the next one is at"),
        "no hint, no patience: {told}"
    );
    let ids = now.submit_named(&["a"]);
    let limited =
        Fault { class: ErrorClass::RateLimited, message: "429".to_owned(), trace: None, retry_after: Some(HOUR) };
    now.end(1, &End::Failed { fault: limited, metrics: None, policy: RetryPolicy::process() });
    let told = reason(&world, &ids[0]);
    assert!(told.starts_with("waiting: the source asked for patience until"), "{told}");
}

/// SV-2: an outside worker is told to drain, and to go on.
fn an_outside_worker_is_told_to_drain(world: MigratedProgram) {
    assert!(world.run("runs drain py").complaint(3).contains("redrive status"));
    let now = world.ago(Duration::ZERO);
    now.is_asked_for(&["a"]);
    let drains = || world.json("status", 0)["processes"][0]["drain"].clone();
    world.run("runs drain py --reason moving").done();
    assert_eq!(drains(), json!(true));
    assert!(world.json("state audit show last", 0)["command"].as_str().unwrap().contains("runs drain py"));
    world.run("runs drain py --resume").done();
    assert_eq!(drains(), Value::Null);
}

/// What happened to a run is shown where it is asked for.
fn a_runs_history_is_shown(world: MigratedProgram) {
    let now = world.ago(Duration::ZERO);
    let ids = now.submit_named(&["a"]);
    now.fail(1, ErrorClass::Retryable, "time-out");
    let told = world.json(&format!("runs show {} --history", ids[0]), 0);
    assert_eq!((&told["history"][0]["event"], &told["history"][0]["attempt"]), (&json!("failed"), &json!(1)));
    assert_eq!(world.json(&format!("runs show {}", ids[0]), 0)["history"], Value::Null);
    let shown = world.run(&format!("runs show {} --history", ids[0])).done();
    assert!(shown.stdout.lines().last().unwrap().contains("failed attempt 1 by"), "{shown}");
}

fn ids_of(submitted: &Value) -> Vec<String> {
    ids(submitted).into_iter().map(|(id, _)| id).collect()
}

/// Only what is failed now counts, by cause and not by message.
fn groups_count_what_is_failed_now(world: MigratedProgram) {
    assert_eq!(world.run("runs groups").code, 3);
    let past = world.ago(2 * HOUR);
    past.submit_named(&["a", "a", "b", "b", "b"]);
    for (number, class) in [(17, ErrorClass::Final), (18, ErrorClass::Final)] {
        past.fail(1, class, &format!("replay {number} has no end; request 7f3a2b1c0000400080001234567890a{number}"));
    }
    past.fail(1, ErrorClass::Retryable, "upstream timed out after 30 s");
    past.fail(1, ErrorClass::Retryable, "upstream timed out after 31 s");
    past.complete(1);
    let told = world.json("runs groups", 0);
    let groups = told["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{told}");
    let by =
        |template: &str| groups.iter().find(|group| group["template"] == template).unwrap_or_else(|| panic!("{told}"));
    let first = by("replay <n> has no end; request <id>");
    assert_eq!((&first["count"], &first["final"], &first["waiting"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!((&first["categories"], &first["error_class"]), (&json!(["a"]), &json!("final")));
    let second = by("upstream timed out after <n>");
    assert_eq!(
        (&second["waiting"], &second["exhausted"], &second["categories"]),
        (&json!(2), &json!(0), &json!(["b"]))
    );
    assert!(second["sample"].as_str().unwrap().starts_with("upstream timed out after 3"), "{second}");
    let group = first["group"].as_str().unwrap();
    assert_eq!(world.json(&format!("runs list --group {group}"), 0)["runs"].as_array().unwrap().len(), 2);
    assert_eq!(world.json("runs groups --category b", 0)["groups"].as_array().unwrap().len(), 1);
    let told = world.json(&format!("runs retry --group {group} --yes"), 0);
    assert_eq!(count(&told, "changed"), 2, "{told}");
    assert_eq!(
        world.json("runs groups", 0)["groups"].as_array().unwrap().len(),
        1,
        "what is tried again is not failed now"
    );
    assert!(world.run("runs list --group nonsense").complaint(2).contains("is not twelve hexadecimal digits"));
}

fn a_retry_by_group_takes_those_that_wait_too(world: MigratedProgram) {
    let now = world.ago(Duration::ZERO);
    let ids = now.submit_named(&["a", "a"]);
    now.fail(2, ErrorClass::Retryable, "time-out");
    let groups = world.json("runs groups", 0);
    let group = groups["groups"][0]["group"].as_str().unwrap();
    let report = world.json(&format!("runs retry --group {group} --yes"), 0);
    let changed = |id: &String| json!({"run_id": id, "from": "waiting", "to": "queued"});
    assert_eq!(report["changed"], json!([changed(&ids[1]), changed(&ids[0])]), "the newest first");
    world.json("state undo last --yes", 0);
    assert_eq!(world.number("SELECT count(*) FROM runs WHERE state = 'waiting' AND next_retry_at IS NOT NULL"), 2);
    world.whole();
}

/// AR-5
fn a_retry_starts_a_fresh_count_and_is_undone(world: MigratedProgram) {
    let past = world.ago(2 * HOUR);
    let ids = past.submit_named(&["a", "a", "a"]);
    past.fail(2, ErrorClass::Final, "no such file");
    let told = world.json(&format!("runs retry {} --dry-run", ids[0]), 0);
    assert_eq!((&told["dry_run"], count(&told, "changed"), world.operations()), (&json!(true), 1, 0));
    let refused = world.run("runs retry --state dead").complaint(5);
    assert!(refused.contains("2 runs would change and there is no terminal to ask at"), "{refused}");
    // They were submitted a second apart.
    let told = world.run(&format!("runs retry {}", &ids[0][..13])).done();
    assert!(told.stdout.contains("changed  dead → queued"), "{told}");
    let report = world.json(&format!("runs retry {} {} {} -y --reason mended", ids[0], ids[1], ids[2]), 0);
    assert_eq!((&report["operation"], &report["matched"]), (&json!("retry"), &json!(3)));
    assert_eq!(report["changed"], json!([{"run_id": ids[1], "from": "dead", "to": "queued"}]));
    assert_eq!(reasons(&report), ["already_pending", "already_pending"]);
    let op = report["op_id"].as_str().unwrap();
    let shown = world.json(&format!("state audit show {op}"), 0);
    assert_eq!((&shown["reason"], count(&shown, "changes")), (&json!("mended"), 1));
    assert_eq!(shown["changes"][0]["run_id"], json!(ids[1]));
    assert_eq!(
        (&shown["changes"][0]["before"]["state"], &shown["changes"][0]["after"]["state"]),
        (&json!("dead"), &json!("queued"))
    );
    let undone = world.json(&format!("state undo {op}"), 0);
    assert_eq!(undone["changed"], json!([{"run_id": ids[1], "from": "queued", "to": "dead"}]));
    let shown = world.json(&format!("runs show {}", ids[1]), 0);
    assert_eq!((&shown["state"], &shown["error_message"]), (&json!("dead"), &json!("no such file")));
    let again = world.run(&format!("state undo {op}"));
    assert_eq!(again.code, 4, "{again}");
    assert!(again.stdout.contains("refused  changed_since_plan"), "{again}");
    world.whole();
    assert_eq!(world.run("runs retry ffffffff-ffff-7fff-8fff-ffffffffffff").code, 3);
    assert!(world.run("runs retry").complaint(2).contains("name runs by their ids, or by a filter"));
    assert!(world.run("runs retry --workload extract").complaint(2).contains("`redrive state retry`"));
}

fn many_runs_are_cancelled_behind_the_rails_and_by_plan(world: MigratedProgram) {
    let world = world.configured("[safety]\nconfirm_above = 5\nhard_limit = 30\n");
    world.home.write("jobs.jsonl", &"{\"category\":\"a\"}\n".repeat(40));
    world.run("runs submit --jsonl jobs.jsonl").done();
    let told = world.run("runs cancel --category a --yes").complaint(5);
    assert!(told.contains("cancel would change more than 30 runs, the hard limit"), "{told}");
    let told = world.json("runs cancel --category a --dry-run --save-plan plan.json", 0);
    assert_eq!((count(&told, "changed"), &told["matched"]), (40, &json!(40)));
    world.run("runs submit --category a").done();
    let now = world.ago(Duration::ZERO);
    now.complete(1);
    let told = world.json("state apply plan.json --force --reason spring", 4);
    assert_eq!((count(&told, "changed"), reasons(&told)), (39, vec!["changed_since_plan"]), "what came later stays");
    assert_eq!(world.number("SELECT count(*) FROM run_queue"), 1);
    let told = world.json("runs cancel --category a --state dead", 0);
    assert_eq!(reasons(&told)[..2], ["already_completed", "already_completed"]);
    let told = world.json("state audit list", 0);
    assert_eq!((&told["operations"][0]["changes"], &told["operations"][0]["reason"]), (&json!(39), &json!("spring")));
    let op = told["operations"][0]["op_id"].as_str().unwrap();
    let told = world.json(&format!("state undo {op} --force"), 0);
    assert_eq!(count(&told, "changed"), 39);
    assert_eq!(world.number("SELECT count(*) FROM run_queue"), 40);
    world.whole();
}

fn what_ended_long_ago_is_pruned_and_nothing_else(world: MigratedProgram) {
    let world = world.configured(SECTION);
    let past = world.ago(40 * DAY);
    past.submit_named(&["a", "a", "b", "c", "a"]);
    past.complete(3);
    world.run("runs submit --category a --external-id kept --submitted-at 2026-01-01T00:00:00Z").done();
    let named = world.ago(39 * DAY);
    // The oldest is the one that was named.
    named.complete(1);
    world.run("runs submit --category a --external-id kept").done();
    let told = world.json("runs prune --older-than 30d --dry-run", 0);
    assert_eq!((&told["pruned"], &told["op_id"], world.operations()), (&json!(3), &Value::Null, 0));
    assert_eq!(world.json("runs prune --older-than 30d --category b --reason tidy", 0)["pruned"], json!(1));
    let audit = world.json("state audit list", 0);
    assert_eq!((&audit["operations"][0]["reason"], &audit["operations"][0]["changes"]), (&json!("tidy"), &json!(0)));
    assert_eq!(world.json("daemon --once --dry-run", 0)["pruned"], json!(2));
    assert_eq!(world.json("daemon --once", 0)["pruned"], json!(2));
    assert_eq!(world.json("daemon --once", 0)["pruned"], json!(0));
    assert_eq!(world.number("SELECT count(*) FROM run_specs"), 3, "two are queued, and one is named still");
    assert_eq!(world.number("SELECT count(*) FROM run_ends"), 1);
    world.whole();
}

/// What is forgotten cannot be brought back: it is counted first, and asked for.
fn pruning_goes_behind_the_rails(world: MigratedProgram) {
    let world = world
        .configured("[safety]\nconfirm_above = 5\nhard_limit = 30\n[process.s]\ncategories = ['a']\nkeep = '1h'\n");
    let past = world.ago(DAY);
    past.submit_named(&["a"; 40]);
    past.complete(40);
    let told = world.run("runs prune --older-than 0s").complaint(5);
    assert!(told.contains("forget would change more than 30 jobs, the hard limit"), "{told}");
    let told = world.run("runs prune --older-than 0s --yes").complaint(5);
    assert!(told.contains("the hard limit"), "{told}");
    let past = world.ago(2 * DAY);
    past.submit_named(&["b"; 7]);
    past.complete(7);
    let told = world.run("runs prune --older-than 0s --category b").complaint(5);
    assert!(told.contains("7 jobs would change and there is no terminal to ask at; use --yes or --force"), "{told}");
    assert_eq!((world.number("SELECT count(*) FROM run_ends"), world.operations()), (47, 0));
    assert_eq!(world.json("runs prune --older-than 0s --category b --yes", 0)["pruned"], json!(7));
    let audit = world.json("state audit list", 0);
    let filters = audit["operations"][0]["filters"].to_string();
    assert!(filters.contains("counted") && filters.contains('7'), "{audit}");
    let told = world.run("daemon --once --dry-run").done();
    assert!(told.stdout.contains("would forget 40 jobs that are kept no longer"), "{told}");
    let told = world.run("daemon --once").done();
    assert!(told.stdout.contains("forgot 40 jobs that are kept no longer"), "{told}");
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

fn doctor_names_categories_that_no_section_serves(world: MigratedProgram) {
    let world = world.configured(SECTION);
    world.run("runs submit --category a").done();
    let told = world.run("doctor --quick");
    assert!(!told.stdout.contains("no [process] section"), "{told}");
    world.run("runs submit --category zzz").done();
    let told = world.run("doctor --quick");
    assert!(told.stdout.contains("no [process] section here serves \"zzz\" (1 queued)"), "{told}");
}

redrive_fixture::on_both!(
    every_reason_is_explained,
    an_outside_worker_is_told_to_drain,
    a_runs_history_is_shown,
    waiting_and_spent_runs_are_explained,
    a_retry_by_group_takes_those_that_wait_too,
    groups_count_what_is_failed_now,
    a_retry_starts_a_fresh_count_and_is_undone,
    many_runs_are_cancelled_behind_the_rails_and_by_plan,
    what_ended_long_ago_is_pruned_and_nothing_else,
    doctor_names_categories_that_no_section_serves,
    pruning_goes_behind_the_rails,
    a_submitter_hears_of_a_category_that_no_section_serves,
    a_job_is_submitted_once_by_its_external_id,
    flags_of_one_job_are_checked,
    many_jobs_are_streamed,
    memory_stays_flat_while_jobs_are_streamed,
    a_bad_line_is_named_with_how_many_were_taken,
    runs_are_listed_newest_first_and_filtered,
    a_run_is_found_by_the_beginning_of_its_id,
    a_category_without_a_section_is_said,
);
