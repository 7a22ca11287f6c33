//! `redrive serve` and `redrive token`, as processes.

use std::time::{Duration, Instant};

use redrive_fixture::until_within;
use serde_json::{Value, json};

use crate::home::TestProgram;
use crate::http;
use crate::rig::{Process, TestProcesses};

const PATIENCE: Duration = Duration::from_secs(30);
const SETTINGS: &str = "[worker]\npoll = \"100ms\"\ngrace = \"1s\"\n[process.echo]\ncategories = [\"a\"]\n\
    command = [\"/bin/sh\", \"-c\", \"echo '{\\\"verdict\\\":\\\"passed\\\"}'\"]\n";

/// Where a server says that it listens.
pub fn address(rig: &TestProcesses, server: &Process) -> String {
    let mut found = None;
    until_within(PATIENCE, "the server listens", || {
        let log = rig.log(server);
        found = log.lines().find_map(|line| line.strip_prefix("listening on http://").map(str::to_owned));
        found.is_some()
    });
    found.unwrap().trim_end_matches('/').to_owned()
}

/// The status and the body of an answer.
pub fn ask(address: &str, request: &str) -> (u16, String) {
    let answer = http::ask(address, request);
    (answer.status, answer.text())
}

/// CP-6.1: one process answers, works and ticks, and ends in order.
fn one_process_serves_works_and_ticks(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let mut server = rig.spawn("serve --listen 127.0.0.1:0");
    let address = address(&rig, &server);
    let kinds = || rig.number("SELECT count(DISTINCT kind) FROM processes");
    until_within(PATIENCE, "worker, daemon and server are there", || kinds() == 3);
    let id = rig.redrive("runs submit --category a -o json").json()["runs"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("GET /v1/worker/runs/{id}/status");
    until_within(PATIENCE, "the job has passed", || ask(&address, &path).1.contains("\"passed\""));
    let shown: Value = rig.redrive(&format!("runs show {id} -o json")).json();
    let served: Value = serde_json::from_str(&ask(&address, &path).1).unwrap();
    assert_eq!(served, shown, "the API gives what the command prints");
    assert_eq!(ask(&address, "GET /readyz").0, 200);
    rig.subject.home.write("redrive.toml", &format!("{SETTINGS}[sources.ads]\nmax_in_flight = 1\n"));
    server.signal("-HUP");
    until_within(PATIENCE, "all three follow the new configuration", || {
        rig.number("SELECT count(DISTINCT config) FROM processes") == 1
            && rig.log(&server).matches("is followed from now on").count() == 3
    });
    let begun = Instant::now();
    server.signal("-TERM");
    assert_eq!(server.code(), Some(0), "{}", rig.log(&server));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(rig.number("SELECT count(*) FROM processes"), 0, "an orderly end takes the rows away");
}

/// What a POST of JSON is answered; null where there is no content.
fn post(address: &str, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let (status, answer) = ask(address, &format!("POST {path}\r\n{headers}\r\n{body}"));
    assert!(matches!(status, 200 | 204), "{status}: {answer}");
    serde_json::from_str(&answer).unwrap_or_default()
}

/// AR-11: also of attempts that outside workers make.
fn the_log_says_what_becomes_of_an_outside_workers_attempts(subject: TestProgram) {
    let settings = "[process.out]\ncategories = ['a']\n[process.out.retry]\nbase = '100ms'\nmax_attempts = 2\n";
    let rig = TestProcesses::new(subject, settings);
    let server = rig.spawn("serve --listen 127.0.0.1:0 --no-worker --no-daemon");
    let address = address(&rig, &server);
    rig.redrive("runs submit --category a --external-id passes").done();
    rig.redrive("runs submit --category a --external-id fails").done();
    for nth in 0..4 {
        let claim = json!({"worker": "w", "claim_id": nth.to_string(), "max": 1, "wait_ms": 30_000});
        let run = &post(&address, "/v1/worker/claim", &claim)["runs"][0];
        let (id, is_first) = (run["id"].as_str().unwrap(), run["attempt"] == 1);
        let failed = json!({"task_id": run["task_id"], "error_class": "retryable", "message": "no answer"});
        let passed = json!({"task_id": run["task_id"], "verdict": "passed"});
        let (word, report) =
            if is_first || run["external_id"] == "fails" { ("fail", failed) } else { ("complete", passed) };
        // A report whose answer was lost comes again, and is no other attempt.
        for _ in 0..2 {
            post(&address, &format!("/v1/worker/runs/{id}/{word}"), &report);
        }
    }
    let log = rig.log(&server);
    let count = |texts: &[&str]| log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count();
    assert_eq!(count(&["first attempt sent to its worker", "attempt=1"]), 2, "{log}");
    assert_eq!(count(&["retry sent to its worker", "attempt=2"]), 2, "{log}");
    assert_eq!(count(&["retry scheduled", "attempt=1", "delay_s=0.1", "retryable", "no answer"]), 2, "{log}");
    assert_eq!(count(&["attempts exhausted", "attempt=2"]), 1, "{log}");
    assert_eq!(count(&["retry succeeded", "attempt=2", "passed"]), 1, "{log}");
}

fn parts_can_be_left_out(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let mut server = rig.spawn("serve --listen 127.0.0.1:0 --no-worker --no-daemon --read-only");
    let address = address(&rig, &server);
    until_within(PATIENCE, "it is there", || rig.number("SELECT count(*) FROM processes") == 1);
    let hold = "POST /v1/holds\r\nContent-Length: 0\r\n";
    let (status, body) = ask(&address, hold);
    assert!(status == 403 && body.contains("read_only"), "{status} {body}");
    let second = rig.redrive(&format!("serve --listen {address}"));
    assert_eq!(second.code, 6, "the address is taken: {}", second.stderr);
    server.signal("-TERM");
    assert_eq!(server.code(), Some(0));
}

/// SV-1: an address that others can reach needs a way to sign in.
fn tokens_are_made_listed_and_revoked(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let refused = rig.redrive("serve --listen 0.0.0.0:0");
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("redrive token create"), "{}", refused.stderr);
    let made = rig.redrive("token create --name ci --role operator --expires 30d -o json").json();
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("rdr_operator_") && made["expires_at"].is_string(), "{made}");
    let listed = rig.redrive("token list -o json");
    assert!(!listed.stdout.contains(token), "it is shown once");
    let row = &listed.json()["tokens"][0];
    assert_eq!((&row["name"], &row["role"], &row["state"]), (&"ci".into(), &"operator".into(), &"valid".into()));
    assert_eq!(row["last_four"].as_str().unwrap(), &token[token.len() - 4..]);
    assert_eq!(rig.redrive("token create --name ci --role viewer --expires 1d").code, 4, "the name is taken");
    assert_eq!(rig.redrive("token create --name w --role viewer --expires 1d --category a").code, 2);
    let server = rig.spawn("serve --listen 127.0.0.1:0 --no-worker --no-daemon");
    let address = address(&rig, &server);
    let status =
        || ask(&address, &format!("GET /v1/status\r\nX-Forwarded-For: 1\r\nAuthorization: Bearer {token}\r\n")).0;
    assert_eq!(status(), 200);
    rig.redrive("token revoke ci").done();
    assert_eq!(status(), 401);
    assert_eq!(rig.redrive("token revoke ci").code, 3);
    let trail = rig.redrive("state audit list -o json").json();
    let commands: Vec<&str> =
        trail["operations"].as_array().unwrap().iter().map(|op| op["command"].as_str().unwrap()).collect();
    assert!(
        commands[0].starts_with("redrive token revoke ci") && commands[1].starts_with("redrive token create"),
        "{commands:?}"
    );
    assert!(!trail.to_string().contains(token));
}

redrive_fixture::on_both!(
    one_process_serves_works_and_ticks,
    parts_can_be_left_out,
    the_log_says_what_becomes_of_an_outside_workers_attempts,
    tokens_are_made_listed_and_revoked
);
