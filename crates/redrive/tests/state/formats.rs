//! What scripts read: CSV is a header and rows, with the names that JSON has, and lines of JSON say what they are about.

use redrive_core::partition::{ControlEvent, Judgement};
use redrive_fixture::boom;
use serde_json::Value;

use crate::home::Told;
use crate::world::{HOUR, MINUTE, MigratedProgram, january, key};

const KEY: &str = "source,customer_id,query_name,logical_date";
const PARTITION: &str = "source,customer_id,query_name,logical_date,status,current_run_id,record_count,attempt_count,\
                         error_class,error_message,terminal,paused,lane,next_retry_at,active_run_id,created_at,updated_at";
const ATTEMPT: &str = "source,customer_id,query_name,logical_date,run_id,attempt,outcome,error_class,error_message,\
                       record_count,started_at,finished_at";

fn scene(world: MigratedProgram) -> MigratedProgram {
    let days = january("111", 3);
    let past = world.ago(HOUR);
    past.judged(&days[..1], Judgement::Accepted { records: 7 });
    past.failed(&days[1..2], 2);
    past.put(&days[1..2], ControlEvent::Pause { by: "ada", why: Some("a \"long\" week, and more") });
    world.ago(MINUTE).want(&days[2..]);
    world
}

fn csv(told: &Told) -> (&str, Vec<&str>) {
    let mut lines = told.stdout.lines();
    (lines.next().unwrap_or_default(), lines.collect())
}

/// A table reads back as what JSON says.
fn inspect_as_csv_has_the_names_and_values_of_json(world: MigratedProgram) {
    let world = scene(world);
    let told = world.run("state inspect -o csv").done();
    let (header, rows) = csv(&told);
    assert_eq!((header, rows.len()), (PARTITION, 3), "{told}");
    let json = world.json("state inspect", 0);
    for (row, object) in rows.iter().zip(json["partitions"].as_array().unwrap()) {
        for name in ["logical_date", "status", "created_at", "updated_at"] {
            assert!(row.contains(object[name].as_str().unwrap()), "{name} of {row}");
        }
    }
    assert!(rows[0].contains(",success,") && rows[0].contains(",7,1,,,,,,,,"), "{told}");
    // What holds more than a value stays JSON, and can be read as such.
    let mark = json["partitions"][1]["paused"].to_string().replace('"', "\"\"");
    assert!(rows[1].contains(&format!(",\"{mark}\",")), "{told}");
}

fn history_as_csv_is_a_table_of_attempts(world: MigratedProgram) {
    let world = scene(world);
    let told = world.run("state inspect --history -o csv").done();
    let (header, rows) = csv(&told);
    assert_eq!((header, rows.len()), (ATTEMPT, 4), "{told}");
    assert!(rows[0].starts_with("ads,111,daily,2026-01-01,") && rows[0].contains(",1,success,,,7,"), "{told}");
    assert!(rows[1].contains(",2026-01-02,") && rows[1].contains(",1,failed,retryable,boom,7,"), "{told}");
    assert!(rows[2].contains(",2026-01-02,") && rows[2].contains(",2,failed,retryable,boom,7,"), "{told}");
    assert_eq!(rows[3], "ads,111,daily,2026-01-03,,,,,,,,", "one that was never tried is not left out");
}

redrive_fixture::on_both!(inspect_as_csv_has_the_names_and_values_of_json, history_as_csv_is_a_table_of_attempts);

/// Nothing found is a table without rows; the words go to people.
#[test]
fn nothing_found_leaves_csv_a_header() {
    let world = MigratedProgram::sqlite();
    let exact = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-01";
    for (line, header, words) in [
        ("state inspect", PARTITION, "no entry found\n"),
        ("state terminal", PARTITION, "no entry found\n"),
        ("state inspect --history", ATTEMPT, "no entry found\n"),
        ("state inspect --group-by error", "count,error_class,error_message", "no entry found\n"),
        ("state inspect --missing", KEY, "nothing is missing\n"),
    ] {
        let told = world.run(&format!("{line} -o csv"));
        assert_eq!((told.code, told.stdout, told.stderr), (3, format!("{header}\n"), words.to_owned()), "{line}");
        assert_eq!(world.run(&format!("{line} -o csv -q")).stderr, "", "{line}");
    }
    // What is not there has an explanation.
    let told = world.run(&format!("state explain {exact} -o csv"));
    assert_eq!(told.code, 3, "{told}");
    assert!(told.stdout.starts_with(&format!("{EXPLANATION}\nads,111,daily,2026-01-01,,unknown_source,")), "{told}");
}

const EXPLANATION: &str = "source,customer_id,query_name,logical_date,status,reason,because,next_retry_at,\
                           attempt_count,max_attempts,granted,error_class,error_message,now";

#[test]
fn what_is_missing_is_a_table_too() {
    let text = "[sources.ads]\ncustomers = [\"111\"]\ncalendar = { start = \"2026-01-01\" }\n\
                [sources.ads.queries.daily]\n";
    let world = MigratedProgram::sqlite().configured(text);
    let told = world.run("state inspect --missing --until 2026-01-02 -o csv").done();
    assert_eq!(told.stdout, format!("{KEY}\nads,111,daily,2026-01-01\nads,111,daily,2026-01-02\n"));
}

/// A header and a row, with the fields that JSON has.
#[test]
fn one_answer_is_a_header_and_a_row() {
    let world = scene(MigratedProgram::sqlite()).configured("[sources.ads.extract]\nkind = \"sample\"\n");
    let exact = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-02";
    for line in [&format!("state explain {exact}"), "state audit verify", "daemon --once", "worker --drain", "migrate"]
    {
        let told = world.run(&format!("{line} -o csv")).done();
        let (header, rows) = csv(&told);
        assert_eq!(rows.len(), 1, "{line}\n{told}");
        let json = world.json(line, 0);
        let names: Vec<&str> = header.split(',').collect();
        for name in json.as_object().unwrap().keys() {
            assert!(names.contains(&name.as_str()), "{line}: {name} is not in {header}");
        }
    }
    let told = world.run("state audit verify -o csv").done();
    assert!(told.stdout.starts_with("whole,rows,head,broken_at,why\ntrue,"), "{told}");
    let told = world.run("daemon --once -o jsonl").done();
    assert_eq!(told.json()["requeued"], 0, "{told}");
}

#[test]
fn what_a_daemon_would_do_is_a_table() {
    let world = MigratedProgram::sqlite();
    world.ago(HOUR).judged(&[key("111", "daily", "2026-01-01")], boom());
    let told = world.run("daemon --once --dry-run -o csv").done();
    let (header, rows) = csv(&told);
    assert_eq!(header, format!("{KEY},action,attempt_count,delay_seconds"));
    assert!(rows.len() == 1 && rows[0].starts_with("ads,111,daily,2026-01-01,"), "{told}");
}

/// Lines of JSON are read one by one, away from the report around them.
#[test]
fn each_line_says_what_became_of_it() {
    let world = scene(MigratedProgram::sqlite());
    let told = world.run("state reprocess --source ads --logical-date 2026-01-01 -o jsonl").done();
    let line: Value = serde_json::from_str(told.stdout.trim_end()).unwrap();
    let trail = world.json("state audit list --limit 1", 0);
    assert_eq!((&line["outcome"], &line["op_id"]), (&"changed".into(), &trail["operations"][0]["op_id"]), "{told}");
    assert_eq!((&line["from"], &line["to"]), (&"success".into(), &"reprocess".into()));
    let exact = "--source ads --customer-id 111 --query-name daily --logical-date 2026-01-02";
    let told = world.run(&format!("state retry {exact} -o jsonl"));
    let line: Value = serde_json::from_str(told.stdout.trim_end()).unwrap();
    assert_eq!((&line["outcome"], &line["reason"]), (&"skipped".into(), &"paused".into()), "{told}");
    assert_eq!(line.get("op_id"), Some(&Value::Null), "nothing was changed, so there is no operation");
}

/// `--limit 0` means all, everywhere.
#[test]
fn a_limit_of_nothing_is_no_limit() {
    let world = scene(MigratedProgram::sqlite());
    let all = world.json("state audit list --limit 0", 0);
    assert_eq!(all, world.json("state audit list", 0));
    assert!(!all["operations"].as_array().unwrap().is_empty());
    let told = world.run("state audit list --limit 0 -o csv").done();
    assert_eq!(csv(&told).0, "at,op_id,actor,changes,command,reason");
}
