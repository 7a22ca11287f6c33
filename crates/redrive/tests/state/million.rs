//! How long an operator waits for an answer where there are a million partitions and a million runs.

use std::fs::File;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use redrive_fixture::{Durability, Postgres, TestDatabase, until_within};
use redrive_store::clock::{Clock as _, SystemClock};
use serde_json::Value;

use crate::http;
use crate::world::MigratedProgram;

const PARTITIONS: u32 = 1_000_000;
const RUNS: u32 = 1_000_000;
const DAYS: u32 = 365;
const SOURCES: u32 = 5;

/// Numbers from 0 on, as `n`.
fn numbers(world: &MigratedProgram, count: u32) -> String {
    match world.database.server {
        None => format!("WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {count})"),
        Some(_) => format!("WITH s AS (SELECT generate_series(0, {count} - 1) AS n)"),
    }
}

/// Five sources with 548 queries each, a year of days; three in a hundred failed, by twenty causes, two in a hundred queued.
fn partitions(world: &MigratedProgram, now: i64) {
    let (series, id) = (PARTITIONS.div_ceil(DAYS), id(world, "0"));
    world.execute(&format!(
        "{} INSERT INTO series SELECT n + 1, 's' || (n % {SOURCES}), 'c' || (n / {SOURCES} / 4), 'q' || n, n % {SOURCES} + 1, \
         CAST(n % {SOURCES} + 1 AS BIGINT) * 4294967296 + n / {SOURCES} / 4 * 4 * {SOURCES} + n % {SOURCES} + 1 FROM s",
        numbers(world, series)
    ));
    world.execute(&format!(
        "{} INSERT INTO partitions (series_id, period, source_no, status, current_run_id, attempt_count, spent, error_class, \
         error_group, error_message, created_at, updated_at) SELECT n / {DAYS} + 1, 20100 + n % {DAYS}, \
         n / {DAYS} % {SOURCES} + 1, CASE WHEN n % 100 < 3 THEN 'failed' WHEN n % 100 < 5 THEN 'pending' ELSE 'success' END, \
         CASE WHEN n % 100 < 5 THEN NULL ELSE {id} END, n % 7 + 1, n % 7 + 1, \
         CASE WHEN n % 100 < 3 THEN CASE WHEN n / 100 % 20 < 5 THEN 'final' ELSE 'retryable' END END, \
         CASE WHEN n % 100 < 3 THEN n / 100 % 20 + 1 END, CASE WHEN n % 100 < 3 THEN 'boom' END, \
         {now} - 86400000000, {now} - CAST(n % 7200 AS BIGINT) * 1000000 FROM s",
        numbers(world, PARTITIONS)
    ));
    world.execute(
        "INSERT INTO partition_control (series_id, period, source_no, scope, lane, queued_at) \
         SELECT p.series_id, p.period, p.source_no, s.scope, 'fresh', p.updated_at FROM partitions p \
         JOIN series s ON s.series_id = p.series_id WHERE p.status = 'pending'",
    );
    world.execute(&format!(
        "{} INSERT INTO failure_groups (group_id, first_seen, last_seen, error_class, template, sample) SELECT n + 1, {now}, {now}, \
         CASE WHEN n < 5 THEN 'final' ELSE 'retryable' END, 'cause ' || n, 'cause ' || n FROM s",
        numbers(world, 20)
    ));
}

/// Nine in ten done, two in a hundred dead, the others queued.
fn runs(world: &MigratedProgram, now: i64) {
    let id = match world.database.server {
        None => "CAST(printf('%016d', n) AS BLOB)",
        Some(_) => "CAST(lpad(to_hex(n), 32, '0') AS UUID)",
    };
    let numbers = numbers(world, RUNS);
    world.execute(&format!(
        "{numbers} INSERT INTO run_specs (run_id, submitted_at, workload, category) SELECT {id}, {now}, 'process', 'c' FROM s"
    ));
    world.execute(&format!(
        "{numbers} INSERT INTO run_ends (workload, category, run_id, completed_at, state, ended_by, error_group, error_class, error_message) \
         SELECT 'process', 'c', {id}, {now}, CASE WHEN n % 100 < 2 THEN 'dead' ELSE 'done' END, \
         CASE WHEN n % 100 < 2 THEN 'failed' ELSE 'completed' END, CASE WHEN n % 100 < 2 THEN n % 20 + 1 END, \
         CASE WHEN n % 100 < 2 THEN 'final' END, CASE WHEN n % 100 < 2 THEN 'boom' END FROM s WHERE n % 10 > 0"
    ));
    world.execute(&format!(
        "{numbers} INSERT INTO run_queue (workload, category, run_id) SELECT 'process', 'c', {id} FROM s WHERE n % 10 = 0"
    ));
}

fn id(world: &MigratedProgram, digit: &str) -> String {
    match world.database.server {
        None => format!("x'{}'", digit.repeat(32)),
        Some(_) => format!("CAST('{}' AS UUID)", digit.repeat(32)),
    }
}

/// The middle of five looks, the start of the program included; and what was said.
fn took(world: &MigratedProgram, line: &str) -> (Duration, Value) {
    let mut told = Value::Null;
    let mut all: Vec<Duration> = (0..5)
        .map(|_| {
            let begun = Instant::now();
            told = world.json(line, 0);
            begun.elapsed()
        })
        .collect();
    all.sort();
    (all[2], told)
}

/// A server that only looks, and where it listens.
fn serve(world: &MigratedProgram) -> (Child, String) {
    let log = File::create(world.home.file("serve.log")).unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--no-worker", "--no-daemon", "--read-only"];
    let child = world.home.command(&arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let mut address = None;
    until_within(Duration::from_secs(60), "the server listens", || {
        let log = world.home.read("serve.log");
        address = log.lines().find_map(|line| line.strip_prefix("listening on http://").map(str::to_owned));
        address.is_some()
    });
    (child, address.unwrap().trim_end_matches('/').to_owned())
}

/// What the pages ask for: the first answer, which nothing has prepared, and the middle of eleven.
fn served(world: &MigratedProgram, kind: &str) {
    let (mut child, address) = serve(world);
    for path in [
        "/v1/status",
        "/v1/groups",
        "/v1/partitions?limit=100",
        "/v1/partitions?status=failed&limit=100",
        "/v1/runs?limit=100",
        "/v1/heatmap?since=2025-01-12&until=2025-09-24",
        "/metrics",
    ] {
        let mut all: Vec<Duration> = (0..11)
            .map(|_| {
                let begun = Instant::now();
                let answer = http::ask(&address, &format!("GET {path}"));
                assert_eq!(answer.status, 200, "{path}: {}", answer.text());
                begun.elapsed()
            })
            .collect();
        let first = all[0];
        all.sort();
        println!("{kind}: GET {path}: first {first:?}, then {:?}", all[5]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn looks(world: MigratedProgram) {
    let calendar = |nth| {
        format!(
            "[sources.s{nth}]\ncustomers = [\"c0\", \"c1\"]\ncalendar = {{ start = \"2025-01-12\" }}\n[sources.s{nth}.queries.q{nth}]\n\
             [sources.s{nth}.extract]\nkind = \"sample\"\n"
        )
    };
    let world = world.configured(&(0..SOURCES).map(calendar).collect::<String>());
    let now = SystemClock.now().micros();
    partitions(&world, now);
    runs(&world, now);
    world.execute(if world.database.server.is_some() { "VACUUM ANALYZE" } else { "ANALYZE" });
    let kind = if world.database.server.is_some() { "postgres" } else { "sqlite" };
    let nothing = took(&world, "state audit head").0;
    println!("{kind}: the start alone takes {nothing:?}");
    for line in [
        "status",
        "status --source s1",
        "state groups",
        "state groups --source s1",
        "state explain --source s0 --customer-id c0 --query-name q0 --logical-date 2025-01-12",
    ] {
        let (took, told) = took(&world, line);
        println!("{kind}: {line}: {took:?}");
        if line == "status" {
            assert_eq!(told["sources"][0]["success"], 10_000);
            assert!(told["sources"][0]["at_least"].to_string().contains("success"), "{told}");
        }
    }
    served(&world, kind);
}

#[test]
#[ignore = "fills databases with a million rows; ./chaos runs it"]
fn answers_at_a_million_on_sqlite() {
    looks(MigratedProgram::sqlite());
}

#[test]
#[ignore = "fills databases with a million rows; ./chaos runs it"]
fn answers_at_a_million_on_postgres() {
    // One that waits for its commits, as in earnest: where it does not, VACUUM cannot say which pages everybody sees.
    let server = Postgres::start(Durability::Full);
    looks(TestDatabase::of(server.fresh_database()).into());
}
