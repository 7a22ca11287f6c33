//! Lists: pages that neither lose nor repeat a row, cursors that belong to their filter, and everything as JSON lines.

use redrive_core::key::PartitionKey;
use redrive_fixture::on_both_databases;
use serde_json::Value;

use crate::client::get;
use crate::served::Served;

pub fn keys(days: u8) -> Vec<PartitionKey> {
    let day = |nth: u8| format!("2025-11-{:02}", nth + 1);
    let queries = ["daily", "a/b,é"];
    queries
        .iter()
        .flat_map(|query| (0..days).map(move |nth| PartitionKey::new("ads", "1", query, &day(nth)).unwrap()))
        .collect()
}

/// All pages of a list, read one after another.
async fn pages(served: &Served, path: &str, noun: &str) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = served.send(get(&format!("{path}&limit=7{cursor}"))).await.done(200);
        let found = page[noun].as_array_mut().unwrap();
        assert!(found.len() <= 7, "{}", found.len());
        rows.append(found);
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

async fn pages_hold_each_partition_once(served: Served) {
    served.store.judged(keys(20), redrive_fixture::boom()).await;
    let all = pages(&served, "/v1/partitions?source=ads", "partitions").await;
    let expected = keys(20).len();
    assert_eq!(all.len(), expected);
    let mut dates: Vec<String> =
        all.iter().map(|row| format!("{} {}", row["query_name"], row["logical_date"])).collect();
    let sorted = dates.clone();
    dates.sort();
    dates.dedup();
    assert_eq!((dates.len(), &dates), (expected, &sorted), "in key order, none twice");
    let lines = served.send(get("/v1/partitions?source=ads").header("Accept", "application/jsonl")).await;
    assert_eq!(lines.header("content-type"), Some("application/jsonl"));
    assert!(lines.is_whole);
    assert_eq!(lines.lines(), all);
    let counted = served.send(get("/v1/partitions?source=ads&limit=1&count=bounded")).await.done(200);
    assert_eq!(counted["count"], expected);
    assert_eq!(served.send(get("/v1/partitions?source=ads&limit=1")).await.done(200)["count"], Value::Null);
}

async fn a_cursor_belongs_to_its_filter(served: Served) {
    served.store.judged(keys(2), redrive_fixture::boom()).await;
    let page = served.send(get("/v1/partitions?source=ads&limit=1")).await.done(200);
    let cursor = page["next"].as_str().unwrap();
    let again = served.send(get(&format!("/v1/partitions?source=ads&limit=1&cursor={cursor}"))).await.done(200);
    assert_ne!(again["partitions"], page["partitions"]);
    for other in ["?source=crm", "?source=ads&status=failed", "?source=ads&paused=true", "?source=ads&terminal"] {
        let path = format!("/v1/partitions{other}&cursor={cursor}");
        served.send(get(&path)).await.problem(400, "bad_cursor");
    }
    served.send(get(&format!("/v1/runs?cursor={cursor}"))).await.problem(400, "bad_cursor");
    served.send(get("/v1/partitions?cursor=nonsense")).await.problem(400, "bad_cursor");
}

async fn a_filter_means_what_it_means_to_the_command(served: Served) {
    served.store.judged(keys(3), redrive_fixture::boom()).await;
    let count = async |query: &str| {
        let page = served.send(get(&format!("/v1/partitions?{query}"))).await.done(200);
        page["partitions"].as_array().unwrap().len()
    };
    assert_eq!(count("status=failed").await, 6);
    assert_eq!(count("source=crm&source=ads&query_name=daily").await, 3);
    assert_eq!(count("status=success").await, 0);
    assert_eq!(count("query_name=a/b,%C3%A9&since=2025-11-02").await, 2);
    assert_eq!(count("logical_date=2025-11-01").await, 2);
    assert_eq!(count("terminal=true").await, 0);
    for (wrong, said) in [
        ("source=a*", "wildcard"),
        ("status=gone", "status"),
        ("since=soon", "since"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("group=zz", "group"),
        ("count=all", "count"),
    ] {
        let reply = served.send(get(&format!("/v1/partitions?{wrong}"))).await;
        let problem = reply.problem(400, "bad_request");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{wrong}: {problem}");
    }
    // Each of these values has the right form.
    for (wrong, said) in [
        ("since=2025-11-03&until=2025-11-01", "upside down"),
        ("since=1999-01-01", "earliest"),
        ("logical_date=2025-11-01&since=2025-11-01", "either"),
    ] {
        let problem = served.send(get(&format!("/v1/partitions?{wrong}"))).await.problem(422, "unusable");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{wrong}: {problem}");
    }
    served.send(get("/v1/partitions?source=a%00b")).await.problem(400, "bad_request");
    served.send(get("/v1/audit?actor=a%00b")).await.problem(400, "bad_request");
    let accept = get("/v1/partitions").header("Accept", "text/csv");
    served.send(accept).await.problem(406, "not_acceptable");
}

async fn a_partition_is_found_by_its_path(served: Served) {
    let key = PartitionKey::new("ads", "a/b", "50%, é🙂", "2025-11-01").unwrap();
    served.store.failed(&key).await;
    let path = "/v1/partitions/ads/a%2Fb/50%25%2C%20%C3%A9%F0%9F%99%82/2025-11-01";
    let reply = served.send(get(path)).await;
    assert_eq!(reply.header("etag"), Some(format!("\"v{}\"", served.store.read(&key).await.state.version).as_str()));
    let shape = reply.done(200);
    assert_eq!((&shape["customer_id"], &shape["status"]), (&"a/b".into(), &"failed".into()));
    let explained = served.send(get(&format!("{path}/explain"))).await.done(200);
    assert!(explained["reason"].is_string() && explained["because"].is_string(), "{explained}");
    let history = served.send(get(&format!("{path}/history"))).await.done(200);
    assert_eq!(history["history"][0]["outcome"], "failed");
    let absent = "/v1/partitions/ads/a%2Fb/daily/2025-11-01";
    served.send(get(absent)).await.problem(404, "not_found");
    assert_eq!(served.send(get(&format!("{absent}/explain"))).await.done(200)["status"], Value::Null);
    served.send(get("/v1/partitions/ads/1/q/never")).await.problem(400, "bad_request");
    served.send(get("/v1/partitions/ads/%FF/q/2025-11-01")).await.problem(400, "bad_request");
}

on_both_databases!(
    pages_hold_each_partition_once,
    a_cursor_belongs_to_its_filter,
    a_filter_means_what_it_means_to_the_command,
    a_partition_is_found_by_its_path,
);
