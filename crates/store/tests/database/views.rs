//! What anybody sees with `psql` or `sqlite3`.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::failure::ErrorClass;
use redrive_core::lane::Lane;
use redrive_core::time::Timestamp;

use crate::raw::Raw;
use crate::steps::{changed, fault, keys, mark, pause, rejected, retry};
use crate::support::TestStore;

/// Rows of a view by their columns' names.
async fn rows(raw: &Raw, view: &str, columns: &[&str]) -> Vec<BTreeMap<String, Option<String>>> {
    let rows = raw.rows(&format!("SELECT {} FROM {view} ORDER BY 1, 2, 3, 4", columns.join(", "))).await;
    rows.into_iter().map(|row| columns.iter().map(|name| (*name).to_owned()).zip(row).collect()).collect()
}

/// A moment as the view writes it: ISO 8601 in UTC, to the millisecond at least.
fn is(shown: &Option<String>, moment: Option<Timestamp>) {
    let Some(moment) = moment else {
        assert_eq!(*shown, None);
        return;
    };
    let text = shown.as_deref().unwrap();
    assert!(text.ends_with('Z') && text.as_bytes()[10] == b'T', "{text}");
    let read: Timestamp = text.parse::<jiff::Timestamp>().unwrap().into();
    assert!(read.micros().abs_diff(moment.micros()) < 1000, "{text} is not {moment}");
}

/// RP-8.2, CP-3d.1
async fn partition_state_shows_iso_timestamps(subject: TestStore) {
    subject.clock.advance(Duration::from_micros(86_399_123_456));
    let days = keys("ads", &["a"], 2);
    subject.judged(days[..1].to_vec(), rejected(ErrorClass::Retryable, "boom")).await;
    subject.clock.advance(Duration::from_micros(7_000_001));
    subject.want(Lane::Backfill, days[1..].to_vec()).await;
    assert!(changed(&subject.ask(&days[0], mark(1)).await));
    assert!(changed(&subject.ask(&days[1], pause()).await));
    let raw = Raw::of(&subject).await;
    assert_eq!(raw.rows("SELECT * FROM partition_state").await.len(), 2);
    let columns = [
        "source",
        "customer_id",
        "query_name",
        "logical_date",
        "status",
        "attempt_count",
        "error_class",
        "error_message",
        "created_at",
        "updated_at",
        "lane",
        "queued_at",
        "terminal_by",
        "paused_by",
    ];
    let rows = rows(&raw, "partition_state", &columns).await;
    for (row, key) in rows.iter().zip(&days) {
        let partition = subject.read(key).await;
        is(&row["created_at"], Some(partition.state.created_at));
        is(&row["updated_at"], Some(partition.state.updated_at));
        is(&row["queued_at"], partition.control.wanted.map(|wanted| wanted.queued_at));
        assert_eq!(row["status"].as_deref(), Some(partition.state.status.as_str()));
        assert_eq!(row["error_message"], partition.state.error_message);
        assert_eq!(row["terminal_by"], partition.control.terminal.map(|mark| mark.by));
        assert_eq!(row["paused_by"], partition.control.paused.map(|mark| mark.by));
    }
    assert_eq!(rows[0]["error_message"].as_deref(), Some("[terminal] boom"));
}

/// RP-8.2
async fn run_status_shows_iso_timestamps(subject: TestStore) {
    subject.clock.advance(Duration::from_micros(999_999));
    let id = subject.submit(&["a"]).await[0];
    let run = subject.claim_jobs(1).await.remove(0);
    subject.report(&run, fault(ErrorClass::Retryable, None)).await;
    let raw = Raw::of(&subject).await;
    let columns = [
        "workload",
        "category",
        "state",
        "attempt",
        "submitted_at",
        "next_retry_at",
        "started_at",
        "last_heartbeat",
        "completed_at",
    ];
    let rows = rows(&raw, "run_status", &columns).await;
    let run = subject.run(id).await;
    is(&rows[0]["submitted_at"], Some(run.submitted_at));
    is(&rows[0]["next_retry_at"], run.next_retry_at);
    is(&rows[0]["started_at"], run.started_at);
    is(&rows[0]["last_heartbeat"], run.last_heartbeat);
    is(&rows[0]["completed_at"], None);
    assert_eq!(rows[0]["state"].as_deref(), Some("waiting"));
}

/// An id copied from a view is the id that the commands know.
async fn ids_are_shown_as_the_commands_write_them(subject: TestStore) {
    let key = keys("ads", &["a"], 1).remove(0);
    subject.failed(&key).await;
    assert!(changed(&subject.ask(&key, retry(&redrive_core::retry::RetryPolicy::partitions())).await));
    let claimed = subject.claim(1).await.remove(0);
    let raw = Raw::of(&subject).await;
    let shown = raw.rows("SELECT active_run_id FROM partition_state").await;
    assert_eq!(shown[0][0], Some(claimed.run.run_id.to_string()));
    let shown = raw.rows("SELECT run_id FROM run_status WHERE state = 'running'").await;
    assert_eq!(shown[0][0], Some(claimed.run.run_id.to_string()));
}

crate::on_both_databases!(
    partition_state_shows_iso_timestamps,
    run_status_shows_iso_timestamps,
    ids_are_shown_as_the_commands_write_them,
);
