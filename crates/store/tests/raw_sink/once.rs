//! Nothing is written twice with different content, whoever tries.

use redrive_store::raw::{Error, RunOutcome};

use crate::lab::{Lab, attempt, key, later, lines, write};

pub async fn the_same_content_may_be_put_again(lab: Lab) {
    let sink = lab.sink().await;
    let first = write(&sink, attempt(&key("1"), 1), &["{\"a\":1}", "{\"a\":2}"]).await.unwrap();
    let before = lab.objects().await;
    let again = write(&sink, attempt(&key("1"), 1), &["{\"a\":1}", "{\"a\":2}"]).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(lab.objects().await, before);
}

pub async fn other_content_under_the_same_run_conflicts(lab: Lab) {
    let sink = lab.sink().await;
    let first = write(&sink, attempt(&key("1"), 1), &["{\"cost\":1.50}"]).await.unwrap();
    let other = write(&sink, attempt(&key("2"), 2), &["{\"cost\":1.51}"]).await.unwrap();
    let sizes = [&first, &other].map(|manifest| manifest.parts[0].compressed_bytes);
    assert_eq!(sizes[0], sizes[1], "only the hash can tell these apart");

    let error = write(&sink, attempt(&key("1"), 1), &["{\"cost\":1.51}"]).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("part-00000.jsonl.zst is already there with other content"), "{text}");
    sink.view().verify(&first).await.unwrap();
    assert_eq!(lines(&sink.view(), &first).await, ["{\"cost\":1.50}"]);
}

pub async fn other_content_of_another_size_conflicts(lab: Lab) {
    let sink = lab.sink().await;
    let first = write(&sink, attempt(&key("1"), 1), &["{\"cost\":1.50}"]).await.unwrap();
    let error = write(&sink, attempt(&key("1"), 1), &["{\"cost\":1.50}", "{}"]).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    sink.view().verify(&first).await.unwrap();
}

pub async fn a_run_whose_last_part_conflicts_has_no_manifest(lab: Lab) {
    let sink = lab.sink().await;
    let attempt = attempt(&key("1"), 1);
    let mut writer = sink.begin(attempt.clone());
    writer.write_line(b"{\"mine\":1}").await.unwrap();
    // A rival put its first part and died; ours is still in memory.
    let rival = write(&sink, attempt.clone(), &["{\"rival\":1}"]).await.unwrap();
    let manifest = lab.objects().await.into_iter().find(|name| name.ends_with("_manifest.json")).unwrap();
    lab.remove(&manifest).await;

    let error = writer.finish(RunOutcome::Complete, later()).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert_eq!(sink.view().manifest(&attempt.key, attempt.run_id).await.unwrap(), None);
    sink.view().verify(&rival).await.unwrap();
}

pub async fn a_second_manifest_conflicts(lab: Lab) {
    let sink = lab.sink().await;
    let abandoned = RunOutcome::Failed { error_class: "retryable".to_owned(), message: "lease expired".to_owned() };
    let first = sink.begin(attempt(&key("1"), 1)).finish(abandoned, later()).await.unwrap();
    let error = sink.begin(attempt(&key("1"), 1)).finish(RunOutcome::Complete, later()).await.unwrap_err();
    assert!(error.to_string().contains("_manifest.json is already there with other content"), "{error}");
    assert_eq!(sink.view().manifest(&key("1"), first.run_id).await.unwrap(), Some(first));
}

pub async fn of_many_at_once_one_content_wins(lab: Lab) {
    let sink = lab.sink().await;
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..12 {
        let sink = sink.clone();
        let content = format!("{{\"content\":{}}}", racer % 3);
        racers.spawn(async move { write(&sink, attempt(&key("1"), 1), &[&content]).await });
    }
    let mut winners = Vec::new();
    while let Some(finished) = racers.join_next().await {
        match finished.unwrap() {
            Ok(manifest) => winners.push(manifest),
            Err(error) => assert!(matches!(error, Error::Conflict { .. }), "{error}"),
        }
    }
    assert_eq!(winners.len(), 4, "all who wrote the winning content, and nobody else");
    assert!(winners.iter().all(|manifest| *manifest == winners[0]));
    sink.view().verify(&winners[0]).await.unwrap();
    assert_eq!(lab.objects().await.len(), 2);
}
