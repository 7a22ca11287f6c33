//! What a claim must leave alone: what cools down, is paused, belongs to other sources, or would break a limit.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::key::Source;
use redrive_core::lane::Lane;
use redrive_core::partition::ControlEvent;
use redrive_store::{ClaimedPartition, Cooldown, PartitionClaim};

use crate::steps::{accepted, changed, claim, keys, pause};
use crate::support::{TestStore, key};

fn source(name: &str) -> Source {
    name.parse().unwrap()
}

async fn cool(subject: &TestStore, name: &str, customer: Option<&str>, seconds: u64) {
    let customer_id = customer.map(|customer| customer.parse().unwrap());
    let until = subject.now().saturating_add(Duration::from_secs(seconds));
    let cooldown = Cooldown { source: source(name), customer_id, until, why: Some("429".to_owned()) };
    subject.store.data().cool_down(cooldown).await.unwrap();
}

async fn claim_with(subject: &TestStore, asked: PartitionClaim) -> Vec<ClaimedPartition> {
    subject.store.data().claim_partitions(asked).await.unwrap().0
}

fn names(claimed: &[ClaimedPartition]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for claimed in claimed {
        let key = &claimed.partition.state.key;
        *counts.entry(format!("{}/{}", key.source, key.customer_id)).or_default() += 1;
    }
    counts
}

async fn a_cooldown_holds_back_one_customer(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b"], 3)).await;
    subject.want(Lane::Fresh, keys("crm", &["a"], 3)).await;
    cool(&subject, "ads", Some("a"), 60).await;
    // A shorter one changes nothing.
    cool(&subject, "ads", Some("a"), 5).await;
    assert_eq!(subject.store.view().holds().await.unwrap().len(), 1);
    let claimed = subject.claim(99).await;
    assert_eq!(names(&claimed), [("ads/b".to_owned(), 3), ("crm/a".to_owned(), 3)].into());
    subject.clock.advance(Duration::from_secs(59));
    assert!(subject.claim(99).await.is_empty());
    subject.clock.advance(Duration::from_secs(1));
    assert_eq!(names(&subject.claim(99).await), [("ads/a".to_owned(), 3)].into());
    assert!(subject.store.view().holds().await.unwrap().is_empty());
}

async fn a_cooldown_holds_back_a_whole_source(subject: TestStore) {
    for name in ["ads", "ads ", "adsx", "Ads"] {
        subject.want(Lane::Fresh, keys(name, &["a", "b"], 2)).await;
    }
    cool(&subject, "ads", None, 60).await;
    let claimed = names(&subject.claim(99).await);
    assert_eq!(claimed.values().sum::<usize>(), 12, "{claimed:?}");
    assert!(!claimed.keys().any(|name| name.starts_with("ads/")), "{claimed:?}");
    subject.clock.advance(Duration::from_secs(60));
    assert_eq!(subject.claim(99).await.len(), 4);
}

/// A source with many customers that cools down, is full or is not asked for stands in nobody's way.
async fn a_source_that_may_not_be_claimed_hides_nobody_behind_it(subject: TestStore) {
    let many: Vec<String> = (0..500).map(|nth| format!("{nth:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for name in ["a", "b", "c"] {
        subject.want(Lane::Fresh, keys(name, &many, 1)).await;
    }
    subject.want(Lane::Fresh, keys("d", &["x"], 10)).await;
    cool(&subject, "a", None, 60).await;
    let max_in_flight = BTreeMap::from([(source("b"), 0)]);
    let sources = Some(["a", "b", "d"].map(source).into());
    let asked = PartitionClaim { max_in_flight, sources, ..claim(5) };
    assert_eq!(names(&claim_with(&subject, asked).await), [("d/x".to_owned(), 5)].into());
}

/// Customers who cool down one by one stand in nobody's way either.
async fn many_customers_who_cool_down_hide_nobody_behind_them(subject: TestStore) {
    let many: Vec<String> = (0..50).map(|nth| format!("{nth:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    subject.want(Lane::Fresh, keys("ads", &many, 1)).await;
    subject.want(Lane::Fresh, keys("ads", &["x"], 5)).await;
    for customer in &many {
        cool(&subject, "ads", Some(customer), 60).await;
    }
    assert_eq!(names(&subject.claim(4).await), [("ads/x".to_owned(), 4)].into());
}

/// A source that has room for one more takes one, and the rest of the claim goes to those behind it.
async fn a_source_that_becomes_full_hides_nobody_behind_it(subject: TestStore) {
    let many: Vec<String> = (0..30).map(|nth| format!("{nth:02}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for name in ["a", "b", "c"] {
        subject.want(Lane::Fresh, keys(name, &many, 1)).await;
    }
    subject.want(Lane::Fresh, keys("d", &["x"], 100)).await;
    let max_in_flight = ["a", "b", "c"].map(|name| (source(name), 1)).into();
    let claimed = claim_with(&subject, PartitionClaim { max_in_flight, ..claim(10) }).await;
    assert_eq!(claimed.len(), 10, "one each of a, b and c, and seven of d: {:?}", names(&claimed));
}

/// CP-2.5
async fn a_paused_partition_is_not_claimed_until_it_is_resumed(subject: TestStore) {
    let days = keys("ads", &["a"], 2);
    subject.want(Lane::Fresh, days.clone()).await;
    assert!(changed(&subject.ask(&days[0], pause()).await));
    let before = subject.read(&days[0]).await;
    let claimed = subject.claim(9).await;
    assert_eq!(claimed.iter().map(|claimed| &claimed.partition.state.key).collect::<Vec<_>>(), [&days[1]]);
    assert_eq!(subject.read(&days[0]).await, before);
    assert!(changed(&subject.ask(&days[0], ControlEvent::Resume).await));
    assert_eq!(subject.claim(9).await[0].partition.state.key, days[0]);
}

async fn a_claim_takes_only_the_sources_asked_for_and_never_more_than_asked(subject: TestStore) {
    for name in ["a", "b", "c"] {
        subject.want(Lane::Fresh, keys(name, &["1", "2"], 10)).await;
        subject.want(Lane::Backfill, keys(name, &["3"], 10)).await;
    }
    assert!(subject.claim(0).await.is_empty());
    assert_eq!(subject.claim(1).await.len(), 1);
    assert_eq!(subject.claim(7).await.len(), 7);
    let none = claim_with(&subject, PartitionClaim { sources: Some(vec![]), ..claim(9) }).await;
    assert!(none.is_empty());
    let asked = PartitionClaim { sources: Some(vec![source("b"), source("nobody")]), ..claim(99) };
    let claimed = claim_with(&subject, asked).await;
    assert!(claimed.iter().all(|claimed| claimed.partition.state.key.source == source("b")));
    let rest = subject.claim(99).await;
    assert_eq!(claimed.len() + rest.len() + 8, 90);
}

/// The limit of a source counts every attempt in flight, whoever claimed it.
async fn a_sources_limit_is_kept_exactly(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b"], 20)).await;
    subject.want(Lane::Fresh, keys("crm", &["a"], 2)).await;
    let limited = |limit| PartitionClaim { max_in_flight: [(source("ads"), 3)].into(), ..claim(limit) };
    let first = claim_with(&subject, limited(2)).await;
    let second = claim_with(&subject, limited(9)).await;
    let both: Vec<_> = first.into_iter().chain(second).collect();
    let ads =
        |claimed: &[ClaimedPartition]| claimed.iter().filter(|c| c.partition.state.key.source == source("ads")).count();
    assert_eq!((ads(&both), both.len()), (3, 5), "{:?}", names(&both));
    assert!(claim_with(&subject, limited(9)).await.is_empty());
    let mut mine = both.iter().filter(|claimed| claimed.partition.state.key.source == source("ads"));
    subject.judge(&mine.next().unwrap().run, accepted(1)).await;
    subject.store.data().release(&mine.next().unwrap().run, None).await.unwrap();
    assert_eq!(ads(&claim_with(&subject, limited(9)).await), 2);
}

/// RP-9.4: eight claimers at once never have more than the limit in flight, and never the same partition.
async fn a_sources_limit_holds_with_many_claimers_at_once(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a", "b", "c"], 40)).await;
    let mut tasks = Vec::new();
    for nth in 0..8u32 {
        let store = subject.again().await;
        tasks.push(tokio::spawn(async move {
            let limited = PartitionClaim { max_in_flight: [(source("ads"), 17)].into(), ..claim(3 + nth) };
            store.data().claim_partitions(limited).await.unwrap().0
        }));
    }
    let mut claimed = Vec::new();
    for task in tasks {
        claimed.extend(task.await.unwrap().into_iter().map(|claimed| claimed.partition.state.key));
    }
    assert_eq!(claimed.len(), 17);
    claimed.sort();
    claimed.dedup();
    assert_eq!(claimed.len(), 17);
    assert_eq!(subject.database.number("SELECT count(*) FROM partition_control WHERE active_run_id IS NOT NULL"), 17);
    assert!(subject.store.view().partition(&key("ads", "a", "daily", "1900-01-01")).await.unwrap().is_some());
}

crate::on_both_databases!(
    a_cooldown_holds_back_one_customer,
    a_cooldown_holds_back_a_whole_source,
    a_source_that_may_not_be_claimed_hides_nobody_behind_it,
    many_customers_who_cool_down_hide_nobody_behind_them,
    a_source_that_becomes_full_hides_nobody_behind_it,
    a_paused_partition_is_not_claimed_until_it_is_resumed,
    a_claim_takes_only_the_sources_asked_for_and_never_more_than_asked,
    a_sources_limit_is_kept_exactly,
    a_sources_limit_holds_with_many_claimers_at_once,
);
