//! Whose clock counts: on PostgreSQL the server's, on SQLite this machine's.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::time::Timestamp;
use redrive_fixture::Postgres;
use redrive_store::clock::{Clock, ManualClock, SystemClock};
use redrive_store::{Open, Options, Store, StoreUrl};

use crate::support::{Place, START, claim_runs, job, with_clock};

const HOURS: Duration = Duration::from_secs(5 * 3600);

#[tokio::test]
async fn on_postgres_the_time_is_the_servers_however_wrong_ours_is() {
    let database = Postgres::shared().fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    let right = SystemClock.now();
    for wrong in [right.saturating_add(HOURS), right.saturating_sub(HOURS), Timestamp::from_micros(0)] {
        let clock = Arc::new(ManualClock::at(wrong));
        let options = Options { clock, follow_server_clock: true, connections: 2, ..Options::default() };
        let store = Store::open(&url, Open::Migrate, options).await.unwrap();
        let server = database.query("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
        let server = Timestamp::from_micros(server.parse().unwrap());
        let apart = server.since(store.now()).max(store.now().since(server));
        assert!(apart < Duration::from_secs(2), "{} here, {server} there", store.now());
        assert_eq!(store.data().now(), store.now());
        assert_eq!(store.control().now(), store.now());

        store.control().submit(vec![job(&wrong.to_string())]).await.unwrap();
        let claimed = store.data().claim_runs(claim_runs("w", 1)).await.unwrap();
        let since = claimed[0].run.started_at.unwrap();
        assert!(server.since(since).max(since.since(server)) < Duration::from_secs(5), "{since} is not {server}");
    }
}

#[tokio::test]
async fn on_sqlite_the_time_is_the_given_clocks() {
    let place = Place::new();
    let clock = ManualClock::at(START);
    let options = Options { follow_server_clock: true, ..with_clock(&clock) };
    let store = Store::open(&place.url(), Open::Migrate, options).await.unwrap();
    assert_eq!(store.now(), START);
    clock.advance(HOURS);
    assert_eq!(store.now(), START.saturating_add(HOURS));
    assert_eq!(store.data().now(), store.control().now());
}
