//! Opening what is not there, not ours, not ready or not to be had: refused with one line that says so.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use redrive_fixture::{Database, Durability, Postgres};
use redrive_store::{Error, Open, SCHEMA_VERSION, Schema, Store, StoreUrl};

use crate::support::{Place, closed, one_line, open, sqlite, standing_still, unavailable_at, within};

const ALL: [Open; 2] = [Open::Migrate, Open::Current];

async fn refused(url: &StoreUrl, how: Open) -> Error {
    Store::open(url, how, standing_still()).await.expect_err("it must not open")
}

/// Makes a SQLite file as somebody else would.
fn foreign(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn assert_names_both_versions(error: &Error, found: i64) {
    assert!(matches!(error, Error::NewerSchema { .. }), "{error:?}");
    let text = one_line(error);
    assert!(error.is_unavailable());
    assert!(
        text.contains(&format!("version {found},")) && text.contains(&format!("up to {SCHEMA_VERSION};")),
        "{text}"
    );
}

#[tokio::test]
async fn a_sqlite_file_from_the_future_is_refused_and_left_alone() {
    let place = Place::new();
    drop(open(&place.url()).await);
    closed(&place.file()).await;
    let later = SCHEMA_VERSION + 41;
    foreign(&place.file(), &format!("PRAGMA journal_mode = delete; PRAGMA user_version = {later}"));
    let before = fs::read(place.file()).unwrap();
    for how in ALL {
        let error = refused(&place.url(), how).await;
        assert_names_both_versions(&error, later);
        unavailable_at(&error, &place.url().place());
    }
    assert!(fs::read(place.file()).unwrap() == before, "the refused file was changed");
}

#[tokio::test]
async fn a_postgres_database_from_the_future_is_refused() {
    let database = Postgres::shared().fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    drop(open(&url).await);
    let later = SCHEMA_VERSION + 41;
    database.query(&format!("INSERT INTO redrive_schema VALUES ({later})"));
    for how in ALL {
        assert_names_both_versions(&refused(&url, how).await, later);
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_by_name_and_left_alone() {
    let place = Place::new();
    let text = "dear diary, ".repeat(1000);
    fs::write(place.file(), &text).unwrap();
    for how in [Open::Migrate, Open::Current, Open::AsIs] {
        let error = refused(&place.url(), how).await;
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        let text = unavailable_at(&error, &place.url().place());
        assert!(text.contains("not a database"), "{text}");
    }
    assert_eq!(fs::read_to_string(place.file()).unwrap(), text);
}

#[tokio::test]
async fn a_directory_in_place_of_a_file_is_refused() {
    let place = Place::new();
    let url = sqlite(place.directory.path());
    for how in ALL {
        let error = refused(&url, how).await;
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        unavailable_at(&error, &url.place());
    }
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let place = Place::new();
    let missing = place.directory.path().join("no/such");
    let error = refused(&sqlite(&missing.join("redrive.db")), Open::Migrate).await;
    let text = unavailable_at(&error, &missing.display().to_string());
    assert!(text.contains("does not exist"), "{text}");
    assert!(!missing.exists());
}

#[tokio::test]
async fn a_file_where_a_directory_should_be_is_named() {
    let place = Place::new();
    let file = place.directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = refused(&sqlite(&file.join("redrive.db")), Open::Migrate).await;
    unavailable_at(&error, &file.display().to_string());
}

#[tokio::test]
async fn somebody_elses_sqlite_database_is_refused_and_left_alone() {
    let place = Place::new();
    foreign(&place.file(), "CREATE TABLE customers (id INTEGER PRIMARY KEY); INSERT INTO customers VALUES (7)");
    let before = fs::read(place.file()).unwrap();
    for how in ALL {
        let error = refused(&place.url(), how).await;
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        unavailable_at(&error, &place.url().place());
    }
    assert!(fs::read(place.file()).unwrap() == before, "somebody else's file was changed");
}

#[tokio::test]
async fn somebody_elses_schema_version_is_not_mistaken_for_ours() {
    let place = Place::new();
    foreign(&place.file(), "CREATE TABLE customers (id INTEGER PRIMARY KEY); PRAGMA user_version = 7");
    for how in ALL {
        let error = refused(&place.url(), how).await;
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_look_at_a_file_that_is_not_there_does_not_make_it() {
    let place = Place::new();
    let _ = refused(&place.url(), Open::Current).await;
    let left: Vec<_> = fs::read_dir(place.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "opening with Open::Current made {left:?}");
}

#[tokio::test]
async fn somebody_elses_postgres_database_is_refused() {
    let database = Postgres::shared().fresh_database();
    database.query("CREATE TABLE customers (id INTEGER PRIMARY KEY)");
    let url = StoreUrl::parse(&database.url).unwrap();
    for how in ALL {
        let error = refused(&url, how).await;
        assert!(matches!(error, Error::Foreign { .. }), "{how:?}: {error:?}");
        unavailable_at(&error, &url.place());
    }
    assert_eq!(database.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "1");
}

/// A port on loopback that nobody listens on, below those that the system gives to clients.
fn closed_port() -> u16 {
    (21_000..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_once_and_without_the_password() {
    let url = StoreUrl::parse(&format!("postgres://u:hunter2@127.0.0.1:{}/db", closed_port())).unwrap();
    for how in [Open::Migrate, Open::Current, Open::AsIs] {
        let error = within(Duration::from_secs(5), "refusal", refused(&url, how)).await;
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        let text = unavailable_at(&error, "127.0.0.1");
        assert!(!format!("{text}{error:?}").contains("hunter2"), "{text}");
        assert!(text.contains("refused"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_within_the_connect_timeout() {
    // The system accepts for it, and nobody ever reads.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = StoreUrl::parse(&format!("postgres://u:hunter2@127.0.0.1:{port}/db?connect_timeout=1")).unwrap();
    let started = Instant::now();
    let error = within(Duration::from_secs(8), "the connect timeout of 1 s", refused(&url, Open::Migrate)).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?} after {:?}", started.elapsed());
    assert!(!unavailable_at(&error, "127.0.0.1").contains("hunter2"));
}

#[tokio::test]
async fn something_that_is_no_postgres_server_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let _ = std::io::Write::write_all(&mut &client, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let url = StoreUrl::parse(&format!("postgres://u:hunter2@127.0.0.1:{port}/db")).unwrap();
    let error = within(Duration::from_secs(15), "refusal", refused(&url, Open::Migrate)).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(!unavailable_at(&error, "127.0.0.1").contains("hunter2"));
}

/// The URL of a database with another user and password, or another name.
fn altered(database: &Database, from: &str, to: &str) -> StoreUrl {
    assert!(database.url.contains(from), "{}", database.url);
    StoreUrl::parse(&database.url.replace(from, to)).unwrap()
}

#[tokio::test]
async fn a_wrong_database_and_a_wrong_user_are_told() {
    let database = Postgres::shared().fresh_database();
    let name = database.query("SELECT current_database()");
    let user = database.query("SELECT current_user");
    let host = format!("{user}@");
    for (url, named) in
        [(altered(&database, &name, "no_such"), "no_such"), (altered(&database, &host, "nobody:hunter2@"), "nobody")]
    {
        let error = within(Duration::from_secs(5), "refusal", refused(&url, Open::Migrate)).await;
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        let text = unavailable_at(&error, &url.place());
        assert!(text.contains(&format!("\"{named}\" does not exist")) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_and_never_shown() {
    let postgres = Postgres::start(Durability::Fast);
    let database = postgres.fresh_database();
    database.query("CREATE ROLE alice LOGIN PASSWORD 'right'");
    database.query("GRANT ALL ON SCHEMA public TO alice");
    let rules = "host all alice 127.0.0.1/32 scram-sha-256', 'local all all trust', 'host all all 127.0.0.1/32 trust";
    let hba = database.query("SHOW hba_file");
    database.query(&format!("COPY (SELECT unnest(ARRAY['{rules}'])) TO '{hba}'"));
    database.query("SELECT pg_reload_conf()");
    let wrong = altered(&database, "postgres@", "alice:hunter2@");
    let refused_by_password = async || {
        let error = Store::open(&wrong, Open::Migrate, standing_still()).await.err();
        error.filter(|error| error.to_string().contains("password authentication failed"))
    };
    crate::support::eventually("the new rules are read", async || refused_by_password().await.is_some()).await;
    let error = refused_by_password().await.unwrap();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(!unavailable_at(&error, &wrong.place()).contains("hunter2"));
    assert!(!format!("{error:?}").contains("hunter2"));

    let none = altered(&database, "postgres@", "alice@");
    assert!(unavailable_at(&refused(&none, Open::Migrate).await, &none.place()).contains("password"));
    let right = altered(&database, "postgres@", "alice:right@");
    let store = Store::open(&right, Open::Migrate, standing_still()).await.unwrap();
    assert!(matches!(store.schema().await.unwrap(), Schema::Redrive { beside_others: false, .. }));
}

#[test]
fn a_wrong_url_is_told_without_its_password() {
    for wrong in [
        "",
        "redrive.db",
        "sqlite:",
        "sqlite://",
        "mysql://u:hunter2@h/db",
        "postgres:u:hunter2@h/db",
        "postgres://u:hunter2@h:port/db",
        "postgres://u:hunter2@h/db?no_such=1",
        "postgres://h/db?password=hunter2&port=x",
    ] {
        let error = StoreUrl::parse(wrong).unwrap_err();
        assert!(matches!(error, Error::Url { .. }), "{error:?}");
        let text = one_line(&error);
        assert!(error.is_unavailable() && text.contains("sqlite:FILE") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_password_with_odd_characters_is_never_shown() {
    for odd in
        ["hun?ter2", "hunter2?x", "hun:ter2", "hun/ter2", "hun%40ter2", "hun&ter2", "hun?password=ter2", "h#ter2"]
    {
        let text = format!("postgres://alice:{odd}@127.0.0.1:5432/db");
        let shown = match StoreUrl::parse(&text) {
            Ok(url) => url.place(),
            Err(error) => one_line(&error),
        };
        assert!(!shown.contains("ter2"), "{text} is shown as {shown}");
    }
}
