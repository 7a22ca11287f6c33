//! The statements that run all day step down an index, however many partitions have succeeded.
//!
//! The store keeps its statements to itself; these say the same, and a plan is asked for what it would do.

use crate::raw::Raw;
use crate::support::TestStore;

/// Twenty thousand partitions of as many series, nearly all of them successes.
async fn furnish(raw: &Raw) {
    let run = raw.id(uuid::Uuid::nil());
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";
    raw.run(&format!(
        "{numbers} INSERT INTO series SELECT i, 's' || (i % 3), 'c' || (i % 50), 'q' || i, i % 3 + 1, \
         (i % 3 + 1) * 4294967296 + i % 150 + 1 FROM n"
    ))
    .await;
    raw.run(&format!(
        "{numbers} INSERT INTO partitions (series_id, period, source_no, status, current_run_id, attempt_count, spent, \
         error_class, created_at, updated_at) SELECT i, 20454, i % 3 + 1, \
         CASE WHEN i % 20 = 0 THEN 'failed' ELSE 'success' END, {run}, i % 6 + 1, i % 6 + 1, \
         CASE WHEN i % 20 = 0 THEN 'retryable' END, i, i FROM n"
    ))
    .await;
    raw.run(
        "INSERT INTO partition_control (series_id, period, source_no, scope, lane, queued_at) \
         SELECT series_id, 20454, source_no, scope, 'backfill', series_id FROM series WHERE series_id <= 5000",
    )
    .await;
    raw.run("ANALYZE").await;
}

async fn plan(raw: &Raw, statement: &str) -> String {
    let explain = if raw.is_postgres() { "EXPLAIN" } else { "EXPLAIN QUERY PLAN" };
    let rows = raw.rows(&format!("{explain} {statement}")).await;
    rows.into_iter().map(|row| row.into_iter().flatten().next_back().unwrap_or_default() + "\n").collect()
}

fn assert_uses(plan: &str, index: &str) {
    assert!(plan.contains(index), "{plan}");
    assert!(!plan.contains("Seq Scan") && !plan.contains("SCAN"), "{plan}");
}

/// RD-1
async fn what_may_be_due_is_read_from_its_index(subject: TestStore) {
    let raw = Raw::of(&subject).await;
    furnish(&raw).await;
    let due = "SELECT p.period, p.error_message, c.not_before \
         FROM partitions p LEFT JOIN partition_control c ON c.series_id = p.series_id AND c.period = p.period \
         WHERE p.status = 'failed' AND p.held IS NULL AND p.error_class <> 'final' \
         AND p.source_no = (SELECT source_no FROM series WHERE source = 's0' \
         ORDER BY customer_id, query_name LIMIT 1) \
         AND p.attempt_count = 3 AND p.updated_at <= 9000 AND p.created_at > -5 \
         AND (p.updated_at, p.series_id, p.period) > (100, 7, 20454) \
         ORDER BY p.updated_at, p.series_id, p.period LIMIT 50";
    assert_uses(&plan(&raw, due).await, "partitions_due");
    let band = "SELECT source_no, attempt_count FROM partitions WHERE status = 'failed' AND held IS NULL \
         AND error_class <> 'final' AND source_no = 1 AND attempt_count > 2 ORDER BY source_no, attempt_count LIMIT 1";
    assert_uses(&plan(&raw, band).await, "partitions_due");
}

/// RP-2.6
async fn rejected_reprocesses_are_read_from_their_index(subject: TestStore) {
    let raw = Raw::of(&subject).await;
    furnish(&raw).await;
    raw.run("UPDATE partition_control SET lane = NULL, reprocess = 1, rejected = 1 WHERE source_no = 1 AND series_id < 2000")
        .await;
    raw.run("ANALYZE").await;
    let page = "SELECT p.updated_at, c.rejected FROM partition_control c CROSS JOIN partitions p \
         WHERE p.series_id = c.series_id AND p.period = c.period \
         AND c.rejected > 0 AND c.lane IS NULL AND c.paused_at IS NULL \
         AND c.source_no = (SELECT source_no FROM series WHERE source = 's0' \
         ORDER BY customer_id, query_name LIMIT 1) AND c.rejected = 1 \
         AND (c.series_id, c.period) > (7, 20454) ORDER BY c.series_id, c.period LIMIT 50";
    assert_uses(&plan(&raw, page).await, "partition_control_rejected");
}

/// RP-6.3
async fn the_next_customer_is_one_step_down_an_index(subject: TestStore) {
    let raw = Raw::of(&subject).await;
    furnish(&raw).await;
    let customer = "SELECT min(scope) FROM partition_control WHERE lane IS NOT NULL AND active_run_id IS NULL \
         AND paused_at IS NULL AND lane = 'backfill' AND scope > 8589934592";
    assert_uses(&plan(&raw, customer).await, "partition_control_claimable");
}

crate::on_both_databases!(
    what_may_be_due_is_read_from_its_index,
    rejected_reprocesses_are_read_from_their_index,
    the_next_customer_is_one_step_down_an_index,
);
