//! What becomes of whole archives.

use std::time::Duration;

use redrive_core::refusal::{Reason, Refused};
use redrive_core::run::{State, label};
use redrive_data::worker::{AttemptEnd, AttemptResult, LeaseTerms};
use redrive_fixture::eventually;
use serde_json::Value;

use crate::everywhere;
use crate::lab::{Lab, conf, corpus, corpus_file, tar};

/// Counts equal those of the tool that the corpus was measured with.
async fn every_archive_of_the_corpus_has_the_counts_of_its_manifest(lab: Lab) {
    let manifest: Value = serde_json::from_slice(&std::fs::read(corpus().join("manifest.json")).unwrap()).unwrap();
    let mut uploaded = Vec::new();
    for archive in manifest["archives"].as_array().unwrap() {
        let name = archive["archive"].as_str().unwrap();
        uploaded.push((archive.clone(), lab.upload(name, &corpus_file(name)).await.run.run_id));
    }
    let counts = lab.drain().await;
    assert_eq!(counts.accepted, u64::try_from(uploaded.len()).unwrap());
    for (archive, run_id) in uploaded {
        let name = &archive["archive"];
        let sum = |field: &str| {
            archive["conf"][field].as_u64().unwrap() + archive["meta"][field].as_u64().unwrap_or_default()
        };
        let metrics = lab.metrics(run_id).await;
        assert_eq!(metrics["files_parsed"], sum("files"), "{name}");
        assert_eq!(metrics["stanzas_created"], sum("stanzas"), "{name}");
        assert_eq!(metrics["parse_errors"], sum("parse_errors"), "{name}");
        let stanzas = lab.stanzas(run_id).await;
        assert_eq!(u64::try_from(stanzas.len()).unwrap(), sum("stanzas"), "{name}");
        let keys: usize = stanzas.iter().map(|stanza| stanza.settings.len()).sum();
        assert_eq!(u64::try_from(keys).unwrap(), sum("keys"), "{name}");
    }
}

async fn a_parsed_run_is_complete_with_its_metrics(lab: Lab) {
    let files: [(&str, &[u8]); 3] =
        [("a/default/props.conf", b"x = 1\n[s]\ny = 2\n"), ("a/README", b"-"), ("a/local/bad.conf", b"[open\nz = 1\n")];
    let run_id = lab.upload("apps.tar", &tar(&files)).await.run.run_id;
    lab.drain().await;
    let run = lab.run(run_id).await;
    assert_eq!((label(&run), run.state, run.next_retry_at), ("COMPLETE", State::Done, None));
    assert!(run.completed_at >= run.started_at && run.started_at.is_some() && run.task_id.is_some());
    assert!(run.last_heartbeat >= run.started_at);
    let metrics = lab.metrics(run_id).await;
    assert!(metrics["duration_seconds"].as_f64().unwrap() > 0.0);
    for (name, value) in [("files_parsed", 2), ("stanzas_created", 3), ("parse_errors", 1), ("retry_count", 0)] {
        assert_eq!(metrics[name], value, "{metrics}");
    }
    assert_eq!(metrics.as_object().unwrap().len(), 5);
    let stanzas = lab.stanzas(run_id).await;
    let told: Vec<_> = stanzas.iter().map(|s| (s.file.layer.as_str(), s.name.as_deref(), s.line)).collect();
    assert_eq!(told, [("default", None, 1), ("default", Some("s"), 2), ("local", None, 2)]);
}

/// No text breaks a database: U+0000 becomes its picture, and what is no text is one parse error.
async fn no_text_breaks_a_database(lab: Lab) {
    let files: [(&str, &[u8]); 4] = [
        ("nul.conf", b"[a\0b]\nk\0 = v\0w\n[a\0b]\nk\0 = again\n"),
        ("latin.conf", b"[a]\nk = \xe9\n"),
        ("utf16.conf", b"\xff\xfe[\0a\0]\0\n\0k\0=\0\xac\x20\n\0"),
        ("half.conf", b"\xff\xfe[\0\x00\xd8]\0"),
    ];
    let run_id = lab.upload("apps.tar", &tar(&files)).await.run.run_id;
    lab.drain().await;
    let metrics = lab.metrics(run_id).await;
    assert_eq!((&metrics["files_parsed"], &metrics["parse_errors"]), (&Value::from(4), &Value::from(2)));
    let stanzas = lab.stanzas(run_id).await;
    let told: Vec<_> = stanzas
        .iter()
        .map(|s| (s.name.as_deref().unwrap(), s.settings[0].key.as_str(), s.settings[0].value.as_str()))
        .collect();
    assert_eq!(told, [("a\u{2400}b", "k\u{2400}", "again"), ("a", "k", "€")]);
}

/// The same task delivered twice: the second does nothing.
async fn a_run_that_is_complete_returns_early(lab: Lab) {
    let run_id = lab.upload("props.conf", b"[a]\nb = 1\n").await.run.run_id;
    let claimed = lab.claim().await.unwrap();
    let first = lab.attempt(claimed.clone()).await;
    assert!(matches!(first, AttemptResult::Ended(AttemptEnd::Accepted { records: 1 })), "{first:?}");
    let before = lab.run(run_id).await;
    let again = lab.attempt(claimed).await;
    let AttemptResult::Ended(AttemptEnd::Refused(refused)) = again else { panic!("{again:?}") };
    assert_eq!(refused, Refused::NoOp(Reason::AlreadyCompleted));
    assert_eq!(Reason::AlreadyCompleted.to_string(), "already_completed");
    assert_eq!(lab.run(run_id).await, before);
    assert_eq!(lab.stanzas(run_id).await.len(), 1);
}

/// Heartbeats go on while a large file is parsed, and no faster than they are set.
async fn a_long_parse_beats(lab: Lab) {
    let run_id = lab.upload("savedsearches.conf", &conf(60_000)).await.run.run_id;
    let terms = LeaseTerms { lease: Duration::from_secs(60), heartbeat: Duration::from_millis(100) };
    let working = tokio::spawn(lab.worker(terms).await.0.run());
    let mut beats = std::collections::BTreeSet::new();
    eventually("it is parsed", async || {
        beats.extend(lab.run(run_id).await.last_heartbeat);
        working.is_finished()
    })
    .await;
    working.await.unwrap().unwrap();
    // One may come late and the next in time, so they are counted over the whole.
    let span = beats.last().copied().unwrap().since(beats.first().copied().unwrap());
    let most = span.as_millis() / 100 + 2;
    assert!(u128::try_from(beats.len()).unwrap() <= most, "no faster than they are set: {beats:?}");
    let run = lab.run(run_id).await;
    assert_eq!(run.state, State::Done, "{:?}", run.error_message);
    assert!(run.last_heartbeat > run.started_at, "it took {:?}", lab.metrics(run_id).await);
    assert_eq!(lab.stanzas(run_id).await.len(), 60_000);
}

everywhere!(
    every_archive_of_the_corpus_has_the_counts_of_its_manifest,
    a_parsed_run_is_complete_with_its_metrics,
    no_text_breaks_a_database,
    a_run_that_is_complete_returns_early,
    a_long_parse_beats,
);
