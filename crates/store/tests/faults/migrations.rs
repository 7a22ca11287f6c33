//! Migrations: many at once, half-way ones, and a program that finds the schema wanting.

use std::fs;

use futures_util::future::join_all;
use redrive_fixture::Postgres;
use redrive_store::{Error, Open, SCHEMA_VERSION, Schema, Store, StoreUrl};

use crate::support::{Place, assert_integrity, count_in, one_line, standing_still, unavailable_at};

const OPENERS: usize = 8;
const CURRENT: Schema = Schema::Redrive { version: SCHEMA_VERSION, beside_others: false };

/// Opens a database from many sides at once; all must succeed.
async fn open_at_once(url: &StoreUrl) -> Vec<Store> {
    let opening = (0..OPENERS).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { Store::open(&url, Open::Migrate, standing_still()).await })
    });
    let opened: Vec<_> = join_all(opening).await.into_iter().map(Result::unwrap).collect();
    opened.into_iter().map(|opened| opened.unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn eight_migrations_of_a_sqlite_file_leave_one_schema() {
    for _ in 0..60 {
        let place = Place::new();
        for store in open_at_once(&place.url()).await {
            assert_eq!(store.schema().await.unwrap(), CURRENT);
        }
        assert_integrity(&place.file());
        assert_eq!(count_in(&place.file(), "SELECT count(*) FROM audit_head"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn eight_migrations_of_a_postgres_database_leave_one_schema() {
    for _ in 0..3 {
        let database = Postgres::shared().fresh_database();
        for store in open_at_once(&StoreUrl::parse(&database.url).unwrap()).await {
            assert_eq!(store.schema().await.unwrap(), CURRENT);
        }
        assert_eq!(
            database.query("SELECT count(*), max(version) FROM redrive_schema"),
            format!("{SCHEMA_VERSION}|{SCHEMA_VERSION}")
        );
        assert_eq!(database.query("SELECT count(*) FROM audit_head"), "1");
    }
}

#[tokio::test]
async fn a_second_migration_changes_nothing() {
    let database = Postgres::shared().fresh_database();
    let place = Place::new();
    for url in [place.url(), StoreUrl::parse(&database.url).unwrap()] {
        let store = Store::open(&url, Open::AsIs, standing_still()).await.unwrap();
        assert_eq!(store.schema().await.unwrap(), Schema::Empty);
        assert_eq!(store.migrate().await.unwrap(), (0, SCHEMA_VERSION));
        assert_eq!(store.migrate().await.unwrap(), (SCHEMA_VERSION, SCHEMA_VERSION));
        Store::open(&url, Open::Current, standing_still()).await.unwrap();
    }
}

#[tokio::test]
async fn an_empty_database_is_said_to_need_migrating() {
    let database = Postgres::shared().fresh_database();
    let place = Place::new();
    fs::write(place.file(), "").unwrap();
    for url in [place.url(), StoreUrl::parse(&database.url).unwrap()] {
        let error = Store::open(&url, Open::Current, standing_still()).await.unwrap_err();
        assert!(matches!(error, Error::OlderSchema { found: 0, needed: SCHEMA_VERSION, .. }), "{error:?}");
        assert!(unavailable_at(&error, &url.place()).ends_with("; migrate it"));
    }
}

/// The last things that a migration makes are views; this name is taken.
const TAKEN: &str = "CREATE VIEW run_status AS SELECT 1";

/// A SQLite file whose migration fails at its end, and how it failed.
async fn failed_on_sqlite(place: &Place) -> Error {
    rusqlite::Connection::open(place.file()).unwrap().execute_batch(TAKEN).unwrap();
    Store::open(&place.url(), Open::Migrate, standing_still()).await.unwrap_err()
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_of_itself_on_sqlite() {
    let place = Place::new();
    let error = failed_on_sqlite(&place).await;
    let tables = count_in(&place.file(), "SELECT count(*) FROM sqlite_schema WHERE type = 'table'");
    assert_eq!(tables, 0, "tables are left after {error}");
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_of_itself_on_postgres() {
    let database = Postgres::shared().fresh_database();
    database.query(TAKEN);
    let url = StoreUrl::parse(&database.url).unwrap();
    let error = Store::open(&url, Open::Migrate, standing_still()).await.unwrap_err();
    one_line(&error);
    assert_eq!(database.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0", "after {error}");
}

#[tokio::test]
async fn a_failed_migration_is_told_in_one_line() {
    one_line(&failed_on_sqlite(&Place::new()).await);
}
