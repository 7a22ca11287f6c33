//! `redrive doctor`.

use insta::assert_snapshot;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_fixture::TestStore;
use redrive_store::clock::SystemClock;
use serde_json::{Value, json};

use crate::home::{Home, TestProgram};

#[test]
fn with_nothing_there_it_says_what_to_do_and_makes_nothing() {
    let home = Home::new();
    assert_snapshot!(home.run(&["doctor"]), @r"
           check          finding
     ok    configuration  there is no redrive.toml; the defaults serve
     fail  store          cannot open redrive.db: it does not exist; migrating makes it (`redrive migrate`)
     warn  raw sink       file:raw does not exist yet; the first worker makes it
    --- stderr
    --- exit 6
    ");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn after_init_all_is_well() {
    let home = Home::new();
    home.run(&["init"]).done();
    assert_snapshot!(home.run(&["doctor"]), @r"
           check          finding
     ok    configuration  redrive.toml is understood
     ok    store          redrive.db is at version 1
     ok    integrity      the database finds itself sound
     ok    clock          this host's clock agrees with the database's
     ok    audit chain    0 rows, whole
     warn  processes      no worker and no daemon is alive; start `redrive worker` and `redrive daemon`
     warn  raw sink       file:raw does not exist yet; the first worker makes it
     ok    attempts       0 under way
     ok    partitions     0 with 0 attempts, sound
     ok    raw data       0 current runs, 0 parts with 0 bytes read, every hash right
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(home.run(&["doctor", "-o", "json"]), @r#"
    {"breaches":[],"checks":[{"check":"configuration","level":"ok","ok":true,"says":"redrive.toml is understood"},{"check":"store","level":"ok","ok":true,"says":"redrive.db is at version 1"},{"check":"integrity","level":"ok","ok":true,"says":"the database finds itself sound"},{"check":"clock","level":"ok","ok":true,"says":"this host's clock agrees with the database's"},{"check":"audit chain","level":"ok","ok":true,"says":"0 rows, whole"},{"check":"processes","level":"warn","note":true,"ok":true,"says":"no worker and no daemon is alive; start `redrive worker` and `redrive daemon`"},{"check":"raw sink","level":"warn","note":true,"ok":true,"says":"file:raw does not exist yet; the first worker makes it"},{"check":"attempts","level":"ok","ok":true,"says":"0 under way"},{"check":"partitions","level":"ok","ok":true,"says":"0 with 0 attempts, sound"},{"check":"raw data","level":"ok","ok":true,"says":"0 current runs, 0 parts with 0 bytes read, every hash right"}]}
    --- stderr
    --- exit 0
    "#);
    assert_snapshot!(home.run(&["doctor", "-o", "jsonl"]), @r#"
    {"check":"configuration","level":"ok","ok":true,"says":"redrive.toml is understood"}
    {"check":"store","level":"ok","ok":true,"says":"redrive.db is at version 1"}
    {"check":"integrity","level":"ok","ok":true,"says":"the database finds itself sound"}
    {"check":"clock","level":"ok","ok":true,"says":"this host's clock agrees with the database's"}
    {"check":"audit chain","level":"ok","ok":true,"says":"0 rows, whole"}
    {"check":"processes","level":"warn","ok":true,"note":true,"says":"no worker and no daemon is alive; start `redrive worker` and `redrive daemon`"}
    {"check":"raw sink","level":"warn","ok":true,"note":true,"says":"file:raw does not exist yet; the first worker makes it"}
    {"check":"attempts","level":"ok","ok":true,"says":"0 under way"}
    {"check":"partitions","level":"ok","ok":true,"says":"0 with 0 attempts, sound"}
    {"check":"raw data","level":"ok","ok":true,"says":"0 current runs, 0 parts with 0 bytes read, every hash right"}
    --- stderr
    --- exit 0
    "#);
}

#[test]
fn an_empty_database_needs_migrating() {
    let home = Home::new();
    home.write("redrive.db", "");
    assert_snapshot!(home.run(&["doctor"]), @r"
           check          finding
     ok    configuration  there is no redrive.toml; the defaults serve
     fail  store          redrive.db has the schema of version 0, and this program needs 1; migrate it (`redrive migrate`)
     warn  raw sink       file:raw does not exist yet; the first worker makes it
    --- stderr
    --- exit 6
    ");
    assert_eq!(home.read("redrive.db"), "");
}

#[test]
fn a_file_that_is_no_database_is_wrong() {
    let home = Home::new();
    home.write("redrive.db", &"these are notes of mine\n".repeat(100));
    let told = home.run(&["doctor"]);
    assert_eq!(told.code, 6, "{told}");
    assert!(told.stdout.contains("fail  store"), "{told}");
}

#[test]
fn a_raw_sink_that_cannot_be_read_is_wrong() {
    let home = Home::new();
    home.run(&["init"]).done();
    home.write("raw", "a file, not a directory");
    let told = home.run(&["doctor", "-o", "json"]);
    assert_eq!(told.code, 6, "{told}");
    let told = told.json();
    assert_eq!((&told["checks"][1]["ok"], &told["checks"][6]["ok"]), (&json!(true), &json!(false)), "{told}");
    // The database is looked at all the same; what lies in the sink is not judged.
    assert_eq!((&told["checks"][8]["check"], &told["checks"][9]), (&json!("partitions"), &Value::Null), "{told}");
}

/// What it says of one check, and that it ends with `code`.
fn the_finding(subject: &TestProgram, check: &str, code: i32) -> Value {
    let told = subject.home.run(&["doctor", "-o", "json"]);
    assert_eq!(told.code, code, "{told}");
    let report = told.json();
    let all = report["checks"].as_array().unwrap();
    assert_eq!(all.iter().all(|finding| finding["ok"] == true), code == 0, "{told}");
    all.iter().find(|finding| finding["check"] == check).unwrap_or(&Value::Null).clone()
}

fn tables_of_something_else_are_named_and_left_alone(subject: TestProgram) {
    subject.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY)");
    let before = (subject.inventory(), std::fs::read(subject.home.file("redrive.db")).ok());
    let finding = the_finding(&subject, "store", 6);
    assert_eq!(finding["ok"], false);
    assert!(finding["says"].as_str().unwrap().contains("holds another program's tables"), "{finding}");
    let after = (subject.inventory(), std::fs::read(subject.home.file("redrive.db")).ok());
    assert!(before == after, "doctor changed what it looked at");
}

/// Leaves one audited operation in the database.
fn furnish(subject: &TestProgram) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let on = TestStore::open(subject.database.clone(), SystemClock).await;
        let key = PartitionKey::new("ads", "1", "daily", "2026-01-01").unwrap();
        let operation = on.operation("state backfill enqueue");
        let wanted = on.wanted(key, Lane::Backfill);
        on.store.control().enqueue(&operation, vec![wanted]).await.unwrap();
    });
}

fn a_changed_audit_row_is_found(subject: TestProgram) {
    furnish(&subject);
    assert_eq!(
        the_finding(&subject, "audit chain", 0),
        json!({"check": "audit chain", "level": "ok", "ok": true, "says": "2 rows, whole"})
    );
    subject.execute("UPDATE operations SET actor = 'somebody else'");
    let says = "broken at row 1: the row is not as it was written";
    assert_eq!(
        the_finding(&subject, "audit chain", 1),
        json!({"check": "audit chain", "level": "fail", "ok": false, "says": says})
    );
    let told = subject.home.run(&["doctor"]);
    assert!(told.stdout.contains("fail  audit chain"), "{told}");
}

/// What is broken below the rows that are looked at: a page of an index that no check reads.
#[test]
fn a_damaged_file_is_found() {
    let subject = TestProgram::from(redrive_fixture::TestDatabase::sqlite());
    furnish(&subject);
    let file = subject.home.file("redrive.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.pragma_update(None, "journal_mode", "delete").unwrap();
    let page = |sql: &str| usize::from(connection.query_row(sql, (), |row| row.get::<_, u16>(0)).unwrap());
    let size = page("PRAGMA page_size");
    let root = page("SELECT rootpage FROM sqlite_schema WHERE name = 'run_failures_recent'");
    drop(connection);
    assert_eq!(the_finding(&subject, "integrity", 0)["ok"], true);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[(root - 1) * size..root * size].fill(0x55);
    std::fs::write(&file, bytes).unwrap();
    let finding = the_finding(&subject, "integrity", 1);
    let says = finding["says"].as_str().unwrap();
    assert!(finding["ok"] == false && says.starts_with("the database is damaged: "), "{says}");
    let quick = subject.home.run(&["doctor", "--quick"]);
    assert!(quick.code == 1 && quick.stdout.contains("fail  integrity"), "{quick}");
}

fn a_schema_from_the_future_is_wrong(subject: TestProgram) {
    furnish(&subject);
    subject.execute(match subject.kind {
        "sqlite" => "PRAGMA user_version = 99",
        _ => "INSERT INTO redrive_schema VALUES (99)",
    });
    let finding = the_finding(&subject, "store", 6);
    assert_eq!(finding["ok"], false);
    let says = finding["says"].as_str().unwrap();
    assert!(says.contains("version 99") && says.contains("upgrade redrive"), "{says}");
    assert_eq!(the_finding(&subject, "audit chain", 6), Value::Null);
}

redrive_fixture::on_both!(
    tables_of_something_else_are_named_and_left_alone,
    a_changed_audit_row_is_found,
    a_schema_from_the_future_is_wrong,
);

/// What would keep sources from being served is told before a worker meets it, each with what to do.
#[test]
fn what_cannot_work_is_found_beforehand() {
    let settings = r#"
[sources.program.extract]
kind = "command"
command = ["./missing"]
[sources.secret.extract]
kind = "http"
url = "https://api.example.com/"
headers = { A = { env = "NOT_HERE" }, B = { file = "none.txt" } }
[sources.address.extract]
kind = "http"
url = "http://10.0.0.1/x"
ca_file = "none.pem"
[sources.nowhere.extract]
kind = "http"
url = "https://api.nowhere.invalid/{logical_date}"
[sources.each]
customers = ["111-1", "222", "333"]
calendar = { start = "2026-01-01" }
queries = { daily = {} }
[sources.each.extract]
kind = "command"
command = ["sh", "-c", "true"]
env = { TOKEN = { env = "TOKEN_{customer_id}" }, DAY = { env = "DAY_{logical_date}" } }
[sources.bare]
[sources.calendar]
calendar = { start = "2026-01-01" }
extract = { kind = "sample" }
[process.reviews]
categories = ["a"]
command = ["./review"]
"#;
    let home = Home::with_config(settings).env("TMPDIR", "/no/such/folder").env("TOKEN_222", "there");
    home.run(&["migrate"]).done();
    home.run(&[
        "state",
        "backfill",
        "enqueue",
        "--source",
        "orphan",
        "--customer-id",
        "c",
        "--query-name",
        "q",
        "--since",
        "2026-01-01",
        "--until",
        "2026-01-03",
        "--yes",
    ])
    .done();
    let told = home.run(&["doctor", "--quick"]).done();
    for part in [
        "program cannot be used here: missing does not exist",
        "secret cannot be used here: the environment has no NOT_HERE",
        "none.txt",
        "address cannot be used here: ca_file none.pem",
        "set allow_private = true",
        "nowhere connects to api.nowhere.invalid, which cannot be looked up here: ",
        "each cannot be used here for 111-1, 333: the environment has no TOKEN_111_1; set it",
        "no worker can extract bare",
        "calendar has a calendar and no customers and queries",
        "process.reviews cannot be used here: review does not exist",
        "/no/such/folder cannot be written",
        "file:raw does not exist yet; the first worker makes it",
        "no worker and no daemon is alive",
        "3 partitions of orphan wait, and nobody serves that source",
    ] {
        let line = told.stdout.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}:\n{told}"));
        assert!(line.starts_with(" warn  "), "{line}");
    }
    assert!(!told.stdout.contains(" fail "), "{told}");
    let checks = home.run(&["doctor", "--quick", "-o", "json"]).done().json();
    let levels: Vec<&Value> = checks["checks"].as_array().unwrap().iter().map(|check| &check["level"]).collect();
    assert!(levels.contains(&&json!("warn")) && levels.contains(&&json!("ok")), "{levels:?}");
}
