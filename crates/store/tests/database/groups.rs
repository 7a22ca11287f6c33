//! Failure groups of partitions: counted is what is failed now, by cause.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive_core::any_of::AnyOf;
use redrive_core::failure::ErrorClass;
use redrive_core::filter::Filter;
use redrive_core::fingerprint::{GroupPrefix, of_partition};
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::outlook::{self, Outlook};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{EndedBy, State, Workload};
use redrive_core::time::Timestamp;
use redrive_store::{AttemptLimits, GroupQuery, Page, PartitionGroup};

use crate::steps::{accepted, changed, mark, pause, rejected, retry};
use crate::support::{LEASE, TestStore, key};

fn days(source: &str, customer: &str, days: std::ops::RangeInclusive<u32>) -> Vec<PartitionKey> {
    days.map(|day| key(source, customer, "daily", &format!("2026-01-{day:02}"))).collect()
}

fn query(subject: &TestStore, filter: Filter) -> GroupQuery {
    GroupQuery {
        filter,
        limits: BTreeMap::new(),
        otherwise: AttemptLimits::of(&RetryPolicy::partitions(), subject.now()),
        at_most: None,
    }
}

async fn groups(subject: &TestStore, filter: Filter) -> Vec<PartitionGroup> {
    subject.store.view().partition_groups(query(subject, filter)).await.unwrap()
}

fn of_source(source: &str) -> Filter {
    Filter { source: AnyOf::one(source.parse().unwrap()), ..Filter::default() }
}

/// Four causes over two sources, each message with ids of its own.
async fn furnish(subject: &TestStore) {
    for (source, customer) in [("ads", "1"), ("ads", "2"), ("crm", "1")] {
        subject.want(Lane::Fresh, days(source, customer, 1..=8)).await;
    }
    let message = |key: &PartitionKey| {
        let day = key.logical_date.to_string();
        match (key.source.as_str(), day.ends_with(['1', '2', '3'])) {
            ("ads", true) => rejected(ErrorClass::Retryable, &format!("HTTP 503: request 7f3a2b1c00{day} timed out")),
            ("ads", false) if day.ends_with('8') => accepted(1),
            ("ads", false) => rejected(ErrorClass::Final, &format!("customer {} is gone", key.customer_id)),
            _ => rejected(ErrorClass::Retryable, &format!("connection reset after {} bytes", day.len())),
        }
    };
    assert_eq!(subject.judge_each(message).await, 24);
}

/// OP-2
async fn what_is_failed_now_is_counted_by_cause(subject: TestStore) {
    furnish(&subject).await;
    let all = groups(&subject, Filter::default()).await;
    let counts: Vec<_> = all.iter().map(|group| (group.count, group.description.class)).collect();
    // Equal counts are in the order of their ids.
    assert_eq!(counts.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [8, 8, 6]);
    let by = |text: &str| all.iter().find(|group| group.description.template.contains(text)).unwrap();
    let gone = by("is gone");
    assert_eq!((gone.count, gone.description.class), (8, ErrorClass::Final));
    assert_eq!(gone.sources, BTreeSet::from(["ads".to_owned()]));
    assert_eq!(gone.customers.len(), 2);
    assert_eq!(by("connection reset").customers[&("crm".to_owned(), "1".to_owned())], 8);
    assert_eq!(groups(&subject, of_source("crm")).await.len(), 1);
    let one_day = Filter { until: Some("2026-01-02".parse().unwrap()), ..of_source("ads") };
    assert_eq!(groups(&subject, one_day).await[0].count, 4);
    let classed = Filter { error_class: Some(ErrorClass::Final), ..Filter::default() };
    assert_eq!(groups(&subject, classed).await, std::slice::from_ref(gone));
    let only = Filter { group: Some(gone.group), ..Filter::default() };
    assert_eq!(groups(&subject, only).await, std::slice::from_ref(gone));

    // Retried and succeeded ones are no longer failed.
    let again = days("ads", "1", 4..=5);
    let policy = RetryPolicy::partitions();
    for key in &again {
        assert!(changed(&subject.ask(key, retry(&policy)).await));
    }
    assert_eq!(groups(&subject, of_source("ads")).await.iter().map(|group| group.count).collect::<Vec<_>>(), [6, 6]);
    subject.judge_each(|_| accepted(1)).await;
    assert_eq!(groups(&subject, of_source("ads")).await.iter().map(|group| group.count).sum::<u64>(), 12);
}

/// OP-2: a mark in front of the message moves nothing to another group.
async fn marks_and_pauses_split_no_group(subject: TestStore) {
    furnish(&subject).await;
    let before = groups(&subject, of_source("ads")).await;
    assert!(changed(&subject.ask(&key("ads", "1", "daily", "2026-01-04"), mark(1)).await));
    assert!(changed(&subject.ask(&key("ads", "1", "daily", "2026-01-05"), pause()).await));
    let after = groups(&subject, of_source("ads")).await;
    assert_eq!(after.len(), before.len());
    let gone = after.iter().find(|group| group.description.class == ErrorClass::Final).unwrap();
    assert_eq!((gone.count, gone.withheld), (8, 2));
    let filter = Filter { group: Some(gone.group), ..Filter::default() };
    let page = Page { filter, limit: 100, ..Page::default() };
    let found = subject.store.view().partitions(page).await.unwrap();
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|partition| of_partition(&partition.state).unwrap().group == gone.group));
}

/// What the statement calls exhausted is what the rules call so.
async fn exhausted_is_what_the_outlook_says(subject: TestStore) {
    furnish(&subject).await;
    let lasting = RetryPolicy { max_attempts: Some(3), ..RetryPolicy::partitions() };
    for key in days("crm", "1", 1..=3) {
        assert!(changed(&subject.ask(&key, retry(&lasting)).await));
    }
    subject.judge_each(|_| rejected(ErrorClass::Retryable, "connection reset after 3 bytes")).await;
    for (limit, days, exhausted) in [(Some(3), 1, 0), (Some(2), 0, 3), (None, 0, 0), (None, 39, 8), (Some(1), 0, 8)] {
        let policy = RetryPolicy { max_attempts: limit, ..RetryPolicy::partitions() };
        subject.clock.advance(Duration::from_secs(86_400 * days));
        let limits = BTreeMap::from([("crm".parse().unwrap(), AttemptLimits::of(&policy, subject.now()))]);
        let otherwise = AttemptLimits { attempts: 1, created: Timestamp::MAX };
        let query = GroupQuery { filter: of_source("crm"), limits, otherwise, at_most: None };
        let found = subject.store.view().partition_groups(query).await.unwrap();
        assert_eq!(found[0].exhausted, exhausted, "{limit:?} {days} days later");
        let page = Page { filter: of_source("crm"), limit: 100, ..Page::default() };
        let partitions = subject.store.view().partitions(page).await.unwrap();
        let said = partitions
            .iter()
            .filter(|p| matches!(outlook::of(p, &policy, None, subject.now()), Outlook::Exhausted(_)))
            .count();
        assert_eq!(said as u64, exhausted, "the rules, {limit:?} {days} days later");
    }
}

/// A worker that died leaves a group too, and every group that a partition names is described.
async fn an_abandoned_attempt_has_its_group(subject: TestStore) {
    let lost = key("ads", "1", "daily", "2026-01-01");
    subject.want(Lane::Fresh, vec![lost.clone()]).await;
    let claimed = subject.claim(1).await;
    subject.clock.advance(2 * LEASE);
    subject.store.data().expire(Workload::Extract, 10, |_| RetryPolicy::partitions()).await.unwrap();
    let run = subject.run(claimed[0].run.run_id).await;
    assert_eq!((run.state, run.ended_by), (State::Dead, Some(EndedBy::Abandoned)));
    let all = groups(&subject, Filter::default()).await;
    assert_eq!((all.len(), all[0].count), (1, 1));
    assert!(all[0].description.sample.contains("lease expired"), "{all:?}");
    assert_eq!(of_partition(&subject.read(&lost).await.state).unwrap().group, all[0].group);
}

async fn a_group_is_found_by_its_beginning(subject: TestStore) {
    furnish(&subject).await;
    for group in groups(&subject, Filter::default()).await {
        let id = group.group.to_string();
        for length in [1, 4, 12] {
            let prefix: GroupPrefix = id[..length].parse().unwrap();
            let found = subject.store.view().groups_beginning(prefix).await.unwrap();
            assert!(length == 1 || found == [group.group], "{id} {length}: {found:?}");
            assert!(found.iter().all(|found| found.to_string().starts_with(&id[..length])));
        }
    }
    let none: GroupPrefix = "000000000000".parse().unwrap();
    assert!(subject.store.view().groups_beginning(none).await.unwrap().is_empty());
}

crate::on_both_databases!(
    what_is_failed_now_is_counted_by_cause,
    marks_and_pauses_split_no_group,
    exhausted_is_what_the_outlook_says,
    an_abandoned_attempt_has_its_group,
    a_group_is_found_by_its_beginning,
);
