//! A parse that is broken off: by an orderly stop, and by an operator. What is added later is only what is missing.

use std::time::Duration;

use redrive_core::run::{State, label};
use redrive_data::worker::LeaseTerms;
use redrive_fixture::eventually;

use crate::everywhere;
use crate::lab::{Lab, TERMS, conf, tar};

/// Several batches.
pub fn archive() -> Vec<u8> {
    let files: Vec<(String, Vec<u8>)> =
        (0..8).map(|nth| (format!("app{nth}/default/props.conf"), conf(8_000))).collect();
    let files: Vec<_> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    tar(&files)
}

async fn an_orderly_stop_gives_the_upload_back_untried(lab: Lab) {
    let bytes = archive();
    let run_id = lab.upload("apps.tar", &bytes).await.run.run_id;
    let (worker, stop) = lab.worker(TERMS).await;
    let working = tokio::spawn(worker.run());
    eventually("something is added", async || lab.database.number("SELECT count(*) FROM stanzas") > 0).await;
    stop.request();
    stop.request();
    let counts = working.await.unwrap().unwrap();
    let run = lab.run(run_id).await;
    assert_eq!((counts.released, label(&run), run.state), (1, "STORED", State::Queued), "{counts:?}");
    assert_eq!((run.attempt, run.retry_count), (0, 0), "no attempt is burnt");
    let part = lab.stanzas(run_id).await.len();
    assert!(part < 64_000, "it was not over yet");

    let whole = lab.upload("again.tar", &bytes).await.run.run_id;
    assert_eq!(lab.drain().await.accepted, 2);
    let (broken_off, undisturbed) = (lab.content(run_id).await, lab.content(whole).await);
    assert_eq!(broken_off.len(), 64_000);
    assert!(broken_off == undisturbed, "what was broken off is whole, and nothing is twice");
    assert_eq!(lab.metrics(run_id).await["stanzas_created"], 64_000);
}

async fn an_operator_stops_a_parse(lab: Lab) {
    let run_id = lab.upload("apps.tar", &archive()).await.run.run_id;
    let terms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_millis(50) };
    let working = tokio::spawn(lab.worker(terms).await.0.run());
    eventually("something is added", async || lab.database.number("SELECT count(*) FROM stanzas") > 0).await;
    lab.cancel(run_id).await;
    let counts = working.await.unwrap().unwrap();
    assert_eq!((counts.accepted, counts.cancelled + counts.lost), (0, 1), "{counts:?}");
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.error_message.as_deref()), ("FAILED", Some("cancelled by ada")));
}

everywhere!(an_orderly_stop_gives_the_upload_back_untried, an_operator_stops_a_parse);
