//! The rows that `bench state` measures on: made by one statement, because making them is not what is measured.

use redrive_store::StoreUrl;

use crate::{Result, plain};

pub const SOURCE: &str = "bench";
/// The customers whose failed partitions are retried by the store, and by plain SQL.
pub const OURS: &str = "ours";
pub const PLAIN: &str = "plain";
pub const CLAIMABLE: &str = "plain, claimable";

/// 2026-01-01T00:00:00Z; everything failed then, but for what is due.
pub const FAILED_AT: i64 = 1_767_225_600_000_000;

/// How many rows of each kind there are to be.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    pub retried: u32,
    pub failed: u32,
    pub due: u32,
    pub all: u32,
}

/// Failed ones to retry, failed ones of which a few are due, and successes for the rest.
pub async fn make(url: &StoreUrl, rows: Rows) -> Result<()> {
    let Rows { retried, failed, due, all } = rows;
    let others = failed.saturating_sub(retried);
    let successes = all.saturating_sub(failed).saturating_sub(retried);
    // The due ones failed an hour before the others.
    let (late, early) = (FAILED_AT, FAILED_AT - 3_600_000_000);
    fill(url, OURS, retried, "'failed', NULL, 3, 'retryable', 'bench'", &late.to_string()).await?;
    fill(url, CLAIMABLE, retried, "'failed', NULL, 3, 'retryable', 'bench'", &late.to_string()).await?;
    fill(url, PLAIN, retried, "'failed', NULL, 3, 'retryable', 'bench'", &late.to_string()).await?;
    let when = format!("CASE WHEN n < {due} THEN {early} ELSE {late} END");
    fill(url, "failing", others.max(due), "'failed', NULL, 1, 'retryable', 'bench'", &when).await?;
    let id = match url {
        StoreUrl::Sqlite(_) => "x'00000000000000000000000000000000'",
        StoreUrl::Postgres(_) => "'00000000-0000-0000-0000-000000000000'",
    };
    fill(url, "done", successes, &format!("'success', {id}, 1, NULL, NULL"), &late.to_string()).await?;
    let statistics = match url {
        StoreUrl::Sqlite(_) => "PRAGMA wal_checkpoint(TRUNCATE)",
        StoreUrl::Postgres(_) => "VACUUM ANALYZE",
    };
    plain::execute(url, statistics).await
}

/// Rows `n = 0, 1, …` of one customer: a thousand days of each query.
async fn fill(url: &StoreUrl, customer: &str, count: u32, outcome: &str, at: &str) -> Result<()> {
    let (numbers, query, date) = match url {
        StoreUrl::Sqlite(_) => (
            format!(
                "WITH RECURSIVE s(n) AS (SELECT 0 WHERE {count} > 0 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {count})"
            ),
            "printf('query_%06d', n / 1000)",
            "date('2022-01-01', '+' || (n % 1000) || ' days')",
        ),
        StoreUrl::Postgres(_) => (
            format!("WITH s AS (SELECT generate_series(0, {count} - 1) AS n)"),
            "'query_' || lpad((n / 1000)::text, 6, '0')",
            "(date '2022-01-01' + n % 1000)::text",
        ),
    };
    let sql = format!(
        "{numbers} INSERT INTO partitions (source, customer_id, query_name, logical_date, status, current_run_id, \
         attempt_count, error_class, error_message, created_at, updated_at) \
         SELECT '{SOURCE}', '{customer}', {query}, {date}, {outcome}, {at}, {at} FROM s"
    );
    plain::execute(url, &sql).await
}
