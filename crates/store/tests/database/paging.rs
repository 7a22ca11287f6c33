//! Pages of what a filter means: the same rows in the same order as sorting and matching in memory.

use futures_util::future::join_all;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use redrive_core::failure::ErrorClass;
use redrive_core::filter::Filter;
use redrive_core::fingerprint::{GroupId, fingerprint};
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{Partition, Status};
use redrive_store::Page;

use crate::property::{check, wait};
use crate::steps::{accepted, changed, mark, pause, rejected};
use crate::support::{TestStore, key};

const SOURCES: &[&str] = &["ads", "Ads", "a d s", "%", "日本", "\u{ffff}"];
const CUSTOMERS: &[&str] =
    &["1", "10", "'", "o'neill \"x\"", "100%", "_", "\\", "é", "e\u{301}", "🦀", " ", "?1 {x} @a $1"];
const QUERIES: &[&str] = &["daily", "Daily", "daily ", "%%", "ß", "\u{10ffff}"];
const DATES: &[&str] = &["0001-01-01", "2025-12-31", "2026-01-01", "9999-12-31"];

/// Some hundreds of odd keys, in no order.
fn odd_keys() -> Vec<PartitionKey> {
    let (s, c, q, d) = (SOURCES.len(), CUSTOMERS.len(), QUERIES.len(), DATES.len());
    let all = s * c * q * d;
    // A stride without a common divisor visits every combination; every fourth is left out.
    let places = (0..all).map(|nth| nth * 641 % all).filter(|place| place % 4 != 1);
    places
        .map(|at| key(SOURCES[at % s], CUSTOMERS[at / s % c], QUERIES[at / s / c % q], DATES[at / s / c / q % d]))
        .collect()
}

/// Puts partitions of every status and class there; gives them as they are, in key order.
async fn furnish(subject: &TestStore) -> Vec<Partition> {
    subject.want(Lane::Fresh, odd_keys()).await;
    let claimed = subject.claim(600).await;
    let judgements = [
        accepted(3),
        rejected(ErrorClass::Final, "gone"),
        rejected(ErrorClass::Retryable, "boom"),
        rejected(ErrorClass::RateLimited, "slow"),
    ];
    let judged = claimed.iter().zip(judgements.iter().cycle()).skip(100);
    join_all(judged.map(|(claimed, judgement)| subject.judge(&claimed.run, judgement.clone()))).await;
    let mut all = join_all(odd_keys().iter().map(|key| subject.read(key))).await;
    all.sort_by(|a, b| a.state.key.cmp(&b.state.key));
    for (nth, partition) in all.iter_mut().enumerate() {
        let event = match nth % 7 {
            0 => pause(),
            1 if partition.state.status == Status::Failed => mark(1),
            _ => continue,
        };
        assert!(changed(&subject.put(partition.clone(), event).await));
        *partition = subject.read(&partition.state.key).await;
    }
    all
}

/// Everything that a page's filter means, page by page.
async fn through(subject: &TestStore, mut page: Page) -> Vec<Partition> {
    let mut seen = Vec::new();
    loop {
        let rows = subject.store.view().partitions(page.clone()).await.unwrap();
        assert!(rows.len() <= page.limit as usize);
        let Some(last) = rows.last() else { return seen };
        page.after = Some(last.state.key.clone());
        seen.extend(rows);
    }
}

fn filters() -> impl Strategy<Value = Filter> {
    let word = |words: &'static [&'static str]| option::weighted(0.3, select(words));
    let some =
        |words: &'static [&'static str]| prop_oneof![2 => Just(vec![]), 1 => subsequence(words, 1..=words.len())];
    (
        some(SOURCES),
        some(CUSTOMERS),
        some(QUERIES),
        word(DATES),
        word(DATES),
        option::weighted(0.3, select(Status::ALL)),
        option::weighted(0.2, select(ErrorClass::ALL)),
        option::weighted(0.2, select(&["gone", "boom", "slow", "unheard of"][..])),
    )
        .prop_map(|(source, customer, query, since, until, status, error_class, message)| Filter {
            source: source.iter().map(|text| text.parse().unwrap()).collect(),
            customer_id: customer.iter().map(|text| text.parse().unwrap()).collect(),
            query_name: query.iter().map(|text| text.parse().unwrap()).collect(),
            since: since.map(|text| text.parse().unwrap()),
            until: until.map(|text| text.parse().unwrap()),
            status,
            error_class,
            group: message.map(group_of),
        })
}

/// The group of one of the messages above; a message that was never met has one too.
fn group_of(message: &str) -> GroupId {
    let class = match message {
        "gone" => ErrorClass::Final,
        "slow" => ErrorClass::RateLimited,
        _ => ErrorClass::Retryable,
    };
    fingerprint(class, None, message, &[]).group
}

/// CP-3a.2, CP-4.1, CP-3d.1
async fn pages_of_a_filter_are_what_matching_and_sorting_gives(subject: TestStore) {
    let all = furnish(&subject).await;
    assert!(all.len() > 1000);
    check(64, (filters(), 1u32..400, any::<bool>(), any::<bool>()), |(filter, limit, terminal, paused)| {
        let page = Page { filter: filter.clone(), limit, marked_terminal: terminal, paused, ..Page::default() };
        let expected: Vec<_> = all
            .iter()
            .filter(|p| filter.matches(&p.state))
            .filter(|p| !terminal || p.control.terminal.is_some())
            .filter(|p| !paused || p.control.paused.is_some())
            .cloned()
            .collect();
        prop_assert_eq!(wait(through(&subject, page)), expected);
        let matching = all.iter().filter(|p| filter.matches(&p.state)).count();
        prop_assert_eq!(wait(subject.store.view().count(&filter)).unwrap(), matching as u64);
        Ok(())
    });
}

/// CP-3d.2
async fn a_partition_that_is_not_there_is_not_guessed(subject: TestStore) {
    let absent = key("ads", "1", "daily", "2026-01-01");
    assert_eq!(subject.store.view().partition(&absent).await.unwrap(), None);
    assert!(subject.store.view().attempts(&absent).await.unwrap().is_empty());
    let page = Page { filter: Filter::key(&absent), limit: 5, ..Page::default() };
    assert!(subject.store.view().partitions(page).await.unwrap().is_empty());
}

crate::on_both_databases!(
    pages_of_a_filter_are_what_matching_and_sorting_gives,
    a_partition_that_is_not_there_is_not_guessed,
);
