//! The statements that run all day step down an index, however many partitions have succeeded.
//!
//! The store keeps its statements to itself; these say the same, and a plan is asked for what it would do.

use crate::raw::Raw;
use crate::support::Subject;

/// Twenty thousand partitions, nearly all of them successes.
async fn furnish(raw: &Raw) {
    let run = raw.id(uuid::Uuid::nil());
    raw.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) \
         INSERT INTO partitions (source, customer_id, query_name, logical_date, status, current_run_id, attempt_count, \
         error_class, created_at, updated_at) SELECT 's' || (i % 3), 'c' || (i % 50), 'q' || i, '2026-01-01', \
         CASE WHEN i % 20 = 0 THEN 'failed' ELSE 'success' END, {run}, i % 6 + 1, \
         CASE WHEN i % 20 = 0 THEN 'retryable' END, i, i FROM n"
    ))
    .await;
    raw.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) \
         INSERT INTO partition_control (source, customer_id, query_name, logical_date, lane, queued_at) \
         SELECT 's' || (i % 3), 'c' || (i % 50), 'q' || i, '2026-01-01', 'backfill', i FROM n",
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
async fn what_may_be_due_is_read_from_its_index(subject: Subject) {
    let raw = subject.raw().await;
    furnish(&raw).await;
    let reach = "SELECT p.source, p.customer_id, p.query_name, p.logical_date, p.error_message, c.not_before \
         FROM partitions p LEFT JOIN partition_control c ON c.source = p.source AND c.customer_id = p.customer_id \
         AND c.query_name = p.query_name AND c.logical_date = p.logical_date \
         WHERE p.status = 'failed' AND p.held = 0 AND p.error_class <> 'final' AND p.source = 's0' \
         AND p.attempt_count = 3 AND p.updated_at <= 9000 AND p.created_at > -5 AND (p.updated_at > 100 OR \
         (p.updated_at = 100 AND (p.customer_id, p.query_name, p.logical_date) > ('c1', 'q1', '2026-01-01'))) \
         AND p.updated_at >= 100 ORDER BY p.updated_at, p.customer_id, p.query_name, p.logical_date LIMIT 50";
    assert_uses(&plan(&raw, reach).await, "partitions_due");
    let band = "SELECT source, attempt_count FROM partitions WHERE status = 'failed' AND held = 0 \
         AND error_class <> 'final' AND (source, attempt_count) > ('s0', 2) ORDER BY source, attempt_count LIMIT 1";
    assert_uses(&plan(&raw, band).await, "partitions_due");
}

/// RP-2.6
async fn rejected_reprocesses_are_read_from_their_index(subject: Subject) {
    let raw = subject.raw().await;
    furnish(&raw).await;
    raw.run("UPDATE partition_control SET lane = NULL, reprocess = 2 WHERE query_name LIKE 'q1%' AND source = 's0'")
        .await;
    raw.run("ANALYZE").await;
    let page = "SELECT p.source, p.updated_at, c.reprocess FROM partition_control c JOIN partitions p ON p.source = c.source \
         AND p.customer_id = c.customer_id AND p.query_name = c.query_name AND p.logical_date = c.logical_date \
         WHERE c.reprocess > 1 AND c.lane IS NULL AND c.paused_at IS NULL AND c.source = 's0' AND c.reprocess = 2 \
         AND (c.customer_id, c.query_name, c.logical_date) > ('c1', 'q1', '2026-01-01') \
         ORDER BY c.customer_id, c.query_name, c.logical_date LIMIT 50";
    assert_uses(&plan(&raw, page).await, "partition_control_rejected");
}

/// RP-6.3
async fn the_next_customer_is_one_step_down_an_index(subject: Subject) {
    let raw = subject.raw().await;
    furnish(&raw).await;
    let customer = "SELECT min(scope) FROM partition_control WHERE lane IS NOT NULL AND active_run_id IS NULL \
         AND paused_at IS NULL AND lane = 'backfill' AND scope > 's1'";
    assert_uses(&plan(&raw, customer).await, "partition_control_claimable");
}

crate::on_both_databases!(
    what_may_be_due_is_read_from_its_index,
    rejected_reprocesses_are_read_from_their_index,
    the_next_customer_is_one_step_down_an_index,
);
