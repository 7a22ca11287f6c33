//! SV-3: what an operation writes is noted with the idempotency key of its request. On both databases.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_control::{Audit, ControlPlane, Error, Halt, Report, Request, Sink, Sources, Verb, Watch};
use redrive_core::filter::Filter;
use redrive_core::key::PartitionKey;
use redrive_core::partition::Status;
use redrive_fixture::{OnDatabase, TestDatabase, TestStore, boom};
use redrive_store::raw::S3Options;
use redrive_store::{KeyFound, KeyHold, KeyedRequest, under_key};

/// A server with a failed partition, whose clock the test holds.
struct Server {
    on: TestStore,
    plane: ControlPlane,
    failed: PartitionKey,
}

impl OnDatabase for Server {
    async fn on(database: TestDatabase) -> Self {
        let raw = format!("file:{}", database.path().join("raw").display());
        let on = TestStore::on(database).await;
        let sink = Sink::new(raw.parse().unwrap(), S3Options::default());
        let plane = ControlPlane::new(on.store.control(), sink, Sources::default(), "2015-01-01".parse().unwrap());
        let failed = PartitionKey::new("ads", "1", "daily", "2026-09-01").unwrap();
        on.judged(vec![failed.clone()], boom()).await;
        Self { on, plane, failed }
    }
}

impl Server {
    async fn begin(&self) -> KeyFound {
        let request = KeyedRequest {
            actor: "token:ada".to_owned(),
            route: "POST /v1/state/retry".to_owned(),
            key: "k1".to_owned(),
            body_hash: vec![1; 32],
        };
        self.on.store.begin_key(request).await.unwrap()
    }

    async fn fresh_key(&self) -> KeyHold {
        let found = self.begin().await;
        let KeyFound::Fresh(hold) = found else { panic!("{found:?}") };
        hold
    }

    async fn retry_under(&self, hold: KeyHold) -> Report {
        let verb = Verb::Retry { clear_terminal: false, allow_missing_raw: true, stale: false, grant: None };
        let filter =
            Filter { source: "ads".parse().map(redrive_core::any_of::AnyOf::one).unwrap(), ..Filter::default() };
        let audit =
            Audit { reason: Some("the API is back".to_owned()), ..Audit::new("token:ada", "POST /v1/state/retry") };
        let request = Request { verb, filter, audit, limit: None };
        let go = AtomicBool::new(false);
        let watch = Watch { cancelled: &go, progress: &|_| {}, stop_after: None };
        under_key(hold, self.plane.operate(&request, watch)).await.unwrap()
    }

    async fn status(&self) -> Status {
        self.on.store.view().partition(&self.failed).await.unwrap().unwrap().state.status
    }
}

/// A server that dies after the change and before its answer leaves the word that the change was made.
async fn an_operation_under_a_key_is_noted_with_it(server: Server) {
    let hold = server.fresh_key().await;
    assert_eq!(server.retry_under(hold).await.count_changed(), 1);
    server.on.clock.advance(Duration::from_secs(301));
    assert_eq!(server.begin().await, KeyFound::Interrupted);
}

/// Two requests with one key: the one that was slow changes nothing once the other has taken the key over.
async fn an_operation_whose_key_was_taken_over_changes_nothing(server: Server) {
    let slow = server.fresh_key().await;
    server.on.clock.advance(Duration::from_secs(301));
    server.fresh_key().await;
    let report = server.retry_under(slow).await;
    let why = report.halt;
    assert!(matches!(why, Some(Halt::Fault(Error::Store(redrive_store::Error::KeyTaken)))), "{why:?}");
    assert_eq!(server.status().await, Status::Failed);
}

redrive_fixture::on_both_databases!(
    an_operation_under_a_key_is_noted_with_it,
    an_operation_whose_key_was_taken_over_changes_nothing,
);
