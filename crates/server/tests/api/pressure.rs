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
