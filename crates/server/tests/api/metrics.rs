//! What Prometheus scrapes: every line can be read, and no customer makes a series.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::Judgement;
use redrive_fixture::{OnDatabase as _, TestDatabase, on_both_databases};

use crate::client::get;
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
    known.extend(["redrive_missing_partitions"]);
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

on_both_databases!(a_thousand_customers_make_no_series);
