//! `explain`: one reason of the closed list for everything that is not running, on both databases.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use redrive_control::explain::Explanation;
use redrive_control::{Insight, Sink, SourceRules, Sources};
use redrive_core::calendar::Calendar;
use redrive_core::failure::ErrorClass;
use redrive_core::hold::HoldScope;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_core::process::{ALIVE_FOR, Kind, Process, Serves};
use redrive_core::reason::Reason;
use redrive_core::run::Workload;
use redrive_fixture::{LEASE, OnDatabase, TestDatabase, TestStore, boom, rejected};
use redrive_store::Cooldown;
use redrive_store::raw::S3Options;

const HOUR: Duration = Duration::from_secs(3600);

/// A store whose clock the test holds, seen with a configuration of two sources: `ads` has a calendar and an extractor,
/// `bare` has neither.
struct Desk {
    on: TestStore,
    insight: Insight,
}

impl Deref for Desk {
    type Target = TestStore;

    fn deref(&self) -> &TestStore {
        &self.on
    }
}

impl OnDatabase for Desk {
    async fn on(database: TestDatabase) -> Self {
        let raw = format!("file:{}", database.path().join("raw").display()).parse().unwrap();
        let on = TestStore::on(database).await;
        let calendar = Calendar {
            start: "2025-12-01".parse().unwrap(),
            timezone: jiff::tz::TimeZone::UTC,
            ready_at: jiff::civil::time(4, 0, 0, 0),
        };
        let ads = SourceRules {
            customers: vec!["1".parse().unwrap()],
            queries: vec!["daily".parse().unwrap()],
            calendar: Some(calendar),
            has_extract: true,
            ..SourceRules::default()
        };
        let known = BTreeMap::from([("ads".parse().unwrap(), ads), ("bare".parse().unwrap(), SourceRules::default())]);
        let earliest = "2015-01-01".parse().unwrap();
        let insight =
            Insight::new(on.store.view(), Sink::new(raw, S3Options::default()), Sources::new(known), earliest);
        Self { on, insight }
    }
}

fn day(date: &str) -> PartitionKey {
    of("ads", date)
}

fn of(source: &str, date: &str) -> PartitionKey {
    PartitionKey::new(source, "1", "daily", date).unwrap()
}

const FIRST: &str = "2025-12-01";

impl Desk {
    async fn explained(&self, key: &PartitionKey) -> Explanation {
        self.insight.explain(key).await.unwrap()
    }

    /// Asserts the reason, and that the words say this; gives the explanation.
    async fn says(&self, key: &PartitionKey, reason: Reason, because: &str) -> Explanation {
        let told = self.explained(key).await;
        assert_eq!(told.reason, reason, "{key}: {}", told.because);
        assert!(told.because.contains(because), "{key}: {}", told.because);
        told
    }

    /// A process that is seen now.
    async fn lives(&self, kind: Kind, sources: &[(&str, Option<u32>)]) {
        let sources = sources.iter().map(|(source, limit)| (source.parse().unwrap(), *limit)).collect();
        let process = Process {
            id: self.store.new_process_id(),
            kind,
            name: format!("{kind} at here"),
            host: "here".to_owned(),
            pid: 7,
            version: "0.1.0".to_owned(),
            config: "c".to_owned(),
            serves: Serves { workloads: vec![Workload::Extract], sources, categories: vec![] },
            started_at: self.now(),
            last_seen: self.now(),
            last_claim: None,
            drain: false,
        };
        self.store.beat(&process).await.unwrap();
    }

    async fn worker(&self) {
        self.lives(Kind::Worker, &[("ads", None)]).await;
    }

    async fn wanted(&self, date: &str) -> PartitionKey {
        self.want(Lane::Fresh, vec![day(date)]).await;
        day(date)
    }

    async fn judged_as(&self, date: &str, judgement: Judgement) -> PartitionKey {
        self.on.judged(vec![day(date)], judgement).await;
        day(date)
    }

    /// A breaker, as the data plane leaves one.
    fn breaker(&self, trip: &str, why: &str) {
        let id = if self.database.server.is_some() {
            "'00000000-0000-0000-0000-000000000001'"
        } else {
            "x'00000000000000000000000000000001'"
        };
        let now = self.now().micros();
        self.database.execute(&format!(
            "INSERT INTO holds (hold_id, source, customer_id, query_name, kind, since, by, why, trip, probe_at, probe_every) \
             VALUES ({id}, 'ads', '', '', 'breaker', {now}, 'worker', '{why}', '{trip}', {now}, 300000000)"
        ));
    }
}

/// OP-7
async fn done(desk: Desk) {
    let key = desk.judged_as(FIRST, Judgement::Accepted { records: 1 }).await;
    let told = desk.says(&key, Reason::Done, "no operator asked for another").await;
    assert_eq!(told.status, Some("success"));
}

/// OP-7
async fn in_flight_and_lease_expired(desk: Desk) {
    let key = desk.wanted(FIRST).await;
    assert_eq!(desk.claim(1).await.len(), 1);
    desk.says(&key, Reason::InFlight, "of w1 is at work on it, with a lease until").await;
    desk.clock.advance(LEASE);
    desk.says(&key, Reason::LeaseExpired, "its lease ran out at").await;
}

/// OP-7
async fn queued_and_no_worker(desk: Desk) {
    let key = desk.wanted(FIRST).await;
    desk.says(&key, Reason::NoWorker, "no living worker serves source ads").await;
    desk.lives(Kind::Worker, &[("crm", None)]).await;
    desk.says(&key, Reason::NoWorker, "no living worker serves source ads").await;
    desk.worker().await;
    desk.says(&key, Reason::Queued, "for worker at here to have room").await;
    desk.clock.advance(ALIVE_FOR);
    desk.says(&key, Reason::NoWorker, "").await;
}

/// OP-7
async fn at_limit_behind_the_living_and_the_dead(desk: Desk) {
    desk.lives(Kind::Worker, &[("ads", Some(2))]).await;
    for date in [FIRST, "2025-12-02"] {
        desk.wanted(date).await;
    }
    let key = desk.wanted("2025-12-03").await;
    desk.says(&key, Reason::Queued, "").await;
    assert_eq!(desk.claim(2).await.len(), 2);
    assert_eq!(desk.explained(&day(FIRST)).await.reason, Reason::InFlight);
    desk.says(&key, Reason::AtLimit, "2 of 2 attempts of source ads are in flight, by w1 (2)").await;
    desk.clock.advance(LEASE);
    desk.lives(Kind::Worker, &[("ads", Some(2))]).await;
    desk.says(&key, Reason::AtLimit, "w1 (2, of which 2 let the lease run out").await;
}

/// OP-7
async fn held_and_cooling_down(desk: Desk) {
    desk.worker().await;
    let key = desk.wanted(FIRST).await;
    let until = desk.now().saturating_add(HOUR);
    let cooldown =
        Cooldown { source: "ads".parse().unwrap(), customer_id: Some("1".parse().unwrap()), until, why: None };
    desk.store.data().cool_down(cooldown).await.unwrap();
    desk.says(&key, Reason::CoolingDown, "asked to be left alone until").await;
    let scope = HoldScope::Source("ads".parse().unwrap());
    desk.store.control().set_hold(&desk.operation("hold"), scope, None).await.unwrap();
    desk.says(&key, Reason::Held, "held ads").await;
}

/// OP-7
async fn breaker_open(desk: Desk) {
    desk.worker().await;
    let key = desk.wanted(FIRST).await;
    desk.breaker("final", "20 final errors");
    desk.says(&key, Reason::BreakerOpen, "the breaker holds ads").await;
}

/// OP-7
async fn source_unusable(desk: Desk) {
    desk.worker().await;
    let key = desk.wanted(FIRST).await;
    desk.breaker("unusable", "source_unusable: no such program");
    desk.says(&key, Reason::SourceUnusable, "no such program").await;
    let bare = of("bare", FIRST);
    desk.want(Lane::Fresh, vec![bare.clone()]).await;
    desk.says(&bare, Reason::SourceUnusable, "[sources.bare] has no extract section").await;
}

/// OP-7
async fn paused(desk: Desk) {
    let key = desk.wanted(FIRST).await;
    desk.ask(&key, ControlEvent::Pause { by: "ada", why: Some("audit") }).await;
    desk.says(&key, Reason::Paused, "paused by ada").await;
}

/// OP-7
async fn waiting_due_and_no_daemon(desk: Desk) {
    let key = desk.judged_as(FIRST, boom()).await;
    desk.says(&key, Reason::Waiting, "attempt 1 waits 5 min").await;
    desk.clock.advance(HOUR);
    desk.says(&key, Reason::NoDaemon, "no daemon lives that would take it").await;
    desk.lives(Kind::Daemon, &[]).await;
    desk.says(&key, Reason::Due, "the daemon's next tick takes it").await;
}

/// OP-7
async fn final_error_and_terminal(desk: Desk) {
    let key = desk.judged_as(FIRST, rejected(ErrorClass::Final, "no such account")).await;
    desk.says(&key, Reason::FinalError, "its error is final").await;
    desk.ask(&key, ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 }).await;
    desk.says(&key, Reason::Terminal, "marked terminal by ada").await;
    let old = desk.judged_as("2025-12-02", boom()).await;
    desk.clock.advance(31 * 24 * HOUR);
    desk.says(&old, Reason::Terminal, "the policy stops at 30 days").await;
}

/// OP-7
async fn too_old(desk: Desk) {
    let key = desk.wanted(FIRST).await;
    desk.clock.advance(30 * 24 * HOUR - Duration::from_secs(60));
    assert_eq!(desk.judge_each(|_| boom()).await, 1);
    desk.says(&key, Reason::TooOld, "and the policy stops at").await;
}

/// OP-7
async fn not_queued(desk: Desk) {
    let key = desk.wanted(FIRST).await;
    let mut to = desk.read(&key).await.snapshot();
    to.wanted = None;
    let from_version = desk.read(&key).await.state.version;
    desk.ask(&key, ControlEvent::Revert { to: &to, from_version }).await;
    desk.says(&key, Reason::NotQueued, "withdrawn from the queue").await;
}

/// OP-7
async fn reprocess_queued(desk: Desk) {
    let key = desk.judged_as(FIRST, Judgement::Accepted { records: 1 }).await;
    desk.ask(&key, ControlEvent::Reprocess).await;
    desk.says(&key, Reason::NoWorker, "").await;
    desk.worker().await;
    let told = desk.says(&key, Reason::ReprocessQueued, "the success stays readable").await;
    assert_eq!(told.status, Some("success"));
}

/// OP-7: a source that this file does not know, and what a living worker's configuration says of it.
async fn unknown_source_unless_a_living_worker_knows_it(desk: Desk) {
    let key = of("crm", FIRST);
    let told = desk.says(&key, Reason::UnknownSource, "has no [sources.crm], and no living worker serves it").await;
    assert_eq!(told.status, None);
    desk.want(Lane::Fresh, vec![key.clone()]).await;
    desk.says(&key, Reason::UnknownSource, "this configuration has no [sources.crm]").await;
    desk.lives(Kind::Worker, &[("crm", None)]).await;
    desk.says(&key, Reason::Queued, "for worker at here to have room").await;
}

/// OP-7: keys without an entry, by the calendar.
async fn absent_keys_are_explained_by_the_calendar(desk: Desk) {
    // It is midnight of 2026-01-01, so that the day before is not ready yet.
    for (key, reason, because) in [
        (day("2025-12-30"), Reason::Expected, "no daemon lives that would want it"),
        (day("2025-12-31"), Reason::NotReady, "2025-12-30 is the latest"),
        (day("2026-02-01"), Reason::NotReady, "a day is ready at 04:00:00 (UTC) of the next day"),
        (day("2025-11-30"), Reason::NotExpected, "begins on 2025-12-01"),
        (PartitionKey::new("ads", "2", "daily", FIRST).unwrap(), Reason::NotExpected, "does not name customer 2"),
        (PartitionKey::new("ads", "1", "hourly", FIRST).unwrap(), Reason::NotExpected, "has no query hourly"),
        (of("bare", FIRST), Reason::NotExpected, "has no calendar"),
        (of("crm", FIRST), Reason::UnknownSource, "has no [sources.crm]"),
    ] {
        assert_eq!(desk.says(&key, reason, because).await.status, None);
    }
    desk.lives(Kind::Daemon, &[]).await;
    desk.says(&day("2025-12-30"), Reason::Expected, "the daemon's next tick wants it").await;
}

/// Every word of the list is one that a test here has met.
#[test]
fn the_list_is_closed() {
    let here = include_str!("explain.rs");
    for reason in Reason::ALL {
        let name = format!("Reason::{reason:?}");
        assert!(here.contains(&name), "{name} is not tested");
    }
    assert_eq!(Reason::ALL.len(), 23);
}

redrive_fixture::on_both_databases!(
    done,
    in_flight_and_lease_expired,
    queued_and_no_worker,
    at_limit_behind_the_living_and_the_dead,
    held_and_cooling_down,
    breaker_open,
    source_unusable,
    paused,
    waiting_due_and_no_daemon,
    final_error_and_terminal,
    too_old,
    not_queued,
    reprocess_queued,
    unknown_source_unless_a_living_worker_knows_it,
    absent_keys_are_explained_by_the_calendar,
);
