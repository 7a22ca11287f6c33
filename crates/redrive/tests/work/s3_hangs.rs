//! An S3 server that stops answering: a worker that is told to stop ends all the same, and burns nothing.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redrive_fixture::{S3, TestDatabase, until_within};

use crate::home::Home;
use crate::rig::TestProcesses;

const SETTINGS: &str = r#"
[worker]
concurrency = 4
poll = "100ms"
grace = "1s"
[sources.slow.extract]
kind = "sample"
records = 10
latency = "50ms"
"#;

/// A way to a server on which nothing passes any more once it is frozen.
struct Way {
    port: u16,
    is_frozen: Arc<AtomicBool>,
}

impl Way {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, is_frozen) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let (server, frozen) = (server.to_owned(), Arc::clone(&is_frozen));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let (there, back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                for (from, to) in [(there, server), (back, client)] {
                    let frozen = Arc::clone(&frozen);
                    std::thread::spawn(move || pass(from, to, &frozen));
                }
            }
        });
        Self { port, is_frozen }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_frozen: &AtomicBool) {
    let mut piece = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        while is_frozen.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        if to.write_all(&piece[..read]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_worker_whose_s3_hangs_ends_when_it_is_told_to() {
    let bucket = S3::shared().fresh_bucket();
    let way = Way::to(bucket.endpoint.trim_start_matches("http://"));
    let mut rig = TestProcesses::new(TestDatabase::sqlite().into(), SETTINGS);
    let home = Home::at(rig.subject.home.path())
        .env("REDRIVE_RAW__URL", &format!("s3://{}/lake", bucket.name))
        .env("AWS_ACCESS_KEY_ID", &bucket.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &bucket.secret_key)
        .env("AWS_REGION", &bucket.region)
        .env("AWS_ENDPOINT_URL", &format!("http://127.0.0.1:{}", way.port))
        .env("AWS_ALLOW_HTTP", "true");
    rig.subject.home = home;
    rig.want("slow", "c", "q", "2026-06-30");
    let mut worker = rig.spawn("worker");
    let done = "SELECT count(*) FROM partitions WHERE status = 'success'";
    until_within(Duration::from_secs(60), "it is at work", || rig.number(done) >= 4);
    way.is_frozen.store(true, Ordering::Relaxed);
    until_within(Duration::from_secs(60), "all that it has under way hangs", || {
        let before = rig.number(done);
        std::thread::park_timeout(Duration::from_secs(2));
        rig.number(done) == before
    });
    let told = Instant::now();
    worker.signal("-TERM");
    assert_eq!(worker.code(), Some(0), "{}", rig.logs());
    assert!(told.elapsed() < Duration::from_secs(12), "it took {:?}", told.elapsed());
    assert_eq!(rig.number("SELECT count(*) FROM runs WHERE state = 'running'"), 0, "all was given back");
    assert_eq!(rig.number("SELECT sum(attempt_count) FROM partitions"), rig.number(done), "no attempt is burnt");
    assert_eq!(rig.number("SELECT count(*) FROM run_failures"), 0);
}
