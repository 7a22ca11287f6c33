//! What a worker takes of memory at the worst: sixteen hostile answers, programs or payloads at once. Each case runs in a
//! worker process of its own, whose peak the system tells.

use std::io::{BufRead as _, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use redrive_fixture::{TestDatabase, until_within};

use crate::rig::{Process, TestProcesses};

const CONCURRENCY: i64 = 16;
const LIMIT_MB: u64 = 512;
const MIB: usize = 1 << 20;

/// What a server writes for one path: a head, and pieces until there are no more or the reader has gone.
struct Answer {
    head: String,
    first: Vec<u8>,
    piece: Vec<u8>,
    pieces: usize,
    last: Vec<u8>,
}

impl Answer {
    fn plain(first: &[u8], piece: Vec<u8>, pieces: usize, last: &[u8]) -> Self {
        Self { head: String::new(), first: first.to_vec(), piece, pieces, last: last.to_vec() }
    }

    /// Each piece is a member of its own, so that gigabytes need not be compressed for a test.
    fn zipped(encoding: &str, first: &[u8], piece: &[u8], pieces: usize, last: &[u8]) -> Self {
        let head = format!("Content-Encoding: {encoding}\r\n");
        Self { head, first: gzip(first), piece: gzip(piece), pieces, last: gzip(last) }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Bytes that do not compress, as a JSON string has them.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letters = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-";
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[usize::try_from(state % 64).unwrap()]
    };
    (0..bytes).map(|_| letter()).collect()
}

fn answer(path: &str) -> Answer {
    let spaces = vec![b' '; 16 * MIB];
    match path {
        // Two megabytes that decompress to two gigabytes.
        "/bomb" | "/trusted-bomb" => Answer::zipped("gzip", b"[{\"a\":\"", &vec![b'x'; 16 * MIB], 128, b"\"}]"),
        "/space-bomb" => Answer::zipped("gzip", b"[", &spaces, 128, b"]"),
        "/line-bomb" => Answer::zipped("gzip", b"{\"a\":\"", &vec![b'x'; 16 * MIB], 128, b"\"}\n"),
        "/many-lines" => Answer::zipped("gzip", b"", &b"{\"a\":1}\n".repeat(MIB), 2, b""),
        "/deflate" | "/br" | "/zstd" => Answer::zipped(&path[1..], b"[", &spaces, 128, b"]"),
        "/endless-line" => Answer::plain(b"{\"a\":\"", vec![b'x'; MIB], 1 << 14, b"\"}\n"),
        "/endless-record" => Answer::plain(b"[{\"a\":\"", vec![b'x'; MIB], 1 << 14, b"\"}]"),
        // Five records, each almost as long as one may be, that do not compress.
        "/giants" => {
            let record = [b"{\"a\":\"".to_vec(), noise(4 * MIB - 100), b"\"},".to_vec()].concat();
            Answer::plain(b"[", record, 5, b"{\"a\":\"end\"}]")
        }
        "/verdict" => Answer::zipped("gzip", b"{\"verdict\":\"passed\",\"metrics\":{\"a\":\"", &spaces, 128, b"\"}}"),
        _ => Answer::plain(b"[]", Vec::new(), 0, b""),
    }
}

struct Server {
    address: String,
    stopped: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, stopped) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&stopped);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { address, stopped }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

/// The client leaves as soon as it has seen enough.
fn serve(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut request = String::new();
    reader.read_line(&mut request).ok()?;
    let (mut line, mut length) = (String::new(), 0);
    while {
        line.clear();
        reader.read_line(&mut line).ok()? > 2
    } {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    std::io::copy(&mut std::io::Read::take(&mut reader, length), &mut std::io::sink()).ok()?;
    let answer = answer(request.split(' ').nth(1)?);
    let mut out = stream;
    write!(out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{}\r\n", answer.head).ok()?;
    let mut chunk = |bytes: &[u8]| {
        if bytes.is_empty() {
            return Some(());
        }
        write!(out, "{:x}\r\n", bytes.len()).ok()?;
        out.write_all(bytes).ok()?;
        out.write_all(b"\r\n").ok()
    };
    chunk(&answer.first)?;
    for _ in 0..answer.pieces {
        chunk(&answer.piece)?;
    }
    chunk(&answer.last)?;
    out.write_all(b"0\r\n\r\n").ok()
}

/// The most that a process has had in memory, in megabytes.
pub fn peak_mb(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

struct Case {
    name: &'static str,
    settings: String,
    /// What the failures say; none where the attempts succeed.
    says: Option<&'static str>,
}

/// Runs sixteen partitions of a source at once; gives the worker's peak.
fn extracted(case: &Case) -> u64 {
    let settings = format!("[worker]\nconcurrency = {CONCURRENCY}\npoll = \"100ms\"\n{}", case.settings);
    let rig = TestProcesses::new(TestDatabase::sqlite().into(), &settings);
    rig.want("hostile", "c", "q", "2026-01-16");
    let mut worker = rig.spawn("worker");
    let judged = "SELECT count(*) FROM runs WHERE verdict IS NOT NULL";
    until_within(Duration::from_secs(300), case.name, || rig.number(judged) == CONCURRENCY);
    let peak = peak_mb(&worker);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    let expected = match case.says {
        None => "SELECT count(*) FROM partitions WHERE status = 'success'".to_owned(),
        Some(text) => format!("SELECT count(*) FROM run_failures WHERE error_message LIKE '%{text}%'"),
    };
    assert_eq!(rig.number(&expected), CONCURRENCY, "{}: {}\n{}", case.name, expected, rig.logs());
    peak
}

/// Handles sixteen jobs at once; gives the worker's peak.
fn handled(name: &str, handler: &str, payload_bytes: usize, verdict_or_error: &str) -> u64 {
    let settings = format!(
        "[worker]\nconcurrency = {CONCURRENCY}\npoll = \"100ms\"\n[process.hostile]\ncategories = [\"a\"]\n{handler}\n\
         [process.hostile.retry]\nmax_attempts = 1\n"
    );
    let rig = TestProcesses::new(TestDatabase::sqlite().into(), &settings);
    let payload = "x".repeat(payload_bytes);
    let job = |nth| format!("{{\"external_id\":\"{nth}\",\"category\":\"a\",\"payload\":\"{payload}\"}}\n");
    rig.subject.home.write("jobs", &(0..CONCURRENCY).map(job).collect::<String>());
    rig.redrive("runs submit --jsonl jobs").done();
    let mut worker = rig.spawn("worker");
    let ended = "SELECT count(*) FROM runs WHERE state IN ('done', 'dead')";
    until_within(Duration::from_secs(300), name, || rig.number(ended) == CONCURRENCY);
    let peak = peak_mb(&worker);
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.log(&worker));
    let as_expected = format!(
        "SELECT count(*) FROM runs WHERE verdict = '{verdict_or_error}' OR error_message LIKE '%{verdict_or_error}%'"
    );
    assert_eq!(rig.number(&as_expected), CONCURRENCY, "{name}\n{}", rig.logs());
    peak
}

fn report(peaks: &[(String, u64)]) {
    for (name, peak) in peaks {
        println!("{peak:>5} MB  {name}");
    }
    let over: Vec<_> = peaks.iter().filter(|(_, peak)| *peak >= LIMIT_MB).collect();
    assert!(over.is_empty(), "more than {LIMIT_MB} MB: {over:?}");
}

fn http(server: &Server, path: &str, more: &str) -> String {
    let url = format!("http://{}{path}", server.address);
    format!("[sources.hostile.extract]\nkind = \"http\"\nurl = \"{url}\"\nallow_private = true\n{more}\n")
}

#[test]
fn sixteen_hostile_answers_at_once_fit_into_half_a_gigabyte() {
    let server = Server::start();
    let case = |name, path: &str, more: &str, says| Case { name, settings: http(&server, path, more), says };
    let jsonl = "format = \"jsonl\"\n";
    let trusting = "max_ratio = 1000000\n";
    let cases = [
        case("gzip bomb", "/bomb", "", Some("is longer than 4 MiB")),
        case("gzip bomb of white space", "/space-bomb", "", Some("max_ratio")),
        case("gzip bomb, ratio allowed", "/trusted-bomb", trusting, Some("is longer than 4 MiB")),
        case(
            "gzip bomb of one line, ratio allowed",
            "/line-bomb",
            &[jsonl, trusting].concat(),
            Some("is longer than 4 MiB"),
        ),
        case(
            "gzip of many lines, max_bytes reached",
            "/many-lines",
            &format!("{jsonl}{trusting}[sources.hostile]\nmax_bytes = 1000000"),
            Some("max_bytes"),
        ),
        case("deflate, not asked for", "/deflate", "", Some("gzip was asked for")),
        case("brotli, not asked for", "/br", "", Some("gzip was asked for")),
        case("zstd, not asked for", "/zstd", "", Some("gzip was asked for")),
        case("endless line", "/endless-line", jsonl, Some("is longer than 4 MiB")),
        case("endless record", "/endless-record", "", Some("is longer than 4 MiB")),
    ];
    report(&cases.iter().map(|case| (case.name.to_owned(), extracted(case))).collect::<Vec<_>>());
}

#[test]
fn sixteen_answers_of_the_longest_records_at_once_fit_into_half_a_gigabyte() {
    let server = Server::start();
    let unique = "[sources.hostile.validate]\nunique = [\"a\"]\nrequired_fields = [\"a\"]";
    let settings = http(&server, "/giants", unique);
    let case = Case { name: "records of 4 MiB, unique", settings, says: Some("4 duplicates") };
    report(&[(case.name.to_owned(), extracted(&case))]);
}

fn program(script: &str, more: &str) -> String {
    format!("[sources.hostile.extract]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n{more}\n")
}

#[test]
fn sixteen_programs_with_the_longest_records_at_once_fit_into_half_a_gigabyte() {
    let giant = r#"for n in 1 2 3 4 5; do printf '{"a":"%s' $n; head -c 4194000 /dev/urandom | base64 -w 0 | head -c 4194000; echo '"}'; done"#;
    let unique = "[sources.hostile.validate]\nunique = [\"a\"]";
    let settings = program(giant, unique);
    let case = Case { name: "program: records of 4 MiB, unique", settings, says: None };
    report(&[(case.name.to_owned(), extracted(&case))]);
}

#[test]
fn sixteen_hostile_programs_at_once_fit_into_half_a_gigabyte() {
    let case = |name, script: &str, more: &str, says| Case { name, settings: program(script, more), says };
    let endless = "tr '\\0' x </dev/zero";
    let cases = [
        case("program: endless line", endless, "", Some("is longer than 4 MiB")),
        case("program: endless stderr", "head -c 50000000 /dev/zero | tr '\\0' y >&2; exit 65", "", Some("yyyy")),
        case(
            "program: endless lines, max_bytes reached",
            "yes '{}'",
            "[sources.hostile]\nmax_bytes = 50000000",
            Some("max_bytes"),
        ),
    ];
    report(&cases.iter().map(|case| (case.name.to_owned(), extracted(case))).collect::<Vec<_>>());
}

#[test]
fn sixteen_hostile_handlers_at_once_fit_into_half_a_gigabyte() {
    let server = Server::start();
    let url = format!("url = \"http://{}/verdict\"\nallow_private = true", server.address);
    let command = |script: &str| format!("command = [\"/bin/sh\", \"-c\", '''{script}''']");
    let endless = command("tr '\\0' x </dev/zero");
    let flood = command(
        r#"cat >/dev/null; yes out | head -c 100000000; yes err | head -c 100000000 >&2; echo; echo '{"verdict":"passed"}'"#,
    );
    let echo = command(r#"cat; echo '{"verdict":"passed"}'"#);
    let peaks = [
        ("handler's answer: gzip bomb", handled("bomb", &url, 10, "longer than 64 KiB")),
        ("handler: endless line", handled("line", &endless, 10, "a line longer than 1 MiB")),
        ("handler: floods both pipes", handled("flood", &flood, 10, "passed")),
        ("handler: payload of 1 MB, sent back", handled("echo", &echo, 1_000_000, "passed")),
    ];
    report(&peaks.map(|(name, peak)| (name.to_owned(), peak)));
}
