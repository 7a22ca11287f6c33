//! Tokens and sessions: what is kept of them, and with which trail.

use std::time::Duration;

use redrive_core::role::Role;
use redrive_core::sign_in::TokenState;
use redrive_fixture::on_both_databases;
use redrive_store::raw::Sha256;
use redrive_store::{Error, NewToken, Session, Verified};

use crate::support::TestStore;

fn new(subject: &TestStore, name: &str, secret: &str) -> NewToken {
    NewToken {
        name: name.to_owned(),
        role: Role::Worker,
        last_four: "abcd".to_owned(),
        categories: Some(vec!["any%".to_owned()]),
        expires_at: subject.now().saturating_add(Duration::from_secs(60)),
        hash: Sha256::of(secret.as_bytes()),
    }
}

async fn a_token_is_made_used_and_revoked_with_a_trail(subject: TestStore) {
    let access = subject.store.access();
    let made = access.create_token(&subject.operation("token create"), new(&subject, "ci", "one")).await.unwrap();
    assert_eq!(access.token(Sha256::of(b"one")).await.unwrap(), Some(made.clone()));
    assert_eq!(access.token(Sha256::of(b"two")).await.unwrap(), None);
    assert_eq!((made.state(subject.now()), made.created_by.as_str()), (TokenState::Valid, "tester@here"));
    let twice = access.create_token(&subject.operation("token create"), new(&subject, "ci", "two")).await;
    assert!(matches!(twice, Err(Error::Input { .. })), "{twice:?}");
    let at = subject.now();
    access.token_used(made.id, at).await.unwrap();
    assert_eq!(subject.store.view().tokens().await.unwrap()[0].last_used_at, Some(at));
    access.revoke_token(&subject.operation("token revoke"), "ci").await.unwrap();
    assert_eq!(subject.store.view().tokens().await.unwrap()[0].state(subject.now()), TokenState::Revoked);
    let gone = access.revoke_token(&subject.operation("token revoke"), "ci").await;
    assert!(matches!(gone, Err(Error::Absent { .. })), "{gone:?}");
    access.create_token(&subject.operation("token create"), new(&subject, "ci", "three")).await.unwrap();
    let view = subject.store.view();
    let commands: Vec<String> =
        view.operations(None, 10).await.unwrap().into_iter().map(|past| past.operation.command).collect();
    assert_eq!(commands, ["token create", "token revoke", "token create"], "a refusal leaves no trail");
    assert!(matches!(view.verify_audit().await.unwrap(), Verified::Whole(_)));
}

async fn a_session_counts_as_long_as_its_token(subject: TestStore) {
    let access = subject.store.access();
    let token = access.create_token(&subject.operation("token create"), new(&subject, "me", "one")).await.unwrap();
    let session = |text: &str, token| Session {
        hash: Sha256::of(text.as_bytes()),
        actor: "token:me".to_owned(),
        role: Role::Worker,
        token,
        created_at: subject.now(),
        last_seen: subject.now(),
    };
    let (with, without) = (session("a", Some(token.id)), session("b", None));
    access.begin_session(with.clone(), None).await.unwrap();
    access.begin_session(without.clone(), None).await.unwrap();
    assert_eq!(access.session(with.hash).await.unwrap(), Some(with.clone()));
    subject.clock.advance(Duration::from_secs(60));
    assert_eq!(access.session(with.hash).await.unwrap(), None, "the token has expired");
    assert!(access.session(without.hash).await.unwrap().is_some());
    let next = session("c", None);
    access.begin_session(next.clone(), Some(without.hash)).await.unwrap();
    assert_eq!(access.session(without.hash).await.unwrap(), None, "replaced");
    access.end_sessions_of("token:me").await.unwrap();
    assert_eq!(access.session(next.hash).await.unwrap(), None);
}

on_both_databases!(a_token_is_made_used_and_revoked_with_a_trail, a_session_counts_as_long_as_its_token);
