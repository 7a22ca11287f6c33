//! Callers that are slow, large or many, and a database that is busy: the others are served.

use std::time::{Duration, Instant};

use redrive_core::role::Role;
use redrive_fixture::{TestDatabase, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::get;
use crate::served::Served;

const SOON: Duration = Duration::from_secs(10);

/// SV-4: a request that only reads never waits for a writer, not even to keep when its token was used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_never_wait_for_the_writer() {
    let served = Served::abroad(TestDatabase::sqlite(), |_| {}).await;
    let token = format!("Bearer {}", served.token(Role::Viewer).await);
    let file = served.store.database.path().join("redrive.db");
    let writer = rusqlite::Connection::open(file).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    for path in
        ["/v1/status", "/v1/partitions", "/v1/runs", "/v1/groups", "/v1/holds", "/v1/processes", "/v1/audit", "/readyz"]
    {
        let begun = Instant::now();
        let reply = within(SOON, path, served.send(get(path).header("Authorization", &token))).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert!(begun.elapsed() < Duration::from_secs(2), "{path} took {:?}", begun.elapsed());
    }
    writer.execute_batch("ROLLBACK").unwrap();
}

/// Two hundred callers that never finish their headers keep nobody from being served.
#[tokio::test]
async fn slow_headers_keep_nobody_else_waiting() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
        slow.push(stream);
    }
    let begun = Instant::now();
    assert_eq!(served.send(get("/healthz")).await.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

/// Bodies that come a byte at a time keep nobody from being served.
#[tokio::test]
async fn slow_bodies_keep_nobody_else_waiting() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = "POST /v1/holds HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let begun = Instant::now();
    for stream in &mut slow {
        stream.write_all(b" ").await.unwrap();
        assert_eq!(served.send(get("/healthz")).await.status, 200);
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// An upload that says that it is too large is refused before it comes.
#[tokio::test]
async fn an_upload_that_declares_ten_gigabytes_is_refused_at_once() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST /v1/uploads?file=a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {}\r\n\r\n",
        10_u64 << 30
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = within(SOON, "an answer", read_some(&mut stream)).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
    assert_eq!(
        served.store.store.view().runs(redrive_store::RunPage { limit: 9, ..Default::default() }).await.unwrap(),
        []
    );
}

/// An upload of unknown length is cut at the limit, is never held in memory, and keeps nobody waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_upload_is_cut_at_the_limit() {
    let megabytes: u64 = redrive_fixture::setting("REDRIVE_UPLOAD_MB").and_then(|text| text.parse().ok()).unwrap_or(64);
    let served = Served::with(TestDatabase::sqlite(), move |settings| settings.max_upload = megabytes << 20).await;
    let before = resident();
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = "POST /v1/uploads?file=a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![0; 1 << 20], b"\r\n"].concat();
    let (mut reading, mut writing) = stream.into_split();
    let sending = tokio::spawn(async move {
        let mut sent = 0_u64;
        // Twice as much as may be sent, unless the server closes before.
        while sent < 2 * megabytes && writing.write_all(&chunk).await.is_ok() {
            sent += 1;
        }
        sent
    });
    let mut most = 0;
    while !sending.is_finished() {
        let begun = Instant::now();
        assert_eq!(served.send(get("/healthz")).await.status, 200);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        most = most.max(resident().saturating_sub(before));
    }
    let sent = sending.await.unwrap();
    let mut answer = Vec::new();
    let _ = within(SOON, "the end of the answer", reading.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(sent >= megabytes && sent < 2 * megabytes, "{sent} of {megabytes} MiB were taken");
    assert!(most < 48 << 20, "the server grew by {most} bytes");
}

/// How much memory this process has, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap() * 4096
}

/// Reads until the other side has nothing more to say for now.
async fn read_some(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&answer).contains("\r\n\r\n{") {
        match stream.read(&mut piece).await.unwrap_or(0) {
            0 => break,
            length => answer.extend_from_slice(&piece[..length]),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_flood_of_headers_is_cut_off() {
    let served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let line = format!("X-Flood: {}\r\n", "x".repeat(1000));
    for _ in 0..200 {
        // The server may have answered and closed already.
        if stream.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = within(SOON, "the end of the connection", stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(served.send(get("/healthz")).await.status, 200);
}

/// SV-8: what is idle, and what never comes to its end, does not keep a server from ending.
#[tokio::test]
async fn a_stop_ends_what_hangs() {
    let mut served = Served::with(TestDatabase::sqlite(), |_| {}).await;
    let mut hanging = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(b"POST /v1/holds HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{").await.unwrap();
        hanging.push(stream);
    }
    assert_eq!(served.send(get("/healthz")).await.status, 200);
    let begun = Instant::now();
    served.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}
