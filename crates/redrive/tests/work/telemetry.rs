//! What processes show of themselves: metrics of their own, a log for machines, and traces.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_fixture::until_within;
use serde_json::Value;

use crate::home::TestProgram;
use crate::http;
use crate::rig::{Process, TestProcesses};

const PATIENCE: Duration = Duration::from_secs(30);

/// A source whose program says something on stderr, and jobs that pass.
const SETTINGS: &str = "[worker]\npoll = \"100ms\"\ngrace = \"1s\"\n[daemon]\ninterval = \"1s\"\n\
    [sources.ads.extract]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"echo looking >&2; echo '{}'\"]\n\
    [process.echo]\ncategories = [\"a\"]\ncommand = [\"/bin/sh\", \"-c\", \"echo '{\\\"verdict\\\":\\\"passed\\\"}'\"]\n";

/// The address in a line of a process's log.
fn told(rig: &TestProcesses, process: &Process, before: &str) -> String {
    let mut found = None;
    until_within(PATIENCE, before, || {
        let log = rig.log(process);
        found = log.lines().find_map(|line| line.strip_prefix(before)?.split('/').next().map(str::to_owned));
        found.is_some()
    });
    found.unwrap()
}

fn page(address: &str) -> String {
    http::ask(address, "GET /metrics").text()
}

fn a_worker_and_a_daemon_show_their_own_metrics(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.want("ads", "c", "q", "2026-01-03");
    let mut worker = rig.spawn("worker --metrics 127.0.0.1:0");
    let at = told(&rig, &worker, "metrics on http://");
    let accepted = "redrive_attempts_total{workload=\"extract\",source=\"ads\",outcome=\"success\",class=\"\"} 3";
    until_within(PATIENCE, "all are counted", || page(&at).contains(accepted));
    let text = page(&at);
    assert!(text.contains("redrive_wait_duration_seconds_count{lane=\"backfill\"} 3"), "{text}");
    assert!(text.contains("redrive_store_duration_seconds_count{op=\"claim\"}"), "{text}");
    assert!(text.contains("redrive_build_info{version="), "{text}");
    assert!(!text.contains("redrive_partitions"), "what the database knows is the server's to show: {text}");
    let health = http::ask(&at, "GET /healthz");
    assert_eq!((health.status, health.text().as_str()), (200, "{\"status\":\"ok\"}"));
    assert_eq!(http::ask(&at, "GET /v1/status").status, 404, "nothing else is served");
    let taken = rig.redrive(&format!("worker --metrics {at}"));
    assert_eq!(taken.code, 6, "the address is taken: {}", taken.stderr);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    assert!(TcpStream::connect(&at).is_err(), "it ends with its process");

    let daemon = rig.spawn("daemon --metrics 127.0.0.1:0");
    let at = told(&rig, &daemon, "metrics on http://");
    let passed = "\nredrive_daemon_last_pass_timestamp_seconds ";
    until_within(PATIENCE, "a pass is shown", || page(&at).contains(passed));
    assert_eq!(rig.redrive("daemon --once --metrics").code, 2, "nobody could look at it");
}

/// A log of JSON, line by line.
fn lines(log: &str) -> Vec<Value> {
    let objects = log.lines().filter(|line| line.starts_with('{'));
    objects.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn every_line_of_an_attempt_says_whose_it_is(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.want("ads", "c", "q", "2026-01-01");
    rig.redrive("runs submit --category a").done();
    let mut worker = rig.spawn("worker --drain --log-format json -vv");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    let lines = lines(&rig.log(&worker));
    let (mut of_programs, mut of_attempts) = (0, 0);
    for line in &lines {
        for name in ["timestamp", "level", "target", "message"] {
            assert!(line[name].is_string(), "{name} of {line}");
        }
        let message = line["message"].as_str().unwrap();
        if line["program"].is_string() || message == "started a program" {
            assert!(line["run_id"].is_string(), "{line}");
            of_programs += 1;
        }
        if ["accepted", "looking"].contains(&message) {
            assert!(line["run_id"].is_string() && line["key"].is_string(), "{line}");
            assert_eq!(line["workload"], "extract", "{line}");
            of_attempts += 1;
        }
    }
    assert!(of_programs >= 3 && of_attempts == 2, "{of_programs} {of_attempts}: {lines:#?}");
}

fn every_line_of_a_request_has_its_id(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    let server = rig.spawn("serve --listen 127.0.0.1:0 --no-worker --no-daemon --log-format json -vv");
    let at = told(&rig, &server, "listening on http://");
    assert_eq!(http::ask(&at, "GET /v1/status\r\nX-Request-Id: mine-7\r\n").status, 200);
    let of_request = |line: &Value| line["message"] == "answered" && line["request_id"] == "mine-7";
    until_within(PATIENCE, "the request is told", || lines(&rig.log(&server)).iter().any(of_request));
    let answered: Vec<Value> =
        lines(&rig.log(&server)).into_iter().filter(|line| line["message"] == "answered").collect();
    assert!(answered.iter().all(|line| line["request_id"].is_string()), "{answered:#?}");
}

/// People are not told with every line what the line itself says.
fn a_log_for_people_says_it_once(subject: TestProgram) {
    let rig = TestProcesses::new(subject, SETTINGS);
    rig.want("ads", "c", "q", "2026-01-01");
    let mut worker = rig.spawn("worker --drain -v");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    let log = rig.log(&worker);
    let accepted = log.lines().find(|line| line.contains("accepted")).unwrap();
    assert_eq!(accepted.matches("run_id=").count(), 1, "{accepted}");
}

/// What a collector was sent.
#[derive(Debug, Clone)]
struct Sent {
    line: String,
    content_type: String,
    body: Vec<u8>,
}

/// A collector of traces that keeps what it is sent, for as long as the test runs.
struct Collector {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, sent) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Sent>>>::default());
        let kept = Arc::clone(&sent);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if let Some(sent) = take(stream.unwrap()) {
                    kept.lock().unwrap().push(sent);
                }
            }
        });
        Self { address, sent }
    }

    fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }
}

/// Reads one request and answers it.
fn take(stream: TcpStream) -> Option<Sent> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let found =
            head.iter().filter_map(|line| line.split_once(": ")).find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let answer =
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    reader.get_mut().write_all(answer.as_bytes()).ok()?;
    Some(Sent { line: head.first()?.clone(), content_type: header("content-type"), body })
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Attempts are sent to the collector that the configuration names, where the program was built to send them.
#[test]
fn traces_reach_a_collector() {
    let collector = Collector::start();
    let settings = format!("{SETTINGS}[telemetry]\notlp_endpoint = \"http://{}\"\n", collector.address);
    let rig = TestProcesses::new(redrive_fixture::TestDatabase::sqlite().into(), &settings);
    rig.want("ads", "c", "q", "2026-01-01");
    let mut worker = rig.spawn("worker --drain");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    if !cfg!(feature = "otlp") {
        assert!(rig.log(&worker).contains("no traces are sent"), "{}", rig.log(&worker));
        assert!(collector.sent().is_empty());
        return;
    }
    let found = rig.redrive("state inspect --source ads --history -o json").json();
    let run_id = found["partitions"][0]["history"][0]["run_id"].as_str().unwrap().to_owned();
    let sent = collector.sent();
    assert!(!sent.is_empty(), "{}", rig.log(&worker));
    for sent in &sent {
        assert_eq!(sent.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(sent.content_type, "application/x-protobuf");
    }
    for text in ["attempt", &run_id, "ads/c/q/2026-01-01", "redrive", "service.name"] {
        assert!(sent.iter().any(|sent| holds(&sent.body, text)), "{text} was not sent");
    }
}

redrive_fixture::on_both!(
    a_worker_and_a_daemon_show_their_own_metrics,
    every_line_of_an_attempt_says_whose_it_is,
    every_line_of_a_request_has_its_id,
    a_log_for_people_says_it_once,
);
