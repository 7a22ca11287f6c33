//! Databases that cannot be written: one clear line, and nothing half-written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

use redrive_fixture::Postgres;
use redrive_store::{Error, Open, Store, StoreUrl};

use crate::child;
use crate::support::{
    Place, closed, count_in, job, one_line, open, operation, sqlite, standing_still, unavailable_at, wanted,
};
use redrive_fixture::Mount;

const NOBODY: u32 = 65534;

/// Asserts that a file which cannot be written is refused, in words that say so.
async fn assert_refused(file: &Path) {
    // One that is not there is only made by a migration.
    let ways: &[Open] = if file.exists() { &[Open::Migrate, Open::Current] } else { &[Open::Migrate] };
    for &how in ways {
        let error = Store::open(&sqlite(file), how, standing_still()).await.expect_err("it cannot be written");
        let text = unavailable_at(&error, &file.display().to_string());
        println!("{how:?}: {text}");
        assert!(matches!(error, Error::ReadOnly { .. } | Error::Unavailable { .. }), "{error:?}");
        let clear = ["readonly", "read-only", "cannot be written", "ermission", "unable to open database file"];
        assert!(clear.iter().any(|word| text.contains(word)), "{text}");
    }
}

/// Leaves a database in a file that nobody has open.
async fn make(file: &Path) {
    let store = open(&sqlite(file)).await;
    store.control().submit(vec![job("there before")]).await.unwrap();
    drop(store);
    closed(file).await;
}

fn listing(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_file_system_is_told_and_nothing_is_touched() {
    let Some(mount) = Mount::of_size("4m") else { return };
    make(&mount.file()).await;
    let before = listing(mount.path());
    mount.remount("ro");
    assert_refused(&mount.file()).await;
    assert_refused(&mount.path().join("new.db")).await;
    assert!(listing(mount.path()) == before, "a refused file was touched");
    mount.remount("rw");
    let store = open(&sqlite(&mount.file())).await;
    assert!(store.control().submit(vec![job("there before")]).await.unwrap()[0].existing);
}

/// The same for a user without the right to write, in a process of its own.
#[tokio::test]
async fn child() {
    let Some(order) = child::order() else { return };
    assert_refused(Path::new(&order)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_right_to_write_is_told_and_nothing_is_touched() {
    let place = Place::new();
    make(&place.file()).await;
    if chown(place.file(), Some(0), Some(0)).is_err() {
        redrive_fixture::skip("only root can become another user");
        return;
    }
    let directory = place.directory.path();
    let before = listing(directory);
    let modes = |directory_mode, file_mode| {
        fs::set_permissions(directory, fs::Permissions::from_mode(directory_mode)).unwrap();
        fs::set_permissions(place.file(), fs::Permissions::from_mode(file_mode)).unwrap();
    };
    let missing = directory.join("new.db");
    for (directory_mode, file_mode, file) in [
        (0o755, 0o444, place.file()),
        (0o755, 0o666, place.file()),
        (0o777, 0o444, place.file()),
        (0o755, 0o600, place.file()),
        (0o755, 0o444, missing),
    ] {
        modes(directory_mode, file_mode);
        let mut command = child::command("read_only::child", &file);
        match command.uid(NOBODY).gid(NOBODY).current_dir("/").spawn() {
            Ok(child) => println!("{directory_mode:o} {file_mode:o} {}", child::succeeded(child)),
            Err(why) => {
                redrive_fixture::skip(&format!("this test binary cannot be run as another user: {why}"));
                return;
            }
        }
        assert!(listing(directory) == before, "a refused file was touched with {directory_mode:o} {file_mode:o}");
    }
    modes(0o755, 0o644);
    assert_eq!(count_in(&place.file(), "SELECT count(*) FROM runs"), 1);
}

/// Looks for a user without the right to write, in a process of its own.
#[tokio::test]
async fn looking_child() {
    let Some(order) = child::order() else { return };
    let view = Store::open_read_only(&sqlite(Path::new(&order)), standing_still()).await.unwrap();
    let metrics = view.run_metrics(redrive_core::run::Workload::Process, 1).await.unwrap();
    assert_eq!(metrics.by_state.len(), 1);
}

/// Files that SQLite made beside the database would belong to the wrong user, and be in the way of the right one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_right_to_write_can_look_and_leaves_nothing() {
    let place = Place::new();
    make(&place.file()).await;
    if chown(place.file(), Some(0), Some(0)).is_err() {
        redrive_fixture::skip("only root can become another user");
        return;
    }
    let directory = place.directory.path();
    let look = |directory_mode, file_mode| {
        fs::set_permissions(directory, fs::Permissions::from_mode(directory_mode)).unwrap();
        fs::set_permissions(place.file(), fs::Permissions::from_mode(file_mode)).unwrap();
        let mut command = child::command("read_only::looking_child", place.file());
        match command.uid(NOBODY).gid(NOBODY).current_dir("/").spawn() {
            Ok(child) => drop(child::succeeded(child)),
            Err(why) => redrive_fixture::skip(&format!("this test binary cannot be run as another user: {why}")),
        }
    };
    let before = listing(directory);
    for (directory_mode, file_mode) in [(0o755, 0o444), (0o755, 0o666), (0o555, 0o444), (0o777, 0o444)] {
        look(directory_mode, file_mode);
        assert!(listing(directory) == before, "something was left with {directory_mode:o} {file_mode:o}");
    }
    // Also while its owner has it open, and has written what stands only in the log.
    let owner = open(&place.url()).await;
    owner.control().submit(vec![job("later")]).await.unwrap();
    for (directory_mode, file_mode) in [(0o755, 0o644), (0o777, 0o644)] {
        look(directory_mode, file_mode);
    }
    drop(owner);
    closed(&place.file()).await;
}

/// A lock that keeps readers out, too: nothing can be read, and that is said soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_does_not_wait_for_a_lock() {
    let place = Place::new();
    make(&place.file()).await;
    let other = rusqlite::Connection::open(place.file()).unwrap();
    let look = async || {
        let view = Store::open_read_only(&place.url(), standing_still()).await?;
        view.run_metrics(redrive_core::run::Workload::Process, 1).await
    };
    other.execute_batch("BEGIN EXCLUSIVE; UPDATE audit_head SET seq = seq").unwrap();
    let seen = crate::support::within(std::time::Duration::from_secs(3), "a look beside a writer", look()).await;
    assert_eq!(seen.unwrap().by_state.len(), 1);
    other.execute_batch("ROLLBACK; PRAGMA journal_mode = delete; BEGIN EXCLUSIVE").unwrap();
    let refused = crate::support::within(std::time::Duration::from_secs(12), "an answer", look()).await.unwrap_err();
    assert!(matches!(refused, Error::Busy { seconds: 5, .. }), "{refused:?}");
}

#[tokio::test]
async fn a_read_only_postgres_is_told_and_nothing_is_changed() {
    let database = Postgres::shared().fresh_database();
    drop(open(&StoreUrl::parse(&database.url).unwrap()).await);
    let mark = if database.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{mark}options=-c%20default_transaction_read_only%3Don", database.url);
    let store = Store::open(&StoreUrl::parse(&url).unwrap(), Open::Current, standing_still()).await.unwrap();
    let refused = [
        store.control().submit(vec![job("a")]).await.map(drop),
        store.control().enqueue(&operation(&store, "want"), vec![wanted("ads", "1")]).await.map(drop),
        store.data().claim_runs(crate::support::claim_runs("w", 1)).await.map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
        assert!(error.is_unavailable());
        one_line(&error);
    }
    assert_eq!(database.query("SELECT count(*) FROM runs"), "0");
    assert!(store.view().run_metrics(redrive_core::run::Workload::Process, 1).await.unwrap().by_state.is_empty());
}
