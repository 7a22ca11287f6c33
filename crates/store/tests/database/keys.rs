//! SV-3: idempotency keys. A request that is sent again changes nothing more.

use std::time::Duration;

use redrive_store::{Error, KeyFound, KeyHold, KeyedRequest, NewRun, Submitted, answering, under_key};

use crate::support::TestStore;

fn request(body: u8) -> KeyedRequest {
    KeyedRequest {
        actor: "token:ci".to_owned(),
        route: "POST /v1/runs".to_owned(),
        key: "k1".to_owned(),
        body_hash: vec![body; 32],
    }
}

async fn fresh(subject: &TestStore) -> KeyHold {
    let found = subject.store.begin_key(request(1)).await.unwrap();
    let KeyFound::Fresh(hold) = found else { panic!("{found:?}") };
    hold
}

async fn submit_under(subject: &TestStore, hold: &KeyHold) -> redrive_store::Result<()> {
    let job = NewRun::job("a", None, subject.now());
    under_key(hold.clone(), subject.store.control().submit(vec![job])).await.map(drop)
}

async fn jobs(subject: &TestStore) -> usize {
    subject.claim_jobs(99).await.len()
}

/// SV-3: same again, the same answer; another body is refused; another actor or route is another key.
async fn a_key_gives_its_answer_again(subject: TestStore) {
    let hold = fresh(&subject).await;
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), KeyFound::Running);
    assert_eq!(subject.store.begin_key(request(2)).await.unwrap(), KeyFound::OtherBody);
    submit_under(&subject, &hold).await.unwrap();
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), KeyFound::Running);
    subject.store.answer_key(hold, "answer".to_owned()).await.unwrap();
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), KeyFound::Answered("answer".to_owned()));
    assert_eq!(subject.store.begin_key(request(2)).await.unwrap(), KeyFound::OtherBody);
    let other = KeyedRequest { actor: "token:other".to_owned(), ..request(1) };
    assert!(matches!(subject.store.begin_key(other).await.unwrap(), KeyFound::Fresh(_)));
    assert_eq!(jobs(&subject).await, 1);
    subject.clock.advance(Duration::from_secs(86_400));
    assert_eq!(subject.store.control().forget_keys(subject.now()).await.unwrap(), 2);
    assert!(matches!(subject.store.begin_key(request(1)).await.unwrap(), KeyFound::Fresh(_)));
}

/// SV-3: the key is written in the transaction of the change. A server that dies before it leaves nothing behind; one that dies after it
/// leaves the word that the change was made.
async fn a_key_tells_what_a_dead_server_did(subject: TestStore) {
    let hold = fresh(&subject).await;
    subject.clock.advance(Duration::from_secs(300));
    let second = fresh(&subject).await;
    assert!(matches!(submit_under(&subject, &hold).await, Err(Error::KeyTaken)), "the key is another request's by now");
    assert_eq!(jobs(&subject).await, 0, "and nothing of it was written");
    submit_under(&subject, &second).await.unwrap();
    subject.clock.advance(Duration::from_secs(300));
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), KeyFound::Interrupted);
    assert_eq!(jobs(&subject).await, 1);
}

/// SV-3: an answer that is made of what the change gives is kept in the change's own transaction: a server that dies right after it has
/// answered.
async fn an_answer_is_kept_with_the_change_it_is_made_of(subject: TestStore) {
    let hold = fresh(&subject).await;
    let control = subject.store.control();
    let submitting = control.submit(vec![NewRun::job("a", None, subject.now())]);
    let told = |submitted: &Vec<Submitted>| Some(format!("run {}", submitted[0].run_id));
    let given = under_key(hold.clone(), answering(told, submitting)).await.unwrap();
    // Nothing is said of it at last: the server is dead.
    let answer = KeyFound::Answered(format!("run {}", given[0].run_id));
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), answer);
    subject.clock.advance(Duration::from_secs(300));
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), answer, "however long ago it was");
    submit_under(&subject, &hold).await.unwrap();
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), answer, "a later change takes nothing from it");
    // What another kind of change gives is not what the answer is made of.
    let other = KeyedRequest { key: "k2".to_owned(), ..request(1) };
    let KeyFound::Fresh(hold) = subject.store.begin_key(other.clone()).await.unwrap() else { panic!("k2 is known") };
    let told = |number: &u64| Some(number.to_string());
    let submitting = control.submit(vec![NewRun::job("a", None, subject.now())]);
    under_key(hold, answering(told, submitting)).await.unwrap();
    subject.clock.advance(Duration::from_secs(300));
    assert_eq!(subject.store.begin_key(other).await.unwrap(), KeyFound::Interrupted);
}

/// A request that changed nothing may be sent again.
async fn a_key_that_changed_nothing_is_free_again(subject: TestStore) {
    let hold = fresh(&subject).await;
    subject.store.drop_key(hold).await.unwrap();
    let hold = fresh(&subject).await;
    submit_under(&subject, &hold).await.unwrap();
    subject.store.drop_key(hold).await.unwrap();
    assert_eq!(subject.store.begin_key(request(1)).await.unwrap(), KeyFound::Running, "this one has changed something");
}

crate::on_both_databases!(
    a_key_gives_its_answer_again,
    a_key_tells_what_a_dead_server_did,
    an_answer_is_kept_with_the_change_it_is_made_of,
    a_key_that_changed_nothing_is_free_again,
);
