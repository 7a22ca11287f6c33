//! The outbox: one sender at a time, what it could not deliver is kept, and nothing overtakes its own beginning.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::episode::Episode;
use redrive_core::fingerprint::GroupId;
use redrive_core::notice::{Notice, NoticeKind};
use redrive_core::time::Timestamp;
use redrive_store::{EpisodeStep, OpenEpisode, OutboxDepth};

use crate::support::TestStore;

const SENDING: Duration = Duration::from_secs(60);

fn notice(subject: &str, now: Timestamp) -> Notice {
    Notice { subject: subject.to_owned(), ..Notice::test("a tester", now) }
}

async fn told(subject: &TestStore, about: &[&str]) {
    for about in about {
        subject.store.outbox().add(notice(about, subject.now())).await.unwrap();
        subject.clock.advance(Duration::from_millis(1));
    }
    let all = |_: &_| vec!["pager".to_owned()];
    subject.store.outbox().address(Timestamp::MIN, all).await.unwrap();
}

/// What a sender takes, by its subjects.
async fn taken(store: &redrive_store::Store) -> Vec<String> {
    let taken = store.outbox().take("pager", 10, SENDING).await.unwrap();
    taken.into_iter().map(|delivery| delivery.notification.notice.subject).collect()
}

/// SV-7
async fn two_senders_never_have_one_delivery(subject: TestStore) {
    told(&subject, &["a", "b", "c", "d"]).await;
    let other = subject.again().await;
    let (one, two) = tokio::join!(taken(&subject.store), taken(&other));
    let mut both: Vec<String> = one.into_iter().chain(two).collect();
    both.extend(taken(&other).await);
    both.sort();
    assert_eq!(both, ["a", "b", "c", "d"]);
    assert!(taken(&subject.store).await.is_empty());
}

/// SV-7: what a sender that died had is sent again, and the dead one's word no longer counts.
async fn a_lease_that_ran_out_goes_to_another_sender(subject: TestStore) {
    told(&subject, &["a"]).await;
    let outbox = subject.store.outbox();
    let first = outbox.take("pager", 10, SENDING).await.unwrap().remove(0);
    subject.clock.advance(SENDING - Duration::from_secs(1));
    assert!(taken(&subject.store).await.is_empty());
    subject.clock.advance(Duration::from_secs(1));
    let second = outbox.take("pager", 10, SENDING).await.unwrap().remove(0);
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(first.notification.id, second.notification.id, "a receiver tells repetitions by it");
    assert!(!outbox.delivered(&first).await.unwrap());
    assert!(outbox.delivered(&second).await.unwrap());
    assert!(!outbox.failed(&second, "too late", subject.now()).await.unwrap());
    assert_eq!(subject.store.view().outbox_depth().await.unwrap(), OutboxDepth::default());
}

/// SV-7
async fn what_was_not_delivered_is_kept_until_it_is(subject: TestStore) {
    told(&subject, &["a"]).await;
    let made = subject.store.view().notifications(10).await.unwrap()[0].at;
    let outbox = subject.store.outbox();
    for _ in 0..5 {
        let delivery = outbox.take("pager", 10, SENDING).await.unwrap().remove(0);
        let again = subject.now().saturating_add(SENDING);
        assert!(outbox.failed(&delivery, "connection refused", again).await.unwrap());
        assert!(taken(&subject.store).await.is_empty(), "not before its time");
        subject.clock.advance(SENDING);
    }
    assert_eq!(outbox.prune(Timestamp::MAX).await.unwrap(), 0, "it has not been delivered");
    let depth = subject.store.view().outbox_depth().await.unwrap();
    assert_eq!((depth.open, depth.oldest), (1, Some(made)));
    let kept = subject.store.view().notifications(10).await.unwrap().remove(0);
    assert_eq!((kept.deliveries[0].attempts, kept.deliveries[0].error.as_deref()), (5, Some("connection refused")));
    let delivery = outbox.take("pager", 10, SENDING).await.unwrap().remove(0);
    outbox.delivered(&delivery).await.unwrap();
    assert_eq!(outbox.prune(Timestamp::MAX).await.unwrap(), 1);
    assert!(subject.store.view().notifications(10).await.unwrap().is_empty());
}

/// Nobody hears of an end before its beginning.
async fn one_subject_is_delivered_in_its_order(subject: TestStore) {
    told(&subject, &["a", "b", "a"]).await;
    let outbox = subject.store.outbox();
    let first = outbox.take("pager", 10, SENDING).await.unwrap();
    assert_eq!(first.len(), 2);
    assert!(taken(&subject.store).await.is_empty(), "the second of a waits for the first");
    let a = first.iter().find(|delivery| delivery.notification.notice.subject == "a").unwrap();
    outbox.delivered(a).await.unwrap();
    assert_eq!(taken(&subject.store).await, ["a"]);
}

/// A receiver gets what it was addressed, and nothing that is older than it.
async fn receivers_are_named_once(subject: TestStore) {
    let outbox = subject.store.outbox();
    outbox.add(notice("old", subject.now())).await.unwrap();
    subject.clock.advance(SENDING);
    outbox.add(notice("new", subject.now())).await.unwrap();
    let both = |_: &_| vec!["pager".to_owned(), "chat".to_owned()];
    assert_eq!(outbox.address(subject.now(), both).await.unwrap(), 2);
    assert_eq!(outbox.address(subject.now(), both).await.unwrap(), 0);
    assert_eq!(taken(&subject.store).await, ["new"]);
    assert_eq!(outbox.take("chat", 10, SENDING).await.unwrap().len(), 1);
    assert!(outbox.take("nobody", 10, SENDING).await.unwrap().is_empty());
}

/// SV-7: of two who saw the same episode, one tells of its turn.
async fn a_turn_is_written_once(subject: TestStore) {
    let group = GroupId::from_number(7).unwrap();
    let episode = Episode { group, opened_at: subject.now(), opened_with: 3, grown_at: None, exhausted_at: None };
    let open =
        |episode| OpenEpisode { episode, sources: BTreeSet::from(["ads".to_owned()]), categories: BTreeSet::new() };
    let grown = Episode { grown_at: Some(subject.now()), ..episode };
    let steps = [(None, Some(open(episode))), (Some(episode), Some(open(grown))), (Some(grown), None)];
    let other = subject.again().await;
    for (nth, (before, after)) in steps.into_iter().enumerate() {
        let step = EpisodeStep { before, after: after.clone(), notices: vec![notice("g", subject.now())] };
        let (one, two) = (subject.store.control(), other.control());
        let (one, two) = tokio::join!(one.turn_episodes(vec![step.clone()]), two.turn_episodes(vec![step]));
        assert_eq!(one.unwrap().into_iter().chain(two.unwrap()).filter(|took| *took).count(), 1);
        assert_eq!(subject.store.view().episodes().await.unwrap(), Vec::from_iter(after));
        assert_eq!(subject.store.view().notifications(10).await.unwrap().len(), nth + 1);
    }
    let told = subject.store.view().notifications(1).await.unwrap().remove(0);
    assert_eq!((told.notice.event, told.audit_head.split(':').next()), (NoticeKind::Test, Some("0")));
}

redrive_fixture::on_both_databases!(
    two_senders_never_have_one_delivery,
    a_lease_that_ran_out_goes_to_another_sender,
    what_was_not_delivered_is_kept_until_it_is,
    one_subject_is_delivered_in_its_order,
    receivers_are_named_once,
    a_turn_is_written_once,
);
