//! Streams of ticks: what another process does shows, a quiet database is quiet, and a stop ends them all.

use std::time::{Duration, Instant};

use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_fixture::on_both_databases;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::client::{get, post};
use crate::served::Served;

const PATIENCE: Duration = Duration::from_secs(20);

/// Reads until the stream has said this, or has ended.
async fn heard(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    let reading = async {
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&all).contains(text) {
            match stream.read(&mut piece).await.unwrap() {
                0 => break,
                length => all.extend_from_slice(&piece[..length]),
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, reading).await.is_ok();
    let all = String::from_utf8_lossy(&all).into_owned();
    assert!(in_time, "{text:?} did not come: {all}");
    all
}

/// SV-8
async fn what_another_process_does_shows(served: Served) {
    let mut stream = get("/events").open(served.address).await;
    let begun = heard(&mut stream, "retry:").await;
    assert!(begun.contains("text/event-stream"), "{begun}");
    // The first look is not before a second has passed, and finds what is there.
    let other = served.store.again().await;
    let mut nth = 0;
    loop {
        nth += 1;
        let key = PartitionKey::new("ads", &format!("c{nth}"), "daily", "2026-01-01").unwrap();
        let wanted = vec![served.store.wanted(key, Lane::Fresh)];
        other.control().enqueue(&redrive_fixture::operation(&other, "want"), wanted).await.unwrap();
        let ticked = tokio::time::timeout(Duration::from_secs(2), heard(&mut stream, "event: operations"));
        if let Ok(ticked) = ticked.await {
            assert!(ticked.contains("event: partitions") || nth > 1, "{ticked}");
            break;
        }
        assert!(nth < 10, "nothing ticked");
    }
}

/// SV-8: what a person does shows on the pages about what it changes.
async fn what_a_person_does_shows(served: Served) {
    let key = PartitionKey::new("ads", "1", "daily", "2026-01-01").unwrap();
    served.store.failed(&key).await;
    let mut stream = get("/events").open(served.address).await;
    heard(&mut stream, "retry:").await;
    let body = |nth: u32| serde_json::json!({"source": "ads", "customer_id": format!("c{nth}")});
    for nth in 0..10 {
        served.send(post("/v1/holds").json(&body(nth))).await.done(201);
        let ticked = tokio::time::timeout(Duration::from_secs(2), heard(&mut stream, "event: operations"));
        if let Ok(ticked) = ticked.await {
            for topic in ["partitions", "runs", "holds"] {
                assert!(ticked.contains(&format!("event: {topic}")), "{topic}: {ticked}");
            }
            return;
        }
    }
    panic!("nothing ticked");
}

/// SV-8
async fn a_stop_ends_fifty_streams(mut served: Served) {
    let mut streams = Vec::new();
    for _ in 0..50 {
        let mut stream = get("/events").open(served.address).await;
        heard(&mut stream, "retry:").await;
        streams.push(stream);
    }
    let begun = Instant::now();
    served.stop().await;
    for mut stream in streams {
        heard(&mut stream, "nothing more").await;
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

on_both_databases!(what_another_process_does_shows, what_a_person_does_shows, a_stop_ends_fifty_streams);
