//! Stores to break, and what must hold of them afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::run::{Work, Workload};
pub use redrive_fixture::{LEASE, START, eventually, operation, within};
use redrive_store::clock::ManualClock;
use redrive_store::{Error, NewRun, Open, Options, PartitionClaim, RunClaim, Store, StoreUrl, Verified};

/// How long a look past the store waits for the store's writer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options with a clock that stands still.
pub fn standing_still() -> Options {
    with_clock(&ManualClock::at(START))
}

pub fn with_clock(clock: &ManualClock) -> Options {
    Options { connections: 4, ..redrive_fixture::with_clock(clock) }
}

pub fn sqlite(path: &Path) -> StoreUrl {
    StoreUrl::Sqlite(path.to_owned())
}

pub async fn open(url: &StoreUrl) -> Store {
    Store::open(url, Open::Migrate, standing_still()).await.unwrap()
}

/// A directory with room for a database file.
pub struct Place {
    pub directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("redrive.db")
    }

    pub fn url(&self) -> StoreUrl {
        sqlite(&self.file())
    }
}

pub fn job(external_id: &str) -> NewRun {
    let (category, external_id) = ("any%".to_owned(), Some(external_id.to_owned()));
    NewRun::new(Work::Process { category, external_id }, None, START)
}

pub fn claim_runs(worker: &str, limit: u32) -> RunClaim {
    RunClaim::new(Workload::Process, worker, limit, LEASE)
}

pub fn claim_partitions(worker: &str, limit: u32) -> PartitionClaim {
    PartitionClaim::new(worker, limit, LEASE)
}

pub fn key(source: &str, customer: &str) -> PartitionKey {
    PartitionKey::new(source, customer, "daily", "2026-01-01").unwrap()
}

pub fn wanted(source: &str, customer: &str) -> Partition {
    Partition::new(key(source, customer), Lane::Fresh, START)
}

/// The text of an error as a person gets to see it, which is one line.
pub fn one_line(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && !text.trim().is_empty(), "not one line: {text:?}");
    text
}

/// The same of an error that says the database is out of reach and where it is.
pub fn unavailable_at(error: &Error, place: &str) -> String {
    let text = one_line(error);
    assert!(error.is_unavailable(), "{error:?}");
    assert!(text.contains(place), "{place} is not named in: {text}");
    text
}

/// Rows that may not be there, whatever happened: halves of what is written as a whole.
const HALVES: &[(&str, &str)] = &[
    (
        "pending partitions without a control row",
        "SELECT count(*) FROM partitions p WHERE p.status = 'pending' AND NOT EXISTS (SELECT 1 FROM partition_control c \
         WHERE c.series_id = p.series_id AND c.period = p.period)",
    ),
    (
        "control rows without a partition",
        "SELECT count(*) FROM partition_control c WHERE NOT EXISTS (SELECT 1 FROM partitions p \
         WHERE c.series_id = p.series_id AND c.period = p.period)",
    ),
    (
        "partitions without a series",
        "SELECT count(*) FROM partitions WHERE series_id NOT IN (SELECT series_id FROM series)",
    ),
    (
        "changes without an operation",
        "SELECT count(*) FROM operation_changes WHERE operation_seq NOT IN (SELECT seq FROM operations)",
    ),
    (
        "operations without a change",
        "SELECT count(*) FROM operations WHERE seq NOT IN (SELECT operation_seq FROM operation_changes)",
    ),
    (
        "attempts in flight without a running run",
        "SELECT count(*) FROM partition_control WHERE active_run_id IS NOT NULL \
         AND active_run_id NOT IN (SELECT run_id FROM runs WHERE state = 'running')",
    ),
    (
        "running extractions that no partition knows of",
        "SELECT count(*) FROM runs WHERE workload = 'extract' AND state = 'running' AND run_id NOT IN \
         (SELECT active_run_id FROM partition_control WHERE active_run_id IS NOT NULL)",
    ),
    (
        "successes whose run is not done",
        "SELECT count(*) FROM partitions WHERE status = 'success' AND current_run_id NOT IN \
         (SELECT run_id FROM runs WHERE state = 'done')",
    ),
];

/// Asserts that nothing is half-written and the audit chain is whole. `count` runs SQL that gives one number.
pub async fn assert_whole(store: &Store, count: impl Fn(&str) -> u64) {
    for (what, sql) in HALVES {
        assert_eq!(count(sql), 0, "{what}");
    }
    let verified = store.view().verify_audit().await.unwrap();
    let changes = count("SELECT count(*) FROM operation_changes") + count("SELECT count(*) FROM operations");
    assert!(matches!(&verified, Verified::Whole(head) if u64::try_from(head.seq) == Ok(changes)), "{verified:?}");
}

/// Waits until nobody has a SQLite file open; a store's writer lets go of it a moment after the store is dropped.
pub async fn closed(path: &Path) {
    let wal = path.with_extension("db-wal");
    eventually("the file is closed", async || !wal.exists()).await;
}

/// Asks a SQLite file for a number, past the store.
pub fn count_in(path: &Path, sql: &str) -> u64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    let count: i64 = connection.query_row(sql, (), |row| row.get(0)).unwrap();
    u64::try_from(count).unwrap()
}

/// Asks a PostgreSQL database for a number, past the store.
pub fn count_at(database: &redrive_fixture::Database, sql: &str) -> u64 {
    database.query(sql).parse().unwrap()
}

/// Asserts that SQLite finds its file in order.
pub fn assert_integrity(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    let found: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}
