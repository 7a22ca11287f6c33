//! What is left when a claim came back empty, and whether it is worth waiting for.

use std::time::Duration;

use redrive_core::key::Source;
use redrive_core::lane::Lane;
use redrive_core::partition::ControlEvent;
use redrive_core::run::Workload;
use redrive_store::{Backlog, Cooldown, Queued};

use crate::steps::{accepted, changed, keys, pause};
use crate::support::{LEASE, TestStore};

fn source(name: &str) -> Source {
    name.parse().unwrap()
}

/// What there is of the source `ads`, which may have so many attempts at once.
async fn backlog(subject: &TestStore, limit: Option<u32>) -> Backlog {
    let limits = limit.map(|limit| (source("ads"), limit)).into_iter().collect();
    subject.store.view().backlog(vec![source("ads")], limits).await.unwrap()
}

fn some(queued: Queued, in_flight: u64) -> Backlog {
    Backlog { queued, in_flight }
}

async fn a_full_source_is_held_back_until_an_attempt_ends(subject: TestStore) {
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Nothing, 0));
    subject.want(Lane::Backfill, keys("ads", &["a"], 2)).await;
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Claimable, 0));
    let claimed = subject.claim(1).await.remove(0);
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::HeldBack, 1));
    assert_eq!(backlog(&subject, Some(2)).await, some(Queued::Claimable, 1));
    assert_eq!(backlog(&subject, None).await, some(Queued::Claimable, 1));
    subject.judge(&claimed.run, accepted(1)).await;
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Claimable, 0));
    subject.claim(1).await;
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Nothing, 1), "the last is under way");
}

/// The lease has passed, and whoever finds that will end the attempt.
async fn a_source_that_is_full_of_dead_attempts_is_held_back(subject: TestStore) {
    subject.want(Lane::Fresh, keys("ads", &["a"], 2)).await;
    subject.claim(1).await;
    subject.clock.advance(LEASE + Duration::from_secs(1));
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::HeldBack, 1));
    let ended = subject
        .store
        .data()
        .expire(Workload::Extract, 9, |_| redrive_core::retry::RetryPolicy::partitions())
        .await
        .unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Claimable, 0));
}

async fn what_no_attempts_end_would_free_is_not_waited_for(subject: TestStore) {
    let days = keys("ads", &["a"], 2);
    subject.want(Lane::Fresh, days.clone()).await;
    subject.want(Lane::Fresh, keys("crm", &["a"], 2)).await;
    assert_eq!(backlog(&subject, Some(0)).await, some(Queued::Nothing, 0), "it may have none at all");
    let other = subject.store.view().backlog(vec![source("nobody")], [].into()).await.unwrap();
    assert_eq!(other, some(Queued::Nothing, 0), "another source is not asked for");
    for day in &days {
        assert!(changed(&subject.ask(day, pause()).await));
    }
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Nothing, 0), "all is paused");
    for day in &days {
        assert!(changed(&subject.ask(day, ControlEvent::Resume).await));
    }
    for customer_id in [Some("a".parse().unwrap()), None] {
        let until = subject.now().saturating_add(Duration::from_secs(60));
        let cooldown = Cooldown { source: source("ads"), customer_id, until, why: None };
        subject.store.data().cool_down(cooldown).await.unwrap();
        assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Nothing, 0), "it cools down");
        subject.clock.advance(Duration::from_secs(61));
        assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Claimable, 0));
    }
}

/// A mark of an attempt that is none, as damage may leave it, fills a limit for ever.
#[tokio::test]
async fn a_source_that_is_full_of_nothing_is_not_waited_for() {
    let subject = TestStore::sqlite().await;
    subject.want(Lane::Fresh, keys("ads", &["a"], 2)).await;
    subject.claim(1).await;
    let redrive_store::StoreUrl::Sqlite(file) = &subject.database.url else { panic!("it is a file") };
    let database = rusqlite::Connection::open(file).unwrap();
    database.execute_batch("DELETE FROM run_claims").unwrap();
    assert_eq!(backlog(&subject, Some(1)).await, some(Queued::Nothing, 0));
}

crate::on_both_databases!(
    a_full_source_is_held_back_until_an_attempt_ends,
    a_source_that_is_full_of_dead_attempts_is_held_back,
    what_no_attempts_end_would_free_is_not_waited_for,
);
