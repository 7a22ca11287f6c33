//! A batch that is cut off in the middle: what was reached stands, what was not is untouched, the same command finishes.

use redrive_fixture::{Durability, Postgres, TestDatabase, until};
use redrive_store::clock::{Clock, SystemClock};

use crate::world::{HOUR, MigratedProgram, count, ended, signal};

const RETRY: &str = "state retry --source ads --force --allow-missing-raw -o json";
const PENDING: &str = "SELECT count(*) FROM partitions WHERE status = 'pending'";
const CHANGES: &str = "SELECT count(*) FROM operation_changes";

/// CP-4.4: the second chunk waits for a row that somebody else holds when the server goes.
#[test]
fn a_database_that_goes_away_ends_a_batch_and_the_rest_is_finished_later() {
    const ALL: i64 = 15_000;
    let mut server = Postgres::start(Durability::Fast);
    let world = MigratedProgram::from(TestDatabase::of(server.fresh_database()));
    world.failures(u32::try_from(ALL).unwrap(), SystemClock.now().saturating_sub(HOUR));
    let url = world.database.server.as_ref().unwrap().url.clone();
    let child = world.runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let hold =
            // 2022-01-05
            "BEGIN; SELECT 1 FROM partitions WHERE series_id = (SELECT series_id FROM series \
             WHERE query_name = 'query_12') AND period = 18997 FOR UPDATE";
        client.batch_execute(hold).await.unwrap();
        let child = world.spawn(RETRY);
        until("the second chunk waits", || {
            let waiting =
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            world.number(waiting) > 0
        });
        server.stop();
        child
    });
    let told = ended(child);
    assert_eq!(told.code, 6, "{told}");
    let report = told.json();
    let done = count(&report, "changed");
    assert!(done > 0 && i64::try_from(done).unwrap() < ALL, "{done}");
    assert!(
        told.stderr.contains(&format!("{done} partitions were changed by then, run it again for the rest")),
        "{told}"
    );
    server.restart();
    let done = i64::try_from(done).unwrap();
    assert_eq!((world.number(PENDING), world.number(CHANGES)), (done, done));
    assert!(report["op_id"].is_string(), "what was done has a name");
    let told = world.run(RETRY).done();
    assert_eq!(i64::try_from(count(&told.json(), "changed")).unwrap(), ALL - done);
    assert_eq!((world.number(PENDING), world.number(CHANGES)), (ALL, ALL));
    world.whole();
}

/// CP-4.2, CP-4.4, CP-5.3
fn an_interrupted_batch_reports_what_it_did(world: MigratedProgram) {
    const ALL: i64 = 40_000;
    world.failures(u32::try_from(ALL).unwrap(), SystemClock.now().saturating_sub(HOUR));
    let child = world.spawn(RETRY);
    let told = std::thread::scope(|scope| {
        until("the first chunk is in", || world.number(CHANGES) > 0);
        signal(&child, "-INT");
        scope.spawn(move || ended(child)).join().unwrap()
    });
    assert_eq!(told.code, 130, "{}", told.stderr);
    let report = told.json();
    let done = i64::try_from(count(&report, "changed")).unwrap();
    assert!(done > 0 && done < ALL, "{done}");
    assert!(told.stderr.contains(&format!("interrupted; {done} partitions were changed by then")), "{}", told.stderr);
    assert_eq!((world.number(PENDING), world.number(CHANGES)), (done, done));
    let told = world.run(RETRY).done();
    assert_eq!(i64::try_from(count(&told.json(), "changed")).unwrap(), ALL - done);
    assert_eq!(world.number(PENDING), ALL);
    world.whole();
}

fn an_interrupted_pruning_reports_what_it_did(world: MigratedProgram) {
    const ALL: i64 = 20_000;
    const LEFT: &str = "SELECT count(*) FROM run_ends";
    let past = world.ago(24 * HOUR);
    past.submit_named(&vec!["a"; usize::try_from(ALL).unwrap()]);
    past.complete(u32::try_from(ALL).unwrap());
    let child = world.spawn("runs prune --older-than 1h --force -o json");
    let told = std::thread::scope(|scope| {
        until("the first are forgotten", || world.number(LEFT) < ALL);
        signal(&child, "-INT");
        scope.spawn(move || ended(child)).join().unwrap()
    });
    assert_eq!(told.code, 130, "{}", told.stderr);
    let report = told.json();
    let done = report["pruned"].as_i64().unwrap();
    assert!(done > 0 && done < ALL, "{done}");
    assert!(told.stderr.contains(&format!("interrupted; {done} jobs were forgotten by then")), "{}", told.stderr);
    assert!(report["op_id"].is_string(), "what was done has a name");
    assert_eq!(world.number(LEFT), ALL - done);
    world.whole();
}

/// CP-5.2, RP-8.3: the look ahead meets a row that cannot be read, so nobody knows how many would change.
fn a_look_ahead_that_fails_changes_nothing(world: MigratedProgram) {
    let world = world.configured("[safety]\nhard_limit = 3000\n");
    world.failures(5000, SystemClock.now().saturating_sub(HOUR));
    world.execute(
        // A day after the last that the calendar has.
        "UPDATE partitions SET period = 2932897 WHERE series_id = (SELECT series_id FROM series \
         WHERE query_name = 'query_02') AND period = 18997",
    );
    let told = world.run("-q state retry --source ads --yes --allow-missing-raw");
    assert_eq!(world.number(PENDING), 0, "5000 are over the limit of 3000, and some were changed: {told}");
    assert_ne!(told.code, 0, "{told}");
}

redrive_fixture::on_both!(
    an_interrupted_batch_reports_what_it_did,
    an_interrupted_pruning_reports_what_it_did,
    a_look_ahead_that_fails_changes_nothing,
);
