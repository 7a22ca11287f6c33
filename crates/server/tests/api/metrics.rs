//! What Prometheus scrapes: every line can be read, and no customer makes a series.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::Judgement;
use redrive_core::run::{End, Verdict};
use redrive_fixture::{OnDatabase as _, TestDatabase, on_both_databases};
use serde_json::{Value, json};

use crate::client::{get, post};
use crate::served::Served;

/// A name, its labels and its number.
fn is_series(line: &str) -> bool {
    let Some((series, value)) = line.rsplit_once(' ') else { return false };
    let name = series.split('{').next().unwrap_or_default();
    name.starts_with("redrive_")
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && series.contains('{') == series.ends_with('}')
        && value.parse::<f64>().is_ok()
}

/// SV-4
async fn a_thousand_customers_make_no_series(served: Served) {
    let key = |nth: u32| PartitionKey::new("ads", &format!("customer-{nth}"), "daily", "2026-01-01").unwrap();
    served.store.want(Lane::Fresh, (0..1000).map(key).collect()).await;
    served.store.submit(&["any%"]).await;
    served.send(get("/v1/status")).await;
    let reply = served.send(get("/metrics")).await;
    assert_eq!(reply.status, 200);
    let text = reply.text();
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(series.iter().all(|line| is_series(line)), "{text}");
    assert!(series.len() < 500, "{} series", series.len());
    assert!(!text.contains("customer-"), "{text}");
    for line in [
        "redrive_partitions{source=\"ads\",status=\"pending\"} 1000",
        "redrive_queue_depth{lane=\"fresh\"} 1000",
        "redrive_queue_depth{category=\"any%\"} 1",
        "redrive_runs{workload=\"process\",state=\"queued\"} 1",
        "redrive_outbox_depth 0",
        "redrive_streams 0",
    ] {
        assert!(series.contains(&line), "{line} is not in\n{text}");
    }
    assert!(
        text.contains(
            "redrive_http_request_duration_seconds_count{route=\"/v1/status\",method=\"GET\",status=\"200\"} 1"
        )
    );
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "a family stands twice");
}

/// Whatever callers choose, the page stays short: names of sources, categories, and ways to be refused.
async fn the_page_stays_short(served: Served) {
    let key = |nth: u32| PartitionKey::new(&format!("source-{nth}"), "c", "daily", "2026-01-01").unwrap();
    served.store.want(Lane::Fresh, (0..200).map(key).collect()).await;
    served.store.judge_each(|_| Judgement::Accepted { records: 1 }).await;
    let categories: Vec<String> = (0..200).map(|nth| format!("category-{nth}")).collect();
    served.store.submit(&categories.iter().map(String::as_str).collect::<Vec<_>>()).await;
    served.store.clock.advance(Duration::from_secs(300));
    for run in served.store.claim_jobs(100).await {
        served.store.report(&run, End::Completed { verdict: Verdict::NeedsReview, metrics: None }).await;
    }
    for path in ["/v1/partitions", "/v1/runs", "/v1/holds", "/v1/audit", "/v1/operations"] {
        for query in ["", "?limit=0", "?cursor=x"] {
            served.send(get(&format!("{path}{query}"))).await;
        }
    }
    let text = served.send(get("/metrics")).await.text().to_owned();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series <= 2000, "{series} series");
    let sources = text.lines().filter(|line| line.starts_with("redrive_partitions{")).count() / 3;
    assert_eq!(sources, 32, "sources that no configuration names");
    assert!(text.contains("redrive_attempts_total{workload=\"process\",source=\"other\""), "{text}");
}

/// What outside workers report is counted by the server that they report to.
async fn outside_workers_are_counted(served: Served) {
    served.store.submit(&["any%", "any%"]).await;
    served.store.clock.advance(Duration::from_secs(2));
    let claim = json!({"worker": "py", "claim_id": "c1", "max": 2});
    let claimed = served.send(post("/v1/worker/claim").json(&claim)).await.done(200);
    let report = |nth: usize, what: &str, body: Value| {
        let run = &claimed["runs"][nth];
        let mut body = body;
        body["task_id"] = run["task_id"].clone();
        post(&format!("/v1/worker/runs/{}/{what}", run["id"].as_str().unwrap())).json(&body)
    };
    let done = report(0, "complete", json!({"verdict": "passed"}));
    let failed = report(1, "fail", json!({"error_class": "final", "message": "no"}));
    for call in [done.clone(), done, failed] {
        served.send(call).await.done(200);
    }
    let text = served.send(get("/metrics")).await.text().to_owned();
    for line in [
        "redrive_attempts_total{workload=\"process\",source=\"any%\",outcome=\"success\",class=\"\"} 1",
        "redrive_attempts_total{workload=\"process\",source=\"any%\",outcome=\"failed\",class=\"final\"} 1",
        "redrive_wait_duration_seconds_count{lane=\"process\"} 2",
        "redrive_retries_exhausted_total{workload=\"process\"} 0",
        "redrive_processes{kind=\"outside\",state=\"alive\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

/// The database is asked at most every ten seconds; what the process counts is always as it is now.
async fn the_database_is_asked_now_and_then(served: Served) {
    let key = |date: &str| PartitionKey::new("ads", "1", "daily", date).unwrap();
    served.store.judged(vec![key("2025-12-01")], Judgement::Accepted { records: 1 }).await;
    let first = served.send(get("/metrics")).await.text().to_owned();
    served.store.judged(vec![key("2025-12-02")], Judgement::Accepted { records: 1 }).await;
    let second = served.send(get("/metrics")).await.text().to_owned();
    for (text, counted) in [(&first, 1), (&second, 2)] {
        let attempts = "redrive_attempts_total{workload=\"extract\",source=\"ads\",outcome=\"success\",class=\"\"}";
        assert!(text.contains(&format!("{attempts} {counted}\n")), "{text}");
        assert!(text.contains("redrive_partitions{source=\"ads\",status=\"success\"} 1\n"), "{text}");
    }
}

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// Runs promtool; what it says where it finds fault.
fn promtool(arguments: &[&str], folder: &Path, input: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        redrive_fixture::skip("promtool is not in the PATH (Debian: prometheus)");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let told = child.wait_with_output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    (!told.status.success()).then_some(text)
}

/// A page with every family that there is.
async fn full_page() -> String {
    let served = Served::on(TestDatabase::sqlite()).await;
    let key = |date: &str| PartitionKey::new("ads", "1", "daily", date).unwrap();
    let accepted = Judgement::Accepted { records: 1 };
    served.store.judged(vec![key("2025-12-01")], accepted).await;
    served.send(get("/v1/status")).await;
    served.send(get("/metrics")).await.text().to_owned()
}

#[tokio::test]
async fn promtool_reads_every_line() {
    let told = promtool(&["check", "metrics"], &deploy("prometheus"), &full_page().await);
    assert_eq!(told, None);
}

#[test]
fn alerts_do_what_their_tests_say() {
    assert_eq!(promtool(&["test", "rules", "redrive.test.yml"], &deploy("prometheus"), ""), None);
}

/// What alerts and the dashboard speak of is there. A calendar's days and a breaker's holds need more than this server has.
#[tokio::test]
async fn alerts_and_the_dashboard_use_what_there_is() {
    let page = full_page().await;
    let mut known: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    known.extend(["redrive_missing_partitions", "redrive_freshness_limit_seconds"]);
    let mut used = 0;
    for file in ["prometheus/redrive.rules.yml", "grafana/redrive.json"] {
        let text = std::fs::read_to_string(deploy(file)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        for word in words.filter(|word| word.starts_with("redrive_")) {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            assert!(known.contains(family), "{file} speaks of {word}, which is not there");
            used += 1;
        }
    }
    assert!(used > 20, "only {used} names were found");
}

on_both_databases!(
    a_thousand_customers_make_no_series,
    the_page_stays_short,
    outside_workers_are_counted,
    the_database_is_asked_now_and_then,
);
