//! A server that many ask while others upload: everybody is answered, and the memory stays bounded.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use redrive_fixture::{TestDatabase, until_within};

use crate::memory::peak_mb;
use crate::rig::TestProcesses;
use crate::serve::{address, ask};

const MIB: usize = 1 << 20;

/// A connection that is kept between requests.
struct Connection {
    address: String,
    reader: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { address: address.to_owned(), reader: BufReader::new(stream) }
    }

    /// Sends a request, reads its whole answer and gives the status.
    fn ask(&mut self, line: &str, body: &[u8]) -> u16 {
        let head = format!("{line} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n", self.address, body.len());
        let stream = self.reader.get_mut();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let (mut status, mut length, mut text) = (0, None, String::new());
        while {
            text.clear();
            self.reader.read_line(&mut text).unwrap() > 2
        } {
            let line = text.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = Some(value.parse().unwrap());
            }
        }
        let length = length.expect("an answer of a known length");
        assert_eq!(std::io::copy(&mut self.reader.by_ref().take(length), &mut std::io::sink()).unwrap(), length);
        status
    }
}

/// A configuration file of about a megabyte that is like no other.
fn upload(nth: usize) -> Vec<u8> {
    let mut text = format!("[upload_{nth}]\n");
    let line = "description = a long text that nobody has to read, again and again until the file is long enough\n";
    for setting in 0..MIB / (line.len() + 6) {
        text.push_str(&format!("{setting:05}_{line}"));
    }
    text.into_bytes()
}

struct Load {
    uploads: usize,
    requests_per_s: u32,
    seconds: u32,
}

/// Asks for the status at a steady rate, whether or not earlier answers have come, while uploads go in all at once.
fn everybody_is_answered(load: &Load) -> (Duration, Duration, u64) {
    const ASKING: u32 = 16;
    let rig = TestProcesses::new(TestDatabase::sqlite().into(), "[worker]\npoll = \"100ms\"\n");
    rig.want("ads", "c", "q", "2026-04-30");
    let server = rig.spawn("serve --listen 127.0.0.1:0");
    let address = address(&rig, &server);
    assert_eq!(ask(&address, "GET /v1/status").0, 200);
    let begun = Instant::now() + Duration::from_millis(200);
    let mut took: Vec<Duration> = thread::scope(|scope| {
        for nth in 0..load.uploads {
            let address = &address;
            scope.spawn(move || {
                let status = Connection::open(address).ask(&format!("POST /v1/uploads?file=u{nth}.conf"), &upload(nth));
                assert_eq!(status, 202, "upload {nth}");
            });
        }
        let asking: Vec<_> = (0..ASKING)
            .map(|caller| {
                let address = &address;
                scope.spawn(move || {
                    let mut connection = Connection::open(address);
                    let mut took = Vec::new();
                    for nth in (caller..load.requests_per_s * load.seconds).step_by(ASKING as usize) {
                        // Each request has its moment; one that is late counts from that moment.
                        let at = begun + Duration::from_secs(1) * nth / load.requests_per_s;
                        thread::sleep(at.saturating_duration_since(Instant::now()));
                        assert_eq!(connection.ask("GET /v1/status", b""), 200);
                        took.push(at.elapsed());
                    }
                    took
                })
            })
            .collect();
        asking.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    took.sort();
    let at = |part: usize| took[took.len() * part / 100];
    let done = || rig.number("SELECT count(*) FROM run_ends WHERE workload = 'ingest' AND state = 'done'");
    until_within(Duration::from_secs(300), "every upload is parsed", || done() == i64::try_from(load.uploads).unwrap());
    (at(50), at(99), peak_mb(&server))
}

#[test]
fn a_busy_server_answers_everybody() {
    let (_, _, peak) = everybody_is_answered(&Load { uploads: 8, requests_per_s: 100, seconds: 3 });
    assert!(peak < 512, "{peak} MB");
}

#[test]
#[ignore = "loads the machine for a minute; ./chaos runs it"]
fn long_two_thousand_requests_a_second_beside_two_hundred_uploads() {
    let (p50, p99, peak) = everybody_is_answered(&Load { uploads: 200, requests_per_s: 2000, seconds: 30 });
    println!("status under load: p50 {p50:?}, p99 {p99:?}, the server's memory {peak} MB");
    assert!(peak < 512, "{peak} MB");
}
