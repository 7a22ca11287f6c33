//! Whose clock counts: on PostgreSQL the server's, on SQLite the host's. A wall clock that is set burns no lease.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::clock::Steady;
use redrive_core::id::RunId;
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{ControlEvent, End, Verdict, Workload};
use redrive_core::time::Timestamp;
use redrive_fixture::{LEASE, Postgres};
use redrive_store::clock::{Clock, ManualClock, Sleep, SystemClock};
use redrive_store::{
    HeartbeatAnswer, KeyFound, KeyedRequest, Open, Options, Recorded, RunChangeOutcome, Store, StoreUrl,
};

use crate::support::{Place, START, claim_runs, job, operation, with_clock};

const HOURS: Duration = Duration::from_secs(5 * 3600);
const HOUR: i64 = 3_600_000_000;

#[tokio::test]
async fn on_postgres_the_time_is_the_servers_however_wrong_ours_is() {
    let database = Postgres::shared().fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    let right = SystemClock.now();
    for wrong in [right.saturating_add(HOURS), right.saturating_sub(HOURS), Timestamp::from_micros(0)] {
        let clock = ManualClock::at(wrong);
        let options = Options {
            clock: Arc::new(clock.clone()),
            follow_database_clock: true,
            connections: 2,
            ..Options::default()
        };
        let store = Store::open(&url, Open::Migrate, options).await.unwrap();
        let server = database.query("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
        let server = Timestamp::from_micros(server.parse().unwrap());
        let apart = |here: Timestamp| server.since(here).max(here.since(server));
        assert!(apart(store.now()) < Duration::from_secs(2), "{} here, {server} there", store.now());
        assert_eq!(store.data().now(), store.now());
        assert_eq!(store.control().now(), store.now());

        store.control().submit(vec![job(&wrong.to_string())]).await.unwrap();
        let claimed = store.data().claim_runs(claim_runs("w", 1)).await.unwrap();
        let since = claimed[0].run.started_at.unwrap();
        assert!(apart(since) < Duration::from_secs(5), "{since} is not {server}");

        let before = store.now();
        clock.set_wall_by(HOUR);
        assert_eq!(store.now(), before, "only the steady clock moves it");
    }
}

#[tokio::test]
async fn on_sqlite_the_time_is_the_given_clocks() {
    let place = Place::new();
    let clock = ManualClock::at(START);
    let options = Options { follow_database_clock: true, ..with_clock(&clock) };
    let store = Store::open(&place.url(), Open::Migrate, options).await.unwrap();
    assert_eq!(store.now(), START);
    clock.advance(HOURS);
    assert_eq!(store.now(), START.saturating_add(HOURS));
    assert_eq!(store.data().now(), store.control().now());
}

/// Two processes with one file, each with its own belief of the wall clock.
struct Hosted {
    place: Place,
    clock: ManualClock,
    store: Store,
}

impl Hosted {
    async fn new() -> Self {
        let (place, clock) = (Place::new(), ManualClock::at(START));
        let store = Self::open(&place, &clock, Open::Migrate).await;
        Self { place, clock, store }
    }

    async fn open(place: &Place, clock: &ManualClock, how: Open) -> Store {
        let options = Options { follow_database_clock: true, ..with_clock(clock) };
        Store::open(&place.url(), how, options).await.unwrap()
    }

    async fn ended(&self) -> usize {
        self.store.data().expire(Workload::Process, 100, |_| RetryPolicy::partitions()).await.unwrap().len()
    }
}

#[tokio::test]
async fn on_sqlite_a_wall_clock_that_is_set_burns_no_lease_and_prolongs_none() {
    for by in [HOUR, -HOUR] {
        let host = Hosted::new().await;
        host.store.control().submit((0..3).map(|n| job(&n.to_string())).collect()).await.unwrap();
        let data = host.store.data();
        let claimed = data.claim_runs(claim_runs("w", 3)).await.unwrap();
        host.clock.set_wall_by(by);
        // A look comes before anything was written since.
        assert!(host.store.view().overdue(Workload::Process, 10).await.unwrap().is_empty(), "{by}");
        assert_eq!(host.ended().await, 0, "{by}");
        let held = claimed.iter().map(|claimed| (claimed.run.run_id, claimed.run.task_id.unwrap()));
        let beat = data.beat(held.take(1).collect(), LEASE).await.unwrap();
        assert_eq!(beat.answers, [HeartbeatAnswer::Held]);
        assert_eq!(beat.at, host.clock.now(), "times follow the wall clock");
        // With the lease as it was when the run was claimed.
        let done = End::Completed { verdict: Verdict::Passed, metrics: None };
        let told = data.record(vec![(claimed[1].run.clone(), done)]).await.unwrap();
        assert!(matches!(told[0], Recorded::As(_)), "{told:?}");
        host.clock.advance(LEASE - Duration::from_secs(1));
        assert_eq!(host.ended().await, 0, "{by}");
        host.clock.advance(Duration::from_secs(1));
        assert_eq!(host.ended().await, 2, "a lease lasts neither longer nor shorter");
        let jump = host.store.view().last_jump().await.unwrap().unwrap();
        assert_eq!(jump.by, by);
    }
}

async fn change(store: &Store, run_id: RunId, event: ControlEvent) {
    let (control, run) = (store.control(), store.view().run(run_id).await.unwrap().unwrap());
    let decided = control.decide_runs(vec![(run, event)]);
    let outcome = control.write_runs(&operation(store, "runs"), decided).await.unwrap().remove(0);
    assert!(matches!(outcome, RunChangeOutcome::Changed { .. }), "{outcome:?}");
}

impl Hosted {
    /// A job that was cancelled while a worker was at it.
    async fn cancelled(&self, name: &str) -> RunId {
        self.store.control().submit(vec![job(name)]).await.unwrap();
        let claimed = self.store.data().claim_runs(claim_runs("w", 1)).await.unwrap().remove(0).run;
        change(&self.store, claimed.run_id, ControlEvent::Cancel { by: "ada".to_owned() }).await;
        claimed.run_id
    }

    async fn claims(&self) -> usize {
        self.store.data().claim_runs(claim_runs("v", 1)).await.unwrap().len()
    }
}

/// Until its old worker's lease ends, a run that was cancelled is not tried again.
#[tokio::test]
async fn on_sqlite_a_wall_clock_that_is_set_ends_no_lease_of_a_cancelled_run() {
    let host = Hosted::new().await;
    let run_id = host.cancelled("a").await;
    host.clock.set_wall_by(HOUR);
    assert_eq!(host.ended().await, 0);
    change(&host.store, run_id, ControlEvent::Retry).await;
    assert_eq!(host.claims().await, 0, "its worker may still be at it");
    host.clock.advance(LEASE);
    assert_eq!(host.claims().await, 1);
}

/// The same where it was wanted again before the clock was set.
#[tokio::test]
async fn on_sqlite_a_wall_clock_that_is_set_moves_the_end_that_a_run_waits_for() {
    for by in [HOUR, -HOUR] {
        let host = Hosted::new().await;
        let run_id = host.cancelled("a").await;
        change(&host.store, run_id, ControlEvent::Retry).await;
        host.clock.set_wall_by(by);
        assert_eq!(host.ended().await, 0);
        assert_eq!(host.claims().await, 0, "{by}: its worker may still be at it");
        host.clock.advance(LEASE);
        assert_eq!(host.claims().await, 1, "{by}");
    }
}

/// An attempt may take so long by the steady clock.
#[tokio::test]
async fn on_sqlite_a_wall_clock_that_is_set_takes_no_time_from_an_attempt() {
    for by in [HOUR, -HOUR] {
        let host = Hosted::new().await;
        host.store.control().submit(vec![job("a")]).await.unwrap();
        let run = host.store.data().claim_runs(claim_runs("w", 1)).await.unwrap().remove(0).run;
        host.clock.set_wall_by(by);
        let now = host.store.data().beat(vec![(run.run_id, run.task_id.unwrap())], LEASE).await.unwrap().at;
        let run = host.store.view().run(run.run_id).await.unwrap().unwrap();
        assert_eq!(now.since(run.started_at.unwrap()), Duration::ZERO, "{by}");
        assert_eq!(run.started_at, Some(now), "{by}");
    }
}

/// The host's clock after a new start of the host.
#[derive(Debug)]
struct Restarted(ManualClock);

impl Clock for Restarted {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn steady(&self, sleep: Sleep) -> Steady {
        self.0.steady(sleep)
    }

    fn boot(&self) -> Option<String> {
        Some("after".to_owned())
    }
}

impl Hosted {
    async fn restarted_a_day_behind(self) -> Self {
        let Self { place, clock, store: _ } = self;
        clock.set_wall_by(-24 * HOUR);
        let options =
            Options { clock: Arc::new(Restarted(clock.clone())), follow_database_clock: true, ..with_clock(&clock) };
        let store = Store::open(&place.url(), Open::Current, options).await.unwrap();
        Self { place, clock, store }
    }
}

#[tokio::test]
async fn on_sqlite_a_run_waits_no_longer_than_a_lease_where_the_host_started_with_its_clock_behind() {
    let host = Hosted::new().await;
    let run_id = host.cancelled("a").await;
    change(&host.store, run_id, ControlEvent::Retry).await;
    let host = host.restarted_a_day_behind().await;
    assert_eq!(host.claims().await, 0, "a worker of another host may still be at it");
    host.clock.advance(LEASE);
    assert_eq!(host.claims().await, 1);
}

/// A host without a battery for its clock starts in the past, and its clock is set when the network is there.
#[tokio::test]
async fn on_sqlite_nothing_waits_for_a_clock_that_was_behind_when_the_host_started() {
    let host = Hosted::new().await;
    let (dead, waiting) = (host.cancelled("a").await, host.cancelled("b").await);
    change(&host.store, waiting, ControlEvent::Retry).await;
    let request = KeyedRequest {
        actor: "token:ci".to_owned(),
        route: "POST /v1/runs".to_owned(),
        key: "k1".to_owned(),
        body_hash: vec![1; 32],
    };
    let found = host.store.begin_key(request.clone()).await.unwrap();
    assert!(matches!(found, KeyFound::Fresh(_)), "{found:?}");
    let Hosted { clock, store, place: _place } = host.restarted_a_day_behind().await;
    // Something is written before the clock is right.
    store.control().submit(vec![job("c")]).await.unwrap();
    clock.set_wall_by(24 * HOUR);
    let found = store.begin_key(request).await.unwrap();
    assert!(matches!(found, KeyFound::Fresh(_)), "the process that held it is gone: {found:?}");
    change(&store, dead, ControlEvent::Retry).await;
    clock.advance(LEASE);
    let claimed = store.data().claim_runs(claim_runs("v", 9)).await.unwrap();
    let claimed: Vec<RunId> = claimed.into_iter().map(|claimed| claimed.run.run_id).collect();
    assert!(claimed.contains(&dead) && claimed.contains(&waiting), "{claimed:?} without {dead} or {waiting}");
    assert_eq!(claimed.len(), 3);
}

#[tokio::test]
async fn on_sqlite_processes_that_see_other_wall_clocks_burn_no_lease() {
    let host = Hosted::new().await;
    // As a process sees it whose clock alone is forged.
    let forged = host.clock.with_wall_set_by(HOUR);
    let other = Hosted::open(&host.place, &forged, Open::Current).await;
    host.store.control().submit(vec![job("a"), job("b")]).await.unwrap();
    let first = host.store.data().claim_runs(claim_runs("w", 1)).await.unwrap().remove(0).run;
    let second = other.data().claim_runs(claim_runs("v", 1)).await.unwrap().remove(0).run;
    for _ in 0..5 {
        host.clock.advance(Duration::from_secs(30));
        for (store, run) in [(&host.store, &first), (&other, &second)] {
            let held = vec![(run.run_id, run.task_id.unwrap())];
            assert_eq!(store.data().beat(held, LEASE).await.unwrap().answers, [HeartbeatAnswer::Held]);
            assert_eq!(store.data().expire(Workload::Process, 9, |_| RetryPolicy::partitions()).await.unwrap(), []);
        }
    }
}
