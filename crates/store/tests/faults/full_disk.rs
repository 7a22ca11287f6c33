//! A disk that fills up: who was told "done" finds it there, who was told "full" finds nothing of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use redrive_core::filter::Filter;
use redrive_core::partition::ControlEvent;
use redrive_fixture::{Durability, Postgres};
use redrive_store::{Error, NewRun, Open, Outcome, Page, Store, StoreUrl};
use tokio::task::JoinSet;

use crate::support::{
    assert_integrity, assert_whole, claim_runs, count_at, count_in, job, one_line, open, operation, sqlite,
    standing_still, unavailable_at, wanted,
};
use redrive_fixture::Mount;

/// What callers were told, by external id of a run or customer of a partition.
#[derive(Default)]
struct Ledger {
    done: Mutex<BTreeSet<String>>,
    refused: Mutex<BTreeSet<String>>,
    errors: Mutex<Vec<Error>>,
}

impl Ledger {
    /// Notes what a caller was told; whether it may go on.
    fn note<T>(&self, name: String, result: Result<T, Error>) -> bool {
        match result {
            Ok(_) => assert!(self.done.lock().unwrap().insert(name)),
            Err(error) => {
                self.refused.lock().unwrap().insert(name);
                self.errors.lock().unwrap().push(error);
                return false;
            }
        }
        true
    }

    fn assert_full(&self, place: &str) {
        let errors = self.errors.lock().unwrap();
        assert!(!errors.is_empty());
        for error in &*errors {
            assert!(matches!(error, Error::Full { .. }), "{error:?}");
            unavailable_at(error, place);
        }
    }

    /// Asserts that exactly what was acknowledged is there.
    fn assert_true(&self, found: &BTreeSet<String>) {
        let (done, refused) = (self.done.lock().unwrap(), self.refused.lock().unwrap());
        let lost: Vec<_> = done.difference(found).collect();
        assert!(lost.is_empty(), "acknowledged and gone: {lost:?}");
        let kept: Vec<_> = refused.intersection(found).collect();
        assert!(kept.is_empty(), "said to be unchanged and there: {kept:?}");
    }
}

/// Every run's external id and every partition's customer in a SQLite file.
fn names_in(path: &Path) -> BTreeSet<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql =
        "SELECT external_id FROM runs WHERE external_id IS NOT NULL UNION SELECT customer_id FROM partition_state";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn filling(name: &str, bytes: usize) -> NewRun {
    NewRun { payload: Some("x".repeat(bytes)), ..job(name) }
}

/// Several callers write until each has been told that it cannot.
async fn fill(store: &Store, ledger: &Arc<Ledger>) {
    let mut callers = JoinSet::new();
    for caller in 0..4 {
        let (store, ledger) = (store.clone(), Arc::clone(ledger));
        callers.spawn(async move {
            for nth in 0..1000 {
                let name = format!("run-{caller}-{nth}");
                if !ledger.note(name.clone(), store.control().submit(vec![filling(&name, 2000)]).await) {
                    return;
                }
            }
        });
    }
    for caller in 0..4 {
        let (store, ledger) = (store.clone(), Arc::clone(ledger));
        callers.spawn(async move {
            for nth in 0..1000 {
                let name = format!("partition-{caller}-{nth}");
                let enqueue = operation(&store, "enqueue");
                let all = vec![wanted("ads", &name)];
                if !ledger.note(name, store.control().enqueue(&enqueue, all).await) {
                    return;
                }
            }
        });
    }
    callers.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_disk_is_told_truly_and_the_store_works_again_when_there_is_room() {
    let Some(mount) = Mount::of_size("1m") else { return };
    let (file, place) = (mount.file(), mount.file().display().to_string());
    let store = open(&sqlite(&file)).await;
    let ledger = Arc::new(Ledger::default());
    fill(&store, &ledger).await;
    ledger.assert_full(&place);
    assert!(ledger.done.lock().unwrap().len() > 20, "there was room for something");
    // Reading and being refused go on as long as it is full.
    assert!(!store.view().partitions(Page { limit: 5, ..Page::default() }).await.unwrap().is_empty());
    let page =
        store.view().partitions(Page { filter: Filter::default(), limit: 500, ..Page::default() }).await.unwrap();
    let pause = ControlEvent::Pause { by: "tester", why: Some("a reason that takes room") };
    let all = page.iter().map(|partition| (partition.clone(), pause.clone())).collect();
    // A small one may still find room that the log has left; one larger than the disk cannot.
    let larger_than_the_disk = operation(&store, &"state pause ".repeat(1 << 18));
    let error = store.control().commit(&larger_than_the_disk, all).await.unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
    ledger.assert_true(&names_in(&file));

    mount.remount("size=16m");
    ledger.note("after".to_owned(), store.control().submit(vec![filling("after", 2000)]).await);
    let all = page.iter().map(|partition| (partition.clone(), pause.clone())).collect();
    let outcomes = store.control().commit(&operation(&store, "state pause"), all).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Changed { .. })), "{outcomes:?}");
    assert!(!store.data().claim_runs(claim_runs("w", 3)).await.unwrap().is_empty());
    ledger.assert_true(&names_in(&file));
    drop(store);

    let store = Store::open(&sqlite(&file), Open::Current, standing_still()).await.unwrap();
    ledger.assert_true(&names_in(&file));
    assert_integrity(&file);
    assert_whole(&store, |sql| count_in(&file, sql)).await;
}

#[tokio::test]
async fn a_disk_that_fills_in_the_middle_of_a_shared_commit_is_told_to_all_in_it() {
    // More than the page cache holds, so that the disk fills before the commit, and SQLite gives the transaction up.
    const TOO_MANY: usize = 96;
    const LARGEST: usize = 1024 * 1024;
    let Some(mount) = Mount::of_size("24m") else { return };
    let (file, place) = (mount.file(), mount.file().display().to_string());
    let store = open(&sqlite(&file)).await;
    let blocker = rusqlite::Connection::open(&file).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ledger = Arc::new(Ledger::default());
    let mut callers = JoinSet::new();
    for nth in 0..21 {
        let (store, ledger) = (store.clone(), Arc::clone(&ledger));
        callers.spawn(async move {
            let name = format!("run-{nth}");
            let runs = match nth {
                10 => (0..TOO_MANY).map(|n| filling(&format!("{name}{}", "+".repeat(n)), LARGEST)).collect(),
                _ => vec![filling(&name, 10)],
            };
            ledger.note(name, store.control().submit(runs).await);
        });
    }
    // All have lined up behind the lock when it is let go.
    tokio::task::yield_now().await;
    blocker.execute_batch("ROLLBACK").unwrap();
    callers.join_all().await;

    assert!(ledger.refused.lock().unwrap().contains("run-10"));
    ledger.assert_true(&names_in(&file));
    let neighbours = ledger.refused.lock().unwrap().len() - 1;
    println!("{neighbours} neighbours were told of the fault");
    ledger.assert_full(&place);
    ledger.note("after".to_owned(), store.control().submit(vec![job("after")]).await);
    ledger.assert_true(&names_in(&file));
    drop(store);
    drop(blocker);
    let store = open(&sqlite(&file)).await;
    ledger.assert_true(&names_in(&file));
    assert_integrity(&file);
    assert_whole(&store, |sql| count_in(&file, sql)).await;
}

#[tokio::test]
async fn a_disk_too_small_for_the_schema_is_told_and_can_be_tried_again() {
    let Some(mount) = Mount::of_size("64k") else { return };
    let error = Store::open(&sqlite(&mount.file()), Open::Migrate, standing_still()).await.unwrap_err();
    println!("{error}");
    unavailable_at(&error, &mount.file().display().to_string());
    mount.remount("size=4m");
    let store = open(&sqlite(&mount.file())).await;
    store.control().submit(vec![job("a")]).await.unwrap();
    assert_whole(&store, |sql| count_in(&mount.file(), sql)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_postgres_is_told_truly_and_the_store_works_again_when_there_is_room() {
    let Some(mount) = Mount::of_size("24m") else { return };
    let postgres = Postgres::start(Durability::Fast);
    let database = postgres.fresh_database();
    let name = database.query("SELECT current_database()");
    let owner = std::fs::metadata(database.query("SHOW data_directory")).unwrap();
    let (uid, gid) = (std::os::unix::fs::MetadataExt::uid(&owner), std::os::unix::fs::MetadataExt::gid(&owner));
    // The server must be able to walk to it.
    let open_to_all = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(mount.path(), open_to_all).unwrap();
    std::os::unix::fs::chown(mount.path(), Some(uid), Some(gid)).unwrap();
    let home = postgres.fresh_database();
    home.query(&format!("CREATE TABLESPACE tiny LOCATION '{}'", mount.path().display()));
    home.query(&format!("ALTER DATABASE {name} SET TABLESPACE tiny"));

    let url = StoreUrl::parse(&database.url).unwrap();
    let store = open(&url).await;
    let ledger = Arc::new(Ledger::default());
    let names = || -> BTreeSet<String> {
        let sql =
            "SELECT external_id FROM runs WHERE external_id IS NOT NULL UNION SELECT customer_id FROM partition_state";
        database.query(sql).lines().map(str::to_owned).collect()
    };
    fill_with_noise(&store, &ledger).await;
    ledger.assert_full(&url.place());
    ledger.assert_true(&names());
    mount.remount("size=64m");
    ledger.note("after".to_owned(), store.control().submit(vec![job("after")]).await);
    ledger.assert_true(&names());
    assert!(ledger.done.lock().unwrap().contains("after"), "{:?}", ledger.errors.lock().unwrap().last().map(one_line));
    assert_whole(&store, |sql| count_at(&database, sql)).await;
    drop(store);
    home.query(&format!("DROP DATABASE {name} WITH (FORCE)"));
    home.query("DROP TABLESPACE tiny");
}

/// Several callers write what cannot be made smaller until each has been told that it cannot.
async fn fill_with_noise(store: &Store, ledger: &Arc<Ledger>) {
    let mut callers = JoinSet::new();
    for caller in 0..4 {
        let (store, ledger) = (store.clone(), Arc::clone(ledger));
        callers.spawn(async move {
            for nth in 0..1000 {
                let name = format!("run-{caller}-{nth}");
                let noise: String = (0..2000).map(|_| uuid::Uuid::now_v7().simple().to_string()).collect();
                let run = NewRun { payload: Some(noise), ..job(&name) };
                if !ledger.note(name, store.control().submit(vec![run]).await) {
                    return;
                }
            }
        });
    }
    callers.join_all().await;
}
