//! One answer of 429 from a real server, and five hundred siblings that could ask too.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::home::TestProgram;
use crate::rig::TestProcesses;

/// Answers everything with 429 and an hour to wait; counts. It ends with the test's process.
fn refusing_server() -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if !matches!(stream.read(&mut byte), Ok(1)) {
                        return;
                    }
                    request.push(byte[0]);
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\
                              Connection: close\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    (port, calls)
}

fn five_hundred_siblings_wait_for_the_time_that_was_named(subject: TestProgram) {
    let (port, calls) = refusing_server();
    let settings = format!(
        r#"
[sources.api.extract]
kind = "http"
url = "http://127.0.0.1:{port}/{{logical_date}}"
allow_private = true
"#
    );
    let rig = TestProcesses::new(subject, &settings);
    for query in ["a", "b"] {
        rig.want("api", "c", query, "2026-09-07");
    }
    assert_eq!(rig.number("SELECT count(*) FROM partitions"), 500);
    rig.redrive("worker --drain").done();
    let asked = calls.load(Ordering::SeqCst);
    assert!((1..=5).contains(&asked), "{asked} calls");
    // Another worker, later, and the daemon: nobody asks before the hour is over.
    rig.redrive("daemon --once").done();
    rig.redrive("worker --drain").done();
    assert_eq!(calls.load(Ordering::SeqCst), asked);
    let explained =
        rig.redrive("state explain --source api --customer-id c --query-name b --logical-date 2026-09-07 -o json");
    assert_eq!(explained.done().json()["reason"], "cooling_down");
}

redrive_fixture::on_both!(five_hundred_siblings_wait_for_the_time_that_was_named);
