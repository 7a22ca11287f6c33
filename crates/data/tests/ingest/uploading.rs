//! From the first byte to the queue.

use std::io;

use bytes::Bytes;
use futures_util::stream;
use redrive_core::failure::ErrorClass;
use redrive_core::run::{Run, State, Work, Workload, label};
use redrive_data::ingest::NotUploaded;
use redrive_store::RunPage;
use redrive_store::raw::Sha256;

use crate::everywhere;
use crate::lab::{Lab, MAX_UPLOAD, conf};

async fn runs(lab: &Lab) -> Vec<Run> {
    lab.store.view().runs(RunPage { workload: Some(Workload::Ingest), limit: 9, ..RunPage::default() }).await.unwrap()
}

async fn an_upload_is_pending_then_stored_and_queued(lab: Lab) {
    let view = lab.store.view();
    let seen = std::sync::Mutex::new(None);
    let body = stream::once(async {
        // While the body comes, the run is there.
        let run = runs(&lab).await.pop();
        *seen.lock().unwrap() = run.map(|run| (label(&run), run.state));
        Ok(Bytes::from_static(b"[a]\nb = 1\n"))
    });
    let uploaded = lab.uploads().upload("some/where/props.conf", None, body).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(("PENDING", State::Storing)));
    let run = view.run(uploaded.run.run_id).await.unwrap().unwrap();
    assert_eq!((label(&run), run.state, run.attempt), ("STORED", State::Queued, 0));
    assert_eq!(run.work, Work::Ingest { upload: "props.conf".to_owned() });
    let stored = view.upload(run.run_id).await.unwrap().unwrap().stored;
    assert_eq!((stored.bytes, stored.sha256), (10, Sha256::of(b"[a]\nb = 1\n")));
    assert_eq!(lab.claim().await.map(|run| run.run_id), Some(run.run_id), "a parse task is enqueued");
}

/// Larger than a part of a multipart upload.
async fn a_large_body_arrives_whole(lab: Lab) {
    let bytes = conf(250_000);
    assert!(bytes.len() > 16 << 20);
    let uploaded = lab.upload("props.conf", &bytes).await;
    assert_eq!(uploaded.upload.stored.sha256, Sha256::of(&bytes));
    let object = uploaded.upload.stored.object.clone();
    let mut reader = lab.blobs.open_object(&object).await.unwrap().unwrap();
    let (read, size) = tokio::task::spawn_blocking(move || {
        let mut read = Vec::new();
        io::Read::read_to_end(&mut reader, &mut read).unwrap();
        (read, reader.size())
    })
    .await
    .unwrap();
    assert!(read == bytes && size == uploaded.upload.stored.bytes);
}

async fn the_same_bytes_make_a_new_run_that_names_the_earlier(lab: Lab) {
    let first = lab.upload("one.conf", b"[a]\n").await;
    let second = lab.upload("two.conf", b"[a]\n").await;
    assert_ne!(first.run.run_id, second.run.run_id);
    assert_eq!(second.upload.same_as, Some(first.run.run_id));
    assert_eq!(lab.drain().await.accepted, 2);
    assert_eq!(lab.stanzas(second.run.run_id).await.len(), 1);
}

/// What breaks off leaves a run that says so, and nothing under its name; the next upload works.
async fn a_body_that_breaks_off_leaves_a_run_that_is_pending(lab: Lab) {
    for large in [0, 10 << 20] {
        let pieces = (0..=large / (1 << 20)).map(|_| Ok(Bytes::from(vec![b'#'; 1 << 20])));
        let body = pieces.chain([Err(io::Error::other("the client is gone"))]);
        let error = lab.uploads().upload("apps.tgz", None, stream::iter(body)).await.unwrap_err();
        let NotUploaded::Body { run_id, .. } = error else { panic!("{error}") };
        assert_eq!(label(&lab.run(run_id).await), "PENDING");
        assert_eq!(lab.store.view().upload(run_id).await.unwrap(), None);
        let object = format!("_uploads/run_id={run_id}/archive");
        assert!(lab.blobs.open_object(&object).await.unwrap().is_none(), "nothing is left under its name");
    }
    assert!(lab.claim().await.is_none(), "no worker gets it");
    lab.upload("apps.conf", b"[a]\n").await;
    assert_eq!(lab.drain().await.accepted, 1);
}

async fn what_is_too_large_is_refused(lab: Lab) {
    let endless = stream::repeat_with(|| Ok(Bytes::from(vec![b'#'; 1 << 20])));
    let error = lab.uploads().upload("apps.tgz", None, endless).await.unwrap_err();
    let NotUploaded::TooLarge { max: MAX_UPLOAD, run_id: Some(run_id), .. } = error else { panic!("{error}") };
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.state, run.error_class), ("FAILED", State::Dead, Some(ErrorClass::Final)));
    assert_eq!(lab.metrics(run_id).await["error_type"], "limit_exceeded");
    assert!(run.error_message.unwrap().contains("max_upload") && run.completed_at.is_some());
    assert!(lab.claim().await.is_none());
    let failures = lab.store.view().run_failures(run_id).await.unwrap();
    assert_eq!(failures.len(), 1);

    let unread = stream::poll_fn(|_| -> std::task::Poll<Option<io::Result<Bytes>>> { panic!("the size was known") });
    let error = lab.uploads().upload("apps.tgz", Some(MAX_UPLOAD + 1), unread).await.unwrap_err();
    assert!(matches!(error, NotUploaded::TooLarge { run_id: None, .. }), "{error}");
    assert_eq!(runs(&lab).await.len(), 1, "no run is made for it");
}

everywhere!(
    an_upload_is_pending_then_stored_and_queued,
    a_large_body_arrives_whole,
    the_same_bytes_make_a_new_run_that_names_the_earlier,
    a_body_that_breaks_off_leaves_a_run_that_is_pending,
    what_is_too_large_is_refused,
);
