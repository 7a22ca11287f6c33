//! `state audit`: who did what, and whether the trail is whole.

use redrive_fixture::boom;
use serde_json::{Value, json};

use crate::world::{HOUR, MigratedProgram, count, january};

/// RP-8.5, CP-5.4
fn an_operation_is_kept_as_it_was_asked_for(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 2), boom());
    let line = "state retry --source ads --since 2026-01-01 --until 2026-01-02 --yes --reason outage";
    let told = world.json(line, 0);
    let trail = world.json("state audit list", 0);
    let operation = &trail["operations"][0];
    assert_eq!(count(&trail, "operations"), 2, "and the preparation's own");
    assert_eq!(operation["op_id"], told["op_id"]);
    assert_eq!(operation["command"], format!("redrive {line} -o json"));
    assert_eq!(operation["filters"], json!({"source": "ads", "since": "2026-01-01", "until": "2026-01-02"}));
    let flags = json!({"dry_run": false, "yes": true, "force": false, "clear_terminal": false,
        "allow_missing_raw": false, "stale": false});
    assert_eq!(
        (&operation["flags"], &operation["reason"], &operation["changes"]),
        (&flags, &json!("outage"), &json!(2))
    );
    let actor = operation["actor"].as_str().unwrap();
    let (user, host) = actor.split_once('@').unwrap();
    let named = |program: &str, argument: &str| {
        let output = std::process::Command::new(program).arg(argument).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!((user, host), (named("id", "-un").as_str(), named("uname", "-n").as_str()));
    let shown = world.json(&format!("state audit show {}", told["op_id"].as_str().unwrap()), 0);
    assert_eq!(count(&shown, "changes"), 2);
    let change = &shown["changes"][0];
    assert_eq!((&change["before"]["status"], &change["after"]["status"]), (&json!("failed"), &json!("pending")));
    assert_eq!(change["logical_date"], "2026-01-01");
    world.json("state inspect", 0);
    world.json("state pause --source ads --dry-run", 0);
    assert_eq!(world.operations(), 1, "reads and dry runs leave no trace");
}

/// CP-5.4: words of one argument are not to be taken for flags that were never given.
fn a_command_line_can_be_read_back(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 1), boom());
    let words = ["state", "pause", "--source", "ads", "--reason", "it's late --force"];
    world.home.run(&words).done();
    let trail = world.json("state audit list", 0);
    let command = trail["operations"][0]["command"].as_str().unwrap();
    let script = format!("set -- {command}; printf '%s\\n' \"$@\"");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let read = String::from_utf8(output.stdout).unwrap();
    assert_eq!(read.lines().skip(1).collect::<Vec<_>>(), words, "{command}");
}

/// CP-5.4: a trail that was cut, or emptied, and given a head that fits.
fn a_head_that_was_noted_shows_what_is_missing(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 3), boom());
    world.json("state retry --source ads --yes", 0);
    let noted = world.run("state audit head").done().stdout.trim().to_owned();
    assert_eq!(world.json("state audit head", 0)["head"], noted.as_str());
    world.json("state pause --source ads --yes", 0);
    assert_eq!(world.json(&format!("state audit verify --head {noted}"), 0)["whole"], true);
    let (seq, hash) = noted.split_once(':').unwrap();
    let cut = format!("DELETE FROM operation_changes WHERE seq >= {seq}; DELETE FROM operations WHERE seq >= {seq}");
    let head = "UPDATE audit_head SET seq = (SELECT max(seq) FROM operation_changes), \
        hash = (SELECT hash FROM operation_changes ORDER BY seq DESC LIMIT 1)";
    world.execute(&format!("{cut}; {head}"));
    assert_eq!(world.json("state audit verify", 0)["whole"], true, "it is whole in itself");
    let found = world.json(&format!("state audit verify --head {noted}"), 1);
    assert_eq!((&found["whole"], found["broken_at"].to_string().as_str()), (&json!(false), seq));
    for wrong in ["7", "x:y", "-1:00", &format!("{seq}:{}", &hash[1..])] {
        let told = world.home.run(&["state", "audit", "verify", &format!("--head={wrong}")]);
        assert!(told.code == 2 && told.stderr.contains("is not a head of the audit trail"), "{told}");
    }
}

/// CP-5.4
fn a_row_that_was_altered_is_named(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 3), boom());
    world.json("state retry --source ads --yes", 0);
    world.json("state pause --source ads --yes", 0);
    world.whole();
    assert!(world.run("state audit verify").done().stdout.starts_with("whole: 12 rows, head "));
    world.execute("UPDATE operation_changes SET period = 7 WHERE seq = 3");
    let told = world.run("state audit verify");
    assert_eq!(told.code, 1, "{told}");
    assert!(told.stdout.starts_with("BROKEN at row 3: "), "{told}");
    let told = world.json("state audit verify", 1);
    assert_eq!((&told["whole"], &told["broken_at"]), (&json!(false), &json!(3)));
}

/// CP-5.4
fn a_row_that_was_cut_off_shows(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 1), boom());
    world.json("state retry --source ads", 0);
    world.execute("DELETE FROM operation_changes WHERE seq = 4");
    assert_eq!(world.run("state audit verify").code, 1);
}

/// Runs a line for JSON with one variable set, and asserts what it ends with.
fn json_with(world: &MigratedProgram, (name, value): (&str, &str), line: &str, code: i32) -> Value {
    let words: Vec<&str> = line.split_whitespace().chain(["-o", "json"]).collect();
    let output = world.home.command(&words).env(name, value).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn op_id(report: &Value) -> String {
    report["op_id"].as_str().unwrap().to_owned()
}

/// OP-8
fn an_operation_is_found_by_its_beginning_and_as_the_last(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 3), boom());
    let first = op_id(&world.json("state pause --source ads --yes", 0));
    let as_ada = |line: &str, code: i32| json_with(&world, ("REDRIVE_ACTOR", "ada"), line, code);
    as_ada("state undo last --yes", 3);
    let second = op_id(&as_ada("state resume --source ads --yes", 0));
    assert_eq!(op_id(&as_ada("state audit show last", 0)), second);
    assert_eq!(op_id(&world.json(&format!("state audit show {}", &first[..23]), 0)), first);
    let told = world.run(&format!("state audit show {}", &first[..7]));
    assert!(told.code == 2 && told.stderr.contains("beginning of 8 digits or more"), "{told}");
    let undone = as_ada("state undo last --yes", 0);
    assert_eq!(count(&undone, "changed"), 3, "the operator's own last operation, and no other's");
    assert_eq!(count(&world.json("state inspect --paused", 0), "partitions"), 3);
}

/// CP-5.4
fn the_trail_is_listed_by_actor_time_and_verb(world: MigratedProgram) {
    world.ago(HOUR).judged(&january("111", 1), boom());
    world.json("state pause --source ads", 0);
    let resumed = op_id(&json_with(&world, ("SUDO_USER", "grace"), "state resume --source ads", 0));
    let verbs = |line: &str| {
        let trail = world.json(&format!("state audit list {line}"), 0);
        let commands = trail["operations"].as_array().unwrap().iter().map(|each| each["command"].as_str().unwrap());
        commands.map(|command| command.split(' ').nth(2).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(verbs("--operation pause"), ["pause"]);
    assert_eq!(verbs("--since yesterday --limit 1"), ["resume"]);
    let shown = world.json(&format!("state audit show {resumed}"), 0);
    let actor = shown["actor"].as_str().unwrap();
    assert!(actor.starts_with("grace@"), "{actor}");
    assert_eq!(verbs(&format!("--actor {actor}")), ["resume"]);
    world.json("state audit list --actor nobody", 3);
    world.json("state audit list --since 2999-01-01T00:00:00Z", 3);
}

redrive_fixture::on_both!(
    an_operation_is_found_by_its_beginning_and_as_the_last,
    the_trail_is_listed_by_actor_time_and_verb,
    an_operation_is_kept_as_it_was_asked_for,
    a_command_line_can_be_read_back,
    a_row_that_was_altered_is_named,
    a_head_that_was_noted_shows_what_is_missing,
    a_row_that_was_cut_off_shows
);
