//! The sink is gone as a whole: uploads are given back and burn nothing, whenever a parse meets it. What is wrong with one object while
//! the sink is well counts (`outages.rs`).

use std::io;
use std::pin::pin;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use redrive_core::failure::ErrorClass;
use redrive_core::id::RunId;
use redrive_core::run::{State, label};
use redrive_data::ingest::NotUploaded;
use redrive_data::worker::{AttemptEnd, AttemptResult};
use redrive_fixture::{TestDatabase, eventually};
use tokio::sync::Barrier;

use crate::everywhere;
use crate::lab::{Lab, Leaving, Sink, TERMS, conf};
use crate::proxy::Way;
use crate::stopping::archive;

/// How much of an object on S3 is asked for at once.
const BLOCK: usize = 2 << 20;

/// One attempt, which must end in giving the upload back.
async fn give_back_once(lab: &Lab) {
    let claimed = lab.claim().await.unwrap();
    let result = lab.attempt(claimed).await;
    let AttemptResult::InfraFailed { error, give_back } = result else { panic!("{result:?}") };
    let end = give_back.await;
    assert!(matches!(end, AttemptEnd::Released), "{error}: {end:?}");
}

async fn assert_untried(lab: &Lab, run_id: RunId) {
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.state, run.attempt, run.retry_count), ("STORED", State::Queued, 0, 0));
    assert_eq!((run.error_message, run.metrics), (None, None));
    assert_eq!(lab.store.view().run_failures(run_id).await.unwrap(), [], "nothing is blamed on the upload");
}

/// More often than an upload may fail.
async fn a_vanished_sink_costs_an_upload_nothing(lab: Lab) {
    let run_id = lab.upload("props.conf", &conf(10)).await.run.run_id;
    for leaving in [Leaving::Nothing, Leaving::EmptyPlace, Leaving::Nothing, Leaving::EmptyPlace, Leaving::Nothing] {
        lab.take_sink_away(leaving);
        give_back_once(&lab).await;
        assert_untried(&lab, run_id).await;
        lab.bring_sink_back();
    }
    assert_eq!(lab.drain().await.accepted, 1);
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.attempt, run.retry_count), ("COMPLETE", 1, 0));
}

/// What was sent cannot be stored: its sender hears of it, and no run fails.
async fn an_upload_that_meets_a_vanished_sink_stays_pending(lab: Lab) {
    for leaving in [Leaving::Nothing, Leaving::EmptyPlace] {
        lab.take_sink_away(leaving);
        let before = lab.try_upload("before.conf", b"[a]\n").await.unwrap_err();
        lab.bring_sink_back();
        let turns = Barrier::new(2);
        let pieces = pin!(stream::iter(0..3).then(|nth| {
            let turns = &turns;
            async move {
                if nth == 1 {
                    turns.wait().await;
                    turns.wait().await;
                }
                io::Result::Ok(Bytes::from_static(b"[a]\n"))
            }
        }));
        let vanishing = async {
            turns.wait().await;
            lab.upload_has_begun().await;
            lab.take_sink_away(leaving);
            turns.wait().await;
        };
        let uploads = lab.uploads();
        let (meanwhile, ()) = tokio::join!(uploads.upload("meanwhile.conf", None, pieces), vanishing);
        let meanwhile = meanwhile.unwrap_err();
        lab.bring_sink_back();
        for error in [before, meanwhile] {
            let NotUploaded::Sink { run_id, .. } = error else { panic!("{error}") };
            let run = lab.run(run_id).await;
            assert_eq!((label(&run), run.state), ("PENDING", State::Storing));
            assert_eq!(lab.store.view().upload(run_id).await.unwrap(), None);
            assert_eq!(lab.store.view().run_failures(run_id).await.unwrap(), []);
        }
        lab.upload("props.conf", b"[a]\n").await;
        assert_eq!(lab.drain().await.accepted, 1, "the next one is stored and parsed");
    }
}

everywhere!(a_vanished_sink_costs_an_upload_nothing, an_upload_that_meets_a_vanished_sink_stays_pending);

/// On a file system an open file can be read to its end, wherever its folder is. On S3 every block is asked for.
mod in_the_middle {
    use super::*;

    /// How many requests check an archive, before it is read again to be parsed.
    fn requests_to_check(bytes: &[u8]) -> u32 {
        u32::try_from(1 + bytes.len().div_ceil(BLOCK)).unwrap()
    }

    async fn a_sink_that_vanishes_while_an_archive_is_read_burns_nothing(lab: Lab) {
        let (bytes, proxy) = (archive(), lab.proxy.as_ref().unwrap());
        let run_id = lab.upload("apps.tar", &bytes).await.run.run_id;
        for way in [Way::Forbids, Way::LosesAll] {
            for requests in [2, requests_to_check(&bytes) + 1] {
                proxy.fail_after(requests, way);
                give_back_once(&lab).await;
                assert_untried(&lab, run_id).await;
            }
        }
        let part = lab.stanzas(run_id).await.len();
        assert!(part > 0 && part < 64_000, "it was in the middle: {part}");
        proxy.fail(Way::Well);
        assert_eq!(lab.drain().await.accepted, 1);
        assert_eq!(lab.stanzas(run_id).await.len(), 64_000);
        assert_eq!(lab.run(run_id).await.attempt, 1);
    }

    /// It is back before the worker looks where it is.
    async fn a_sink_that_is_away_for_a_moment_costs_nothing(lab: Lab) {
        let run_id = lab.upload("props.conf", &conf(10)).await.run.run_id;
        lab.proxy.as_ref().unwrap().fail_once(Way::LosesAll);
        let claimed = lab.claim().await.unwrap();
        let result = lab.attempt(claimed).await;
        assert!(matches!(result, AttemptResult::Ended(AttemptEnd::Accepted { records: 10 })), "{result:?}");
        assert_eq!(lab.run(run_id).await.retry_count, 0);
    }

    /// The same of one object: it is not there any more, and all others are.
    async fn an_object_that_vanishes_while_it_is_read_counts(lab: Lab) {
        let (bytes, proxy) = (archive(), lab.proxy.as_ref().unwrap());
        let run_id = lab.upload("apps.tar", &bytes).await.run.run_id;
        proxy.fail_after(2, Way::LosesUploads);
        let claimed = lab.claim().await.unwrap();
        let result = lab.attempt(claimed).await;
        let AttemptResult::Ended(AttemptEnd::Rejected { class: ErrorClass::Retryable }) = result else {
            panic!("{result:?}")
        };
        let run = lab.run(run_id).await;
        assert_eq!((run.state, run.attempt, run.retry_count), (State::Waiting, 1, 1));
        assert!(run.error_message.unwrap().contains("is not there"));
    }

    /// The worker finds the sink well, claims, and only then nothing can be had.
    async fn a_worker_rests_until_the_sink_is_back(lab: Lab) {
        let mut uploads = Vec::new();
        for _ in 0..3 {
            uploads.push(lab.upload("props.conf", &conf(10)).await.run.run_id);
        }
        let proxy = lab.proxy.as_ref().unwrap();
        proxy.fail_after(1, Way::Forbids);
        let (worker, stop) = lab.worker_until(TERMS, false).await;
        let counts = worker.counts();
        let working = tokio::spawn(worker.run());
        eventually("all are given back", async || counts.borrow().released == 3).await;
        for run_id in &uploads {
            assert_untried(&lab, *run_id).await;
        }
        proxy.fail(Way::Well);
        eventually("all are parsed", async || counts.borrow().accepted == 3).await;
        stop.request();
        assert_eq!(working.await.unwrap().unwrap().claimed, 6, "nothing is claimed while the sink is gone");
        for run_id in uploads {
            let run = lab.run(run_id).await;
            assert_eq!((label(&run), run.attempt, run.retry_count), ("COMPLETE", 1, 0));
        }
    }

    macro_rules! on_s3 {
        ($($name:ident),+ $(,)?) => {
            everywhere!(@ sqlite_s3 sqlite S3 $($name),+);
            everywhere!(@ postgres_s3 postgres S3 $($name),+);
        };
    }

    on_s3!(
        a_sink_that_vanishes_while_an_archive_is_read_burns_nothing,
        a_sink_that_is_away_for_a_moment_costs_nothing,
        an_object_that_vanishes_while_it_is_read_counts,
        a_worker_rests_until_the_sink_is_back,
    );
}

/// A server that fails so that the client itself asks again for half a minute each time.
async fn a_server_that_is_down(way: Way) {
    let lab = Lab::new(TestDatabase::sqlite(), Sink::S3).await;
    let run_id = lab.upload("props.conf", &conf(2_000)).await.run.run_id;
    let proxy = lab.proxy.as_ref().unwrap();
    proxy.fail(way);
    give_back_once(&lab).await;
    assert_untried(&lab, run_id).await;
    proxy.fail(Way::Well);
    assert_eq!(lab.drain().await.accepted, 1, "it is well again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; ./chaos runs it"]
async fn long_a_server_that_answers_503() {
    a_server_that_is_down(Way::Unavailable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; ./chaos runs it"]
async fn long_a_server_that_resets_connections() {
    a_server_that_is_down(Way::Resets).await;
}
