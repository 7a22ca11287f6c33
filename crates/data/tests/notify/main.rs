//! Notifications against a receiver on this machine: signed, once, later when it was down, and never lost.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

#[expect(dead_code, reason = "other suites use the rest of it")]
#[path = "../scripted/reply.rs"]
mod reply;
#[expect(dead_code, reason = "other suites use the rest of it")]
#[path = "../scripted/server.rs"]
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use redrive_core::notice::{Notice, NoticeAction, NoticeKind};
use redrive_data::notify::{Receiver, ReceiverKind, ReceiverSettings, Sender, Sent};
use redrive_data::settings::{SecretRef, Surroundings, ValueRef, Variables};
use redrive_fixture::TestStore;
use serde_json::Value;

use reply::Reply;
use server::{Request, Server};

/// What happens next, with the words of `in_words`.
const NEXT: &str = "nothing: this is a test; lift the holds of ads";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn settings<'a>(kind: ReceiverKind, url: Option<&'a ValueRef>, secret: &'a SecretRef) -> ReceiverSettings<'a> {
    ReceiverSettings {
        name: "on-call",
        kind,
        url,
        secret: Some(secret),
        command: &[],
        directory: None,
        ca_file: None,
        timeout: Duration::from_secs(10),
        events: &[],
        sources: &[],
    }
}

fn around() -> Surroundings {
    Surroundings::with(Variables::new(|name| (name == "SECRET").then(|| SECRET.to_owned())))
}

fn receiver(kind: ReceiverKind, server: &Server) -> Receiver {
    let (url, secret) = (ValueRef::Text(server.url("/hook")), SecretRef::Env("SECRET".to_owned()));
    Receiver::new(&settings(kind, Some(&url), &secret), &around()).unwrap()
}

fn sender(subject: &TestStore, store: &redrive_store::Store, receiver: Receiver) -> Sender {
    let sender = Sender::new(store.outbox(), Arc::new(subject.clock.clone()), vec![receiver], in_words);
    sender.of_instance(Some("staging"), Some("https://redrive.example.org/"))
}

fn in_words(action: &NoticeAction) -> String {
    match action {
        NoticeAction::LiftHolds(source) => format!("lift the holds of {source}"),
        NoticeAction::RetryPartitions(_) | NoticeAction::RetryRuns(_) | NoticeAction::Undo(_) => String::new(),
    }
}

async fn tell(subject: &TestStore, what: &str) {
    let action = Some(NoticeAction::LiftHolds("ads".parse().unwrap()));
    let notice = Notice { what: what.to_owned(), action, ..Notice::test("a tester", subject.now()) };
    subject.store.outbox().add(notice).await.unwrap();
    subject.clock.advance(Duration::from_secs(1));
}

/// Whether a receiver that knows the secret believes the request.
fn is_signed(request: &Request) -> bool {
    let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
    let key = base64::engine::general_purpose::STANDARD.decode(&SECRET["whsec_".len()..]).unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
    let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), request.body);
    mac.update(signed.as_bytes());
    let given = header("webhook-signature");
    let given = base64::engine::general_purpose::STANDARD.decode(given.strip_prefix("v1,").unwrap_or_default());
    given.is_ok_and(|given| mac.verify_slice(&given).is_ok())
}

/// SV-7: a receiver that is down for an hour gets it later, once, and the signature verifies.
async fn a_receiver_that_was_down_gets_it_later_and_once(subject: TestStore) {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let server = Server::start(move |_| match up.load(Ordering::SeqCst) {
        true => Reply::ok(""),
        false => Reply::new(503, "down for repair"),
    });
    let sender = sender(&subject, &subject.store, receiver(ReceiverKind::Webhook, &server));
    tell(&subject, "one thing").await;
    let begun = subject.now();
    while subject.now().since(begun) < Duration::from_secs(3600) {
        assert_eq!(sender.pass().await.unwrap().delivered, 0);
        subject.clock.advance(Duration::from_secs(60));
    }
    let tried = server.requests().len();
    assert!((5..20).contains(&tried), "{tried} times in an hour");
    is_up.store(true, Ordering::SeqCst);
    subject.clock.advance(Duration::from_secs(1000));
    assert_eq!(sender.pass().await.unwrap(), Sent { delivered: 1, failed: 0 });
    subject.clock.advance(Duration::from_secs(86_400));
    assert_eq!(sender.pass().await.unwrap(), Sent::default());
    let all = server.requests();
    assert_eq!(all.len(), tried + 1);
    assert!(all.iter().all(is_signed));
    assert!(all.iter().all(|request| request.headers["webhook-id"] == all[0].headers["webhook-id"]));
    assert!(all[0].headers["webhook-timestamp"] < all[tried].headers["webhook-timestamp"]);
    let body: Value = serde_json::from_str(&all[tried].body).unwrap();
    assert_eq!((&body["type"], &body["data"]["what"]), (&"test".into(), &"one thing".into()));
    assert_eq!(body["data"]["link"], "https://redrive.example.org/");
    assert_eq!(body["data"]["next"], NEXT);
    assert_eq!(body["data"]["instance"], "staging");
    assert!(body["data"]["audit_head"].as_str().unwrap().starts_with("0:"));
}

/// SV-7
async fn two_senders_send_once(subject: TestStore) {
    let server = Server::start(|_| Reply::ok(""));
    let other = subject.again().await;
    let senders = [
        sender(&subject, &subject.store, receiver(ReceiverKind::Webhook, &server)),
        sender(&subject, &other, receiver(ReceiverKind::Webhook, &server)),
    ];
    for nth in 0..10 {
        let notice = Notice { subject: format!("thing:{nth}"), ..Notice::test("a tester", subject.now()) };
        subject.store.outbox().add(notice).await.unwrap();
    }
    let (one, two) = tokio::join!(senders[0].pass(), senders[1].pass());
    let third = senders[0].pass().await.unwrap();
    assert_eq!(one.unwrap().delivered + two.unwrap().delivered + third.delivered, 10);
    let mut ids: Vec<String> = server.requests().iter().map(|one| one.headers["webhook-id"].clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), server.requests().len()), (10, 10));
}

async fn slack_gets_text_and_blocks_in_which_nothing_pings(subject: TestStore) {
    let server = Server::start(|_| Reply::ok("ok"));
    let sender = sender(&subject, &subject.store, receiver(ReceiverKind::Slack, &server));
    tell(&subject, "failed: <!channel> & <host>").await;
    assert_eq!(sender.pass().await.unwrap().delivered, 1);
    let body: Value = serde_json::from_str(&server.requests()[0].body).unwrap();
    assert_eq!(body["text"], "staging: failed: &lt;!channel&gt; &amp; &lt;host&gt;");
    assert_eq!(body["blocks"].as_array().unwrap().len(), 3);
    assert!(body["blocks"][1]["fields"].to_string().contains(NEXT), "{body}");
    assert!(!body.to_string().contains("<!channel>"));
}

async fn a_program_gets_it_on_stdin(subject: TestStore) {
    let folder = subject.database.path().to_owned();
    let command = ["sh", "-c", "cat > told.json; test -s told.json"].map(str::to_owned);
    let secret = SecretRef::Env("SECRET".to_owned());
    let settings = ReceiverSettings {
        command: &command,
        directory: Some(&folder),
        events: &[NoticeKind::Test],
        ..settings(ReceiverKind::Command, None, &secret)
    };
    let sender = sender(&subject, &subject.store, Receiver::new(&settings, &around()).unwrap());
    tell(&subject, "one thing").await;
    assert_eq!(sender.pass().await.unwrap(), Sent { delivered: 1, failed: 0 });
    let told: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("told.json")).unwrap()).unwrap();
    assert_eq!(told["data"]["what"], "one thing");
}

redrive_fixture::on_both_databases!(
    a_receiver_that_was_down_gets_it_later_and_once,
    two_senders_send_once,
    slack_gets_text_and_blocks_in_which_nothing_pings,
    a_program_gets_it_on_stdin,
);
