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

/// 2022-01-01 as the store counts days.
const FIRST_DAY: i64 = 18_993;

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
    fill(url, OURS, retried, "'failed', NULL, 3, 3, 'retryable', 'bench'", &late.to_string()).await?;
    fill(url, CLAIMABLE, retried, "'failed', NULL, 3, 3, 'retryable', 'bench'", &late.to_string()).await?;
    fill(url, PLAIN, retried, "'failed', NULL, 3, 3, 'retryable', 'bench'", &late.to_string()).await?;
    let when = format!("CASE WHEN n < {due} THEN {early} ELSE {late} END");
    fill(url, "failing", others.max(due), "'failed', NULL, 1, 1, 'retryable', 'bench'", &when).await?;
    let id = match url {
        StoreUrl::Sqlite(_) => "x'00000000000000000000000000000000'",
        StoreUrl::Postgres(_) => "'00000000-0000-0000-0000-000000000000'",
    };
    fill(url, "done", successes, &format!("'success', {id}, 1, 1, NULL, NULL"), &late.to_string()).await?;
    let statistics = match url {
        StoreUrl::Sqlite(_) => "PRAGMA wal_checkpoint(TRUNCATE)",
        StoreUrl::Postgres(_) => "VACUUM ANALYZE",
    };
    plain::execute(url, statistics).await
}

/// Rows `n = 0, 1, …` of one customer: a thousand days of each query.
async fn fill(url: &StoreUrl, customer: &str, count: u32, outcome: &str, at: &str) -> Result<()> {
    let (numbers, query) = match url {
        StoreUrl::Sqlite(_) => (
            format!(
                "WITH RECURSIVE s(n) AS (SELECT 0 WHERE {count} > 0 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {count})"
            ),
            "printf('query_%06d', n / 1000)",
        ),
        StoreUrl::Postgres(_) => (
            format!("WITH s AS (SELECT generate_series(0, {count} - 1) AS n)"),
            "'query_' || lpad((n / 1000)::text, 6, '0')",
        ),
    };
    let last = "(SELECT coalesce(max(series_id), 0) FROM series)";
    let first_of = |what: &str, of: &str| format!("coalesce((SELECT min({what}) FROM series WHERE {of}), {last} + 1)");
    let source_no = first_of("source_no", &format!("source = '{SOURCE}'"));
    let series = format!(
        "{numbers} INSERT INTO series (series_id, source, customer_id, query_name, source_no, scope) \
         SELECT {last} + 1 + n / 1000, '{SOURCE}', '{customer}', {query}, {source_no}, \
         CAST({source_no} AS BIGINT) * 4294967296 + {last} + 1 FROM s WHERE n % 1000 = 0"
    );
    plain::execute(url, &series).await?;
    let partitions = format!(
        "{numbers} INSERT INTO partitions (series_id, period, source_no, status, current_run_id, \
         attempt_count, spent, error_class, error_message, created_at, updated_at) \
         SELECT first.id + n / 1000, {FIRST_DAY} + n % 1000, first.source_no, {outcome}, {at}, {at} \
         FROM s CROSS JOIN (SELECT min(series_id) AS id, min(source_no) AS source_no FROM series \
         WHERE source = '{SOURCE}' AND customer_id = '{customer}') first"
    );
    plain::execute(url, &partitions).await
}
