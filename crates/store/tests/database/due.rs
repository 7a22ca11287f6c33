//! What automation may retry: stretches of the index, and exactly what `core::retry::next` says within them.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use redrive_core::failure::ErrorClass;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Partition, Status};
use redrive_core::retry::{Backoff, Decision, Failure, Grant, HintRule, RetryPolicy, next, seed};
use redrive_core::time::Timestamp;
use redrive_store::{DueBand, DueQuery, Page};

use crate::property::{check, wait};
use crate::raw::Raw;
use crate::steps::{changed, keys, mark, pause, rejected, retry};
use crate::support::{START, TestStore, key};

/// A row of `partitions`, and of `partition_control` where it needs one.
#[derive(Debug, Clone)]
struct Row {
    source: &'static str,
    status: Status,
    class: ErrorClass,
    attempts: u32,
    granted: u32,
    decided: u64,
    age: u64,
    hint: Option<u64>,
    terminal: bool,
    paused: bool,
}

fn rows() -> impl Strategy<Value = Row> {
    let status = select(&[Status::Failed, Status::Failed, Status::Failed, Status::Pending, Status::Success][..]);
    let rare = || proptest::bool::weighted(0.1);
    let times = (0u64..40_000, 0u64..4_000_000, option::weighted(0.2, 0u64..60_000));
    let attempts = (1u32..9, prop_oneof![3 => Just(0), 1 => 1u32..5]);
    (select(&SOURCES[..]), status, select(ErrorClass::ALL), attempts, times, rare(), rare()).prop_map(
        |(source, status, class, (attempts, granted), (decided, age, hint), terminal, paused)| Row {
            source,
            status,
            class,
            attempts,
            granted,
            decided,
            age: decided + age,
            hint,
            terminal,
            paused,
        },
    )
}

fn policies() -> impl Strategy<Value = RetryPolicy> {
    let exponential = (1u64..900, 1.0f64..3.0, 1u64..30_000).prop_map(|(base, multiplier, cap)| Backoff::Exponential {
        base: Duration::from_secs(base),
        multiplier,
        cap: Duration::from_secs(cap),
    });
    let fixed = vec(1u64..20_000, 0..6)
        .prop_map(|delays| Backoff::Fixed(delays.into_iter().map(Duration::from_secs).collect()));
    (prop_oneof![exponential, fixed], 0u64..300, option::of(1u32..9), option::of(1u64..4_000_000)).prop_map(
        |(backoff, jitter, max_attempts, max_age)| RetryPolicy {
            backoff,
            jitter: Duration::from_secs(jitter),
            max_attempts,
            max_age: max_age.map(Duration::from_secs),
            hint: HintRule::AtLeast,
            rate_limit_budget: None,
        },
    )
}

const SOURCES: [&str; 3] = ["ads", "crm", "Ö"];

/// Five customers of each source, one query each.
async fn make_series(raw: &Raw) {
    for (at, source) in SOURCES.iter().enumerate() {
        let first = at * 5 + 1;
        for customer in 0..5 {
            let id = first + customer;
            raw.run(&format!(
                "INSERT INTO series VALUES ({id}, '{source}', 'c{customer}', 'daily', {first}, {first} * 4294967296 + {id})"
            ))
            .await;
        }
    }
}

async fn put(raw: &Raw, rows: &[Row]) {
    let ago = |seconds: u64| START.saturating_sub(Duration::from_secs(seconds)).micros();
    let mut sql = String::from("BEGIN; DELETE FROM partition_control; DELETE FROM partitions;");
    for (nth, row) in rows.iter().enumerate() {
        let Row { source, status, class, attempts, granted, .. } = row;
        let spent = attempts.saturating_sub(*granted);
        let first = SOURCES.iter().position(|name| name == source).unwrap() * 5 + 1;
        // The days of January 2026.
        let place = format!("{}, {}, {first}", first + nth % 5, 20454 + nth % 28);
        let held = if row.terminal || row.paused { "1" } else { "NULL" };
        let run = raw.id(uuid::Uuid::nil());
        let (created, updated) = (ago(row.age), ago(row.decided));
        sql += &format!(
            "INSERT INTO partitions (series_id, period, source_no, status, current_run_id, attempt_count, spent, \
             error_class, created_at, updated_at, held) VALUES ({place}, '{status}', {run}, {attempts}, {spent}, '{class}', {created}, \
             {updated}, {held}) ON CONFLICT DO NOTHING;"
        );
        let mark = |on: bool| if on { "'ada', 5" } else { "NULL, NULL" };
        let hint = row.hint.map_or("NULL".to_owned(), |hint| ago(row.decided.saturating_sub(hint)).to_string());
        sql += &format!(
            "INSERT INTO partition_control (series_id, period, source_no, scope, not_before, granted, terminal_by, \
             terminal_at, paused_by, paused_at) VALUES ({place}, 1, {hint}, {granted}, {}, {}) ON CONFLICT DO NOTHING;",
            mark(row.terminal),
            mark(row.paused)
        );
    }
    raw.run(&(sql + "COMMIT;")).await;
}

/// When the policy lets a failure go.
fn due_at(partition: &Partition, policy: &RetryPolicy) -> Option<Timestamp> {
    let state = &partition.state;
    let failure = Failure {
        at: state.updated_at,
        class: state.error_class?,
        retry_after: partition.control.not_before.map(|until| until.since(state.updated_at)),
        rate_limit_waited: Duration::ZERO,
        attempt: partition.spent(),
        age: START.since(state.created_at),
        seed: seed(&state.key),
    };
    match next(&failure, policy) {
        Decision::At { when, .. } => Some(when),
        Decision::Stop(_) => None,
    }
}

fn may_go(partition: &Partition, policy: &RetryPolicy) -> bool {
    partition.state.status == Status::Failed
        && !partition.control.is_held()
        && due_at(partition, policy).is_some_and(|when| when <= START)
}

/// What the policy leaves of a band, page by page.
async fn reached(subject: &TestStore, band: DueBand, policy: &RetryPolicy, limit: u32) -> Vec<Partition> {
    let wait = policy.delay(band.spent).saturating_sub(policy.jitter);
    let mut query = DueQuery {
        band,
        decided_by: START.saturating_sub(wait),
        created_after: policy.max_age.map_or(Timestamp::MIN, |age| START.saturating_sub(age)),
        after: None,
        limit,
    };
    let mut seen: Vec<Partition> = Vec::new();
    loop {
        let page = subject.store.view().due(query.clone()).await.unwrap();
        assert!(page.len() <= limit as usize);
        let Some(last) = page.last() else { return seen };
        query.after = Some((last.state.updated_at, last.state.key.clone()));
        seen.extend(page);
    }
}

fn by_key(mut partitions: Vec<Partition>) -> Vec<PartitionKey> {
    partitions.sort_by(|a, b| a.state.key.cmp(&b.state.key));
    partitions.into_iter().map(|partition| partition.state.key).collect()
}

/// RD-1, RD-2, RD-3, RD-4, RP-4.3, RP-5.1
async fn bands_and_reaches_hold_exactly_what_may_be_retried(subject: TestStore) {
    let raw = Raw::of(&subject).await;
    make_series(&raw).await;
    check(40, (vec(rows(), 0..60), policies(), 1u32..9), |(rows, policy, limit)| {
        wait(put(&raw, &rows));
        let page = Page { limit: 1000, ..Page::default() };
        let everything = wait(subject.store.view().partitions(page)).unwrap();
        let candidate = |partition: &&Partition| {
            partition.state.status == Status::Failed
                && !partition.control.is_held()
                && partition.state.error_class != Some(ErrorClass::Final)
        };
        let mut expected: Vec<_> = everything
            .iter()
            .filter(candidate)
            .map(|p| DueBand { source: p.state.key.source.clone(), spent: p.spent() })
            .collect();
        expected.sort_unstable();
        expected.dedup();
        let bands = wait(subject.store.view().due_bands()).unwrap();
        prop_assert_eq!(&bands, &expected);

        let mut due = Vec::new();
        for band in bands {
            let reached = wait(reached(&subject, band.clone(), &policy, limit));
            let in_order = reached.is_sorted_by_key(|p| (p.state.updated_at, p.state.key.clone()));
            prop_assert!(in_order);
            for partition in &reached {
                prop_assert!(candidate(&partition));
                prop_assert_eq!(partition.spent(), band.spent);
                prop_assert_eq!(&partition.state.key.source, &band.source);
                let hinted = partition.control.not_before.is_some();
                let latest = policy.delay(band.spent).saturating_sub(policy.jitter * 2);
                prop_assert!(hinted || partition.state.updated_at <= START.saturating_sub(latest));
            }
            due.extend(reached.into_iter().filter(|partition| may_go(partition, &policy)));
        }
        let brute = everything.into_iter().filter(|partition| may_go(partition, &policy)).collect();
        prop_assert_eq!(by_key(due), by_key(brute));
        Ok(())
    });
}

/// Everything that a policy without patience would retry now.
async fn in_reach(subject: &TestStore) -> Vec<PartitionKey> {
    let hasty = RetryPolicy { backoff: Backoff::Fixed(vec![]), jitter: Duration::ZERO, ..RetryPolicy::partitions() };
    let mut found = Vec::new();
    for band in subject.store.view().due_bands().await.unwrap() {
        found.extend(reached(subject, band, &hasty, 10).await);
    }
    by_key(found)
}

/// RD-4, CP-2.3, CP-2.4, CP-2.5, CP-3c.2
async fn a_mark_or_a_pause_takes_a_failure_out_of_reach_and_back(subject: TestStore) {
    let policy = RetryPolicy::partitions();
    let key = key("ads", "a", "daily", "2026-01-01");
    subject.failed(&key).await;
    let [none, it] = [vec![], vec![key.clone()]];
    assert_eq!(in_reach(&subject).await, it);
    for (event, expected) in [
        (pause(), &none),
        (mark(1), &none),
        (ControlEvent::Resume, &none),
        (ControlEvent::ClearTerminal, &it),
        (mark(1), &none),
        (ControlEvent::Retry { policy: &policy, clear_terminal: true, stale: false, grant: None }, &none),
    ] {
        assert!(changed(&subject.ask(&key, event.clone()).await), "{event:?}");
        assert_eq!(&in_reach(&subject).await, expected, "after {event:?}");
    }
    let claimed = subject.claim(1).await.remove(0);
    assert!(in_reach(&subject).await.is_empty(), "it is in flight");
    subject.judge(&claimed.run, rejected(ErrorClass::Retryable, "boom")).await;
    assert_eq!(in_reach(&subject).await, it);
    assert!(changed(&subject.ask(&key, retry(&policy)).await));
    assert!(changed(&subject.ask(&key, pause()).await));
    assert!(changed(&subject.ask(&key, ControlEvent::Resume).await));
    let claimed = subject.claim(1).await.remove(0);
    subject.judge(&claimed.run, rejected(ErrorClass::Final, "gone")).await;
    assert!(in_reach(&subject).await.is_empty(), "a final failure is not retried by automation");
}

/// OP-9. The band that a failure is found in follows what is granted, and the undo of it.
async fn what_is_granted_moves_a_failure_to_an_earlier_band(subject: TestStore) {
    let policy = RetryPolicy { max_attempts: Some(2), ..RetryPolicy::partitions() };
    let key = key("ads", "a", "daily", "2026-01-01");
    let spent = async || {
        let bands = subject.store.view().due_bands().await.unwrap();
        bands.into_iter().map(|band| band.spent).collect::<Vec<_>>()
    };
    subject.failed(&key).await;
    assert!(changed(&subject.ask(&key, retry(&policy)).await));
    let fail = async || {
        let claimed = subject.claim(1).await.remove(0);
        subject.judge(&claimed.run, rejected(ErrorClass::Retryable, "boom")).await;
    };
    fail().await;
    assert_eq!(spent().await, [2], "both attempts are used up");
    let before = subject.read(&key).await;
    let grant = Some(Grant::Attempts(NonZeroU32::new(2).unwrap()));
    let event = ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant };
    assert!(changed(&subject.ask(&key, event.clone()).await));
    let granted = subject.read(&key).await;
    assert_eq!((granted.control.granted, granted.state.attempt_count), (2, 2));

    let undo = ControlEvent::Revert { to: &before.snapshot(), from_version: granted.state.version };
    assert!(changed(&subject.ask(&key, undo).await));
    assert_eq!((subject.read(&key).await.control.granted, spent().await), (0, vec![2]));

    assert!(changed(&subject.ask(&key, event).await));
    fail().await;
    let failed = subject.read(&key).await;
    assert_eq!((failed.state.attempt_count, failed.control.granted, spent().await), (3, 2, vec![1]));
}

/// A pause that comes while an attempt is under way outlives its verdict, in reach as elsewhere.
async fn a_pause_in_flight_keeps_the_failure_out_of_reach(subject: TestStore) {
    let days = keys("ads", &["a"], 1);
    subject.want(Lane::Fresh, days.clone()).await;
    let claimed = subject.claim(1).await.remove(0);
    assert!(changed(&subject.ask(&days[0], pause()).await));
    subject.judge(&claimed.run, rejected(ErrorClass::Retryable, "boom")).await;
    assert!(subject.read(&days[0]).await.control.paused.is_some());
    assert!(in_reach(&subject).await.is_empty());
    assert!(changed(&subject.ask(&days[0], ControlEvent::Resume).await));
    assert_eq!(in_reach(&subject).await, days);
}

crate::on_both_databases!(
    bands_and_reaches_hold_exactly_what_may_be_retried,
    a_mark_or_a_pause_takes_a_failure_out_of_reach_and_back,
    what_is_granted_moves_a_failure_to_an_earlier_band,
    a_pause_in_flight_keeps_the_failure_out_of_reach,
);
